"""Links to MLflow's pages: the runs of one lifecycle, its stages side by side, and two lifecycles side by side.

A tracker that does not answer, or knows no such run, gives no link ("").
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx

from infra.tracking import EXPERIMENT, LIFECYCLE_TAG

REQUEST_TIMEOUT_S = 10.0
MAX_RUNS = 200
MIN_COMPARED = 2


@dataclass(frozen=True)
class TrackerPages:
    """The pages of the MLflow server at `url`."""

    url: str
    credentials: tuple[str, str] | None = None

    def lifecycle(self, lifecycle_id: str) -> str:
        """The table of one lifecycle's runs."""
        found = self._runs(lifecycle_id)
        if not found:
            return ""
        wanted = quote(f"tags.`{LIFECYCLE_TAG}` = '{lifecycle_id}'")
        return f"{self.url}/#/experiments/{found[0]['info']['experiment_id']}/runs?searchFilter={wanted}"

    def stages(self, lifecycle_id: str) -> str:
        """The evaluated models of one lifecycle side by side; before there are two of them, all its stages."""
        runs = [run for run in self._runs(lifecycle_id) if "stage" in _tags(run)]
        evaluations = [run for run in runs if _tags(run)["stage"] == "evaluate"]
        return self._compare(evaluations if len(evaluations) >= MIN_COMPARED else runs)

    def lifecycles(self, *lifecycle_ids: str) -> str:
        """Whole lifecycles side by side, by each stage's main metric."""
        parents = [run for i in lifecycle_ids for run in self._runs(i) if "mlflow.parentRunId" not in _tags(run)]
        return self._compare(parents)

    def _compare(self, runs: Sequence[dict[str, Any]]) -> str:
        if len(runs) < MIN_COMPARED:
            return ""
        ids = json.dumps([run["info"]["run_id"] for run in runs], separators=(",", ":"))
        experiments = json.dumps([runs[0]["info"]["experiment_id"]])
        return f"{self.url}/#/compare-runs?runs={quote(ids)}&experiments={quote(experiments)}"

    def _runs(self, lifecycle_id: str) -> list[dict[str, Any]]:
        """The lifecycle's runs, in the order in which they started."""
        known = self._ask("GET", "experiments/get-by-name", params={"experiment_name": EXPERIMENT})
        if not known:
            return []
        wanted = {
            "experiment_ids": [known["experiment"]["experiment_id"]],
            "filter": f"tags.`{LIFECYCLE_TAG}` = '{lifecycle_id}'",
            "order_by": ["attributes.start_time ASC"],
            "max_results": MAX_RUNS,
        }
        found: list[dict[str, Any]] = self._ask("POST", "runs/search", json=wanted).get("runs", [])
        return found

    def _ask(self, method: str, path: str, **content: Any) -> dict[str, Any]:
        try:
            reply = httpx.request(
                method,
                f"{self.url}/api/2.0/mlflow/{path}",
                auth=self.credentials,
                timeout=REQUEST_TIMEOUT_S,
                trust_env=False,
                **content,
            )
        except httpx.HTTPError:
            return {}
        answer: dict[str, Any] = reply.json() if reply.is_success else {}
        return answer


def _tags(run: dict[str, Any]) -> dict[str, str]:
    return {tag["key"]: tag["value"] for tag in run["data"].get("tags", [])}
