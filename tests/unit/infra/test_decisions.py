"""Decisions come back newest first, as they were written."""

from pathlib import Path

from infra.decisions import DecisionRow, decisions, save_decision
from infra.lineage import Lineage, now


def row(outcome: str, **fields) -> DecisionRow:
    given = {"lifecycle_id": "", "recipe": "tiny", "sources": "s" * 64, "champion": "", "challenger": "", "reason": ""}
    return DecisionRow(decided_at=now(), outcome=outcome, **(given | {"decision": {}, "frozen": {}} | fields))


def test_they_come_back_newest_first(tmp_path: Path):
    lineage = Lineage(f"sqlite:///{tmp_path}/lineage.db")
    assert decisions(lineage) == ()
    save_decision(lineage, row("kept", reason="no better", decision={"alpha": 0.05}, frozen={"corpus": {"kind": "x"}}))
    save_decision(lineage, row("nothing_new"))
    newest, first = decisions(lineage)
    assert (newest.outcome, first.outcome) == ("nothing_new", "kept")
    assert (first.decision, first.frozen, first.reason) == ({"alpha": 0.05}, {"corpus": {"kind": "x"}}, "no better")
    assert decisions(lineage, limit=1)[0].id == newest.id
