"""Decisions of retraining in the lineage database: what came of a change of the documents, and why.

One row a retraining, also when nothing was new. `frozen` names the held-out sets that both models were compared on, so
that the next retraining compares on the same ones.
"""

from datetime import datetime
from typing import Any, Literal

from sqlalchemy import JSON, String, Text, select
from sqlalchemy.orm import Mapped, mapped_column

from infra.lineage import Base, Lineage

Outcome = Literal["nothing_new", "drifted", "kept", "promoted", "already_promoted", "superseded", "rolled_back"]
SETTLED: tuple[Outcome, ...] = ("nothing_new", "kept", "promoted", "already_promoted", "rolled_back")


class DecisionRow(Base):
    """One retraining's end."""

    __tablename__ = "decisions"
    id: Mapped[int] = mapped_column(primary_key=True)
    decided_at: Mapped[datetime]
    lifecycle_id: Mapped[str] = mapped_column(String(40))  # "" where nothing was run
    recipe: Mapped[str] = mapped_column(String(40))
    sources: Mapped[str] = mapped_column(String(64), index=True)
    champion: Mapped[str] = mapped_column(String(64))  # digest, of before the decision; "" where there was none
    challenger: Mapped[str] = mapped_column(String(64))
    outcome: Mapped[Outcome] = mapped_column(String(20))
    reason: Mapped[str] = mapped_column(Text)
    decision: Mapped[dict[str, Any]] = mapped_column(JSON)  # a decision artifact's figures
    frozen: Mapped[dict[str, Any]] = mapped_column(JSON)


def save_decision(lineage: Lineage, row: DecisionRow) -> None:
    """Write one decision."""
    lineage.transact(lambda session: session.add(row))


def decisions(lineage: Lineage, limit: int = 50) -> tuple[DecisionRow, ...]:
    """Newest first."""
    newest = select(DecisionRow).order_by(DecisionRow.id.desc()).limit(limit)
    return tuple(lineage.transact(lambda session: session.scalars(newest).all()))
