"""A lifecycle under a real Prefect API, with real stage processes and a real tracker: one server for all of it."""

import os
import re
from pathlib import Path

import pytest
from prefect.exceptions import TerminationSignal

from flows.prefect_api import PrefectApi
from infra.errors import BadSpecError
from infra.registry import connect
from infra.settings import Settings
from infra.tracking import LIFECYCLE_TAG
from stages import execution
from tests.support import toy_lifecycle
from tests.support.toy_lifecycle import ToyLifecycle, steps

pytestmark = pytest.mark.server


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ToyLifecycle:
    for name in ("code_digest", "environment"):
        monkeypatch.setattr(execution, name, getattr(execution, name))  # put back what `install` replaces
    for module in ("lifecycle", "stage_flows", "summary", "run"):
        monkeypatch.setattr(f"flows.{module}.load_stage", None)
    toy_lifecycle.install()
    for name in [name for name in os.environ if name.startswith("PREFECT")]:
        monkeypatch.delenv(name)
    return ToyLifecycle(tmp_path)


def flow_runs(api: PrefectApi) -> list[tuple[str, str]]:
    """(name, state) of every flow run, oldest first, as Prefect shows them."""
    import httpx

    rows = httpx.post(f"{api.url}/flow_runs/filter", json={"sort": "START_TIME_ASC"}, trust_env=False).json()
    return [(row["name"], row["state_name"]) for row in rows]


class OpenApi(PrefectApi):
    """Stays open after a run, so that several runs share it and its rows can be looked at."""

    def close(self) -> None:
        return

    def end(self) -> None:
        super().close()


def test_a_lifecycle_is_run_stopped_resumed_and_tracked(toy: ToyLifecycle):
    api = OpenApi(toy.settings)
    try:
        with toy.stop.listening():
            first = toy.run(steps("write", "retry"), api)
            with pytest.raises(TerminationSignal):
                toy.run(steps("write", "retry", "save"), api)
            toy.stop.signal = None
            resumed = toy.run(steps("write", "retry", "save"), api)
            with pytest.raises(BadSpecError, match="corpus x: want text"):
                toy.run(steps("write", "refuse"), api)
        runs = flow_runs(api)
    finally:
        api.end()
    assert [row.cached for row in first.stages] == [False, False]
    assert [row.cached for row in resumed.stages] == [True, True, False]
    assert [row.outputs for row in resumed.stages[:2]] == [row.outputs for row in first.stages]
    assert 0 < first.stage_process_s < first.wall_s
    names = [(re.sub(r"toy-.*", "toy", name), state) for name, state in runs]
    assert names[:3] == [("toy", "Completed"), ("0_write", "Completed"), ("1_retry", "Completed")]
    assert {("2_save", "Crashed"), ("2_save", "Completed"), ("1_refuse", "Failed"), ("toy", "Failed")} <= set(names)
    assert "attempt 2 of 3 starts" in toy.said()
    assert [row.status for row in toy.lineage.lifecycles()] == ["failed", "finished", "stopped", "finished"]
    assert_tracked(toy.settings, first.lifecycle, resumed.lifecycle)


def assert_tracked(settings: Settings, first: str, resumed: str) -> None:
    """A cached stage shows the metrics of its first run; every attempt is a run, and none is left open."""
    client = connect(settings.resolved_tracking_uri())
    experiment = client.get_experiment_by_name("glmflow")
    runs = client.search_runs([experiment.experiment_id], max_results=1000)
    assert {run.info.status for run in runs} == {"FINISHED", "FAILED", "KILLED"}

    def of(lifecycle: str) -> dict[str, dict[str, float]]:
        found = [r for r in runs if r.data.tags[LIFECYCLE_TAG] == lifecycle and "stage" in r.data.tags]
        return {r.info.run_name: r.data.metrics for r in found}

    assert set(of(first)) == {"0_write", "1_retry", "1_retry-attempt-2"}
    assert of(resumed)["0_write"] == of(first)["0_write"] == {"ingest/count": 2}
    parents = [run for run in runs if "stage" not in run.data.tags]
    assert len(parents) == 4
    assert all("lifecycle/wall_s" in run.data.metrics for run in parents)
