"""What Prefect shows of a finished run of the platform: its stages, what they made, and the way to MLflow."""

import json
from collections.abc import Sequence
from urllib.parse import quote

import httpx

from flows.headline import short_duration
from flows.launch import StageResult
from flows.summary import Summary, headline_text
from infra.tracking import EXPERIMENT, LIFECYCLE_TAG

REQUEST_TIMEOUT_S = 10.0


def markdown(summary: Summary, results: Sequence[StageResult], compare_url: str) -> str:
    """The page of one run. Full references stand at its end, to be pasted into a stage's form."""
    lines = [
        f"# {summary.recipe}, run {summary.lifecycle}",
        f"{summary.status} in {short_duration(summary.wall_s)}, seed {summary.seed}",
        f"[metrics of every stage in MLflow]({compare_url})" if compare_url else "",
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


def compare_url(tracker_url: str, lifecycle_id: str) -> str:
    """MLflow's page of one lifecycle's runs; "" when the tracker does not answer or knows no run of ours yet."""
    try:
        reply = httpx.get(
            f"{tracker_url}/api/2.0/mlflow/experiments/get-by-name",
            params={"experiment_name": EXPERIMENT},
            timeout=REQUEST_TIMEOUT_S,
            trust_env=False,
        )
    except httpx.HTTPError:
        return ""
    if not reply.is_success:
        return ""
    experiment_id = reply.json()["experiment"]["experiment_id"]
    wanted = quote(f"tags.`{LIFECYCLE_TAG}` = '{lifecycle_id}'")
    return f"{tracker_url}/#/experiments/{experiment_id}/runs?searchFilter={wanted}"
