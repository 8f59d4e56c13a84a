"""What people read of a retraining: in Prefect as an artifact, in the terminal as text."""

from collections.abc import Sequence

from infra.decisions import DecisionRow
from stages.decision_file import DecisionFile
from stages.drift import Measure

_TITLES = {
    "nothing_new": "Nothing new",
    "drifted": "Stopped: the corpus changed",
    "kept": "The champion stays",
    "promoted": "Promoted",
    "already_promoted": "Promoted by another run",
    "superseded": "Superseded",
    "rolled_back": "Promoted and rolled back",
}


def decision_page(row: DecisionRow) -> str:
    """The decision with its figures, as Markdown."""
    lines = [f"# {_TITLES[row.outcome]}", "", row.reason, ""]
    if row.decision:
        lines += [DecisionFile.model_validate(row.decision).markdown()]
    named = {"champion before": row.champion, "challenger": row.challenger, "sources": row.sources}
    lines += [f"- {name}: `{digest[:12]}`" for name, digest in named.items() if digest]
    return "\n".join(lines) + "\n"


def drift_page(measures: Sequence[Measure]) -> str:
    """How far the corpus is from the champion's, as Markdown."""
    lines = ["# The corpus beside the champion's", "", "| measure | value | limit | |", "|---|---:|---:|---|"]
    lines += [
        f"| {one.name.replace('_', ' ')} | {one.value:.4f} | {one.limit:.4f} | {'over' if one.is_exceeded else ''} |"
        for one in measures
    ]
    return "\n".join(lines) + "\n"
