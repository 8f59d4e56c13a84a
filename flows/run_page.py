"""What Prefect shows of a finished run of the platform: its stages, what they made, and the way to MLflow."""

import json
from collections.abc import Sequence

from flows.headline import short_duration
from flows.launch import StageResult
from flows.summary import Summary, headline_text
from flows.tracker_pages import TrackerPages


def markdown(summary: Summary, results: Sequence[StageResult], tracker: TrackerPages) -> str:
    """The page of one run. Full references stand at its end, to be pasted into a stage's form."""
    lines = [
        f"# {summary.recipe}, run {summary.lifecycle}",
        f"{summary.status} in {short_duration(summary.wall_s)}, seed {summary.seed}",
        _link("metrics of every stage in MLflow", tracker.lifecycle(summary.lifecycle)),
        _link("stages side by side in MLflow", tracker.stages(summary.lifecycle)),
        f"report: `{summary.report}`" if summary.report else "",
        "",
        "| stage | time | main metric | artifact |",
        "|---|---|---|---|",
    ]
    for row in summary.stages:
        took = "cached" if row.cached else short_duration(row.wall_s)
        made = ", ".join(f"`{text}`" for text in row.outputs.values())
        lines.append(f"| {row.label} | {took} | {headline_text(row.headline)} | {made} |")
    lines += [f"\nrelease gate not passed: {text}" for text in summary.failed_gates]
    lines += [f"\n{note}" for note in summary.notes]
    outputs = {result.label: result.outputs for result in results}
    lines += ["", "References, as a stage's form takes them:", "", "```json", json.dumps(outputs, indent=2), "```"]
    return "\n".join(lines)


def _link(text: str, url: str) -> str:
    return f"\n[{text}]({url})" if url else ""
