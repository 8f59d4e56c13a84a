"""Make a challenger that won the champion: under a lock, over the one it was compared with, undone if it fails live.

Two retrainings that come to the same challenger promote it once; one whose champion was replaced meanwhile promotes
nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass

from infra.artifacts import ArtifactRef
from infra.decisions import Outcome
from infra.lineage import Lineage
from infra.registry import ModelRegistry

LOCK = "promotion"


@dataclass(frozen=True)
class Promotion:
    """What came of it."""

    outcome: Outcome
    reason: str


def promote_winner(
    challenger: ArtifactRef,
    beaten: ArtifactRef | None,
    registry: ModelRegistry,
    lineage: Lineage,
    live_problem: Callable[[], str],
) -> Promotion:
    """Move the alias, then look at the served model. `beaten` is the champion of the comparison, None without one."""
    with lineage.exclusive(LOCK):
        champion = registry.resolve("champion")
        if champion is not None and champion.digest == challenger.digest:
            return Promotion("already_promoted", "Another run has promoted this very model.")
        if (champion and champion.digest) != (beaten and beaten.digest):
            now = champion.short if champion else "none"
            return Promotion("superseded", f"The champion is {now} by now, not the one compared; retrain again.")
        registry.promote_digest(challenger.digest)
        problem = live_problem()
        if not problem:
            return Promotion("promoted", f"{challenger.short} is the champion.")
        registry.withdraw()
        return Promotion("rolled_back", f"Promoted and rolled back; {problem}.")
