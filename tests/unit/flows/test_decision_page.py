"""The page of a decision says what, why and between whom."""

from flows.decision_page import decision_page, drift_page
from infra.decisions import DecisionRow
from infra.lineage import now
from stages.drift import Measure
from tests.unit.stages.test_decision_file import DECISION


def test_a_decision_shows_its_figures_and_its_models():
    row = DecisionRow(
        decided_at=now(), lifecycle_id="l", recipe="tiny", sources="s" * 64, champion="a" * 64, challenger="b" * 64,
        outcome="kept", reason="No better.", decision=DECISION.model_dump(mode="json"), frozen={},
    )  # fmt: skip
    page = decision_page(row)
    assert page.startswith("# The champion stays\n\nNo better.")
    assert "| instruction accuracy |" in page and "- challenger: `bbbbbbbbbbbb`" in page
    row.outcome, row.decision, row.challenger = "nothing_new", {}, ""
    assert "challenger" not in decision_page(row) and "# Nothing new" in decision_page(row)


def test_what_is_over_its_limit_is_marked():
    measures = [Measure(name="size_ratio", value=4, limit=3), Measure(name="domain_distance", value=0, limit=0.1)]
    lines = drift_page(measures).splitlines()
    assert lines[-2:] == ["| size ratio | 4.0000 | 3.0000 | over |", "| domain distance | 0.0000 | 0.1000 |  |"]
