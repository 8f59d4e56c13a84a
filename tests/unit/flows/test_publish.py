"""A release is registered by its verdict, with every model it delivers."""

import json
from pathlib import Path

import pytest

from flows.launch import StageResult
from flows.publish import failed_gates, gates_passed, register_release, write_run_report
from flows.session import Session
from infra.artifacts import Release
from infra.lineage import LifecycleRow
from infra.settings import Settings
from infra.stores.local import LocalStore
from stages.contract import json_of
from tests.support.lifecycle_records import histories, lifecycle, record, records


def ref(kind: str, letter: str) -> dict[str, object]:
    return {"kind": kind, "digest": letter * 64, "num_bytes": 5}


RELEASE_INPUTS = {
    "model": ref("model", "a"),
    "int8": ref("quantized_model", "b"),
    "int4": ref("quantized_model", "c"),
    "reward_model": ref("reward_model", "d"),
}


SAMPLES = {"columns": ["prompt", "sft"], "data": [["1 + 1?", "2 <right>"]]}


class Tracker:
    registered: tuple[list, dict] | None = None
    table: tuple[str, str, dict] | None = None

    def register(self, run: str, models, **verdict) -> None:
        self.registered = (models, {"run": run, **verdict})

    def log_table(self, run: str, name: str, table) -> None:
        self.table = (run, name, table)


def session_of(results: list[StageResult], home: Path) -> Session:
    session = object.__new__(Session)
    session.results, session.tracker, session.tracking_run = results, Tracker(), "life"  # type: ignore[assignment]
    session.settings, session.lifecycle_id = Settings(home=home), "run-1"
    session.store = LocalStore(home / "store")
    return session


def put_release(home: Path) -> dict[str, object]:
    folder = home / "release"
    folder.mkdir(parents=True)
    (folder / "samples.json").write_text(json.dumps(SAMPLES))
    return {"release": json_of(LocalStore(home / "store").put(folder, Release))}


def release_result(passed: float, home: Path) -> StageResult:
    links = {"inputs": RELEASE_INPUTS, "outputs": put_release(home)}
    item = record("release", "release", {"release/passed": passed}).model_copy(update=links)
    return StageResult("release", "release", "k", False, 1, 1, item)


@pytest.mark.parametrize("passed", [0.0, 1.0])
def test_every_delivered_model_is_registered_and_the_gates_decide_about_the_champion(tmp_path: Path, passed: float):
    session = session_of([release_result(passed, tmp_path)], tmp_path)
    register_release(session, promotes=passed == 1)
    assert session.tracker.table == ("life", "samples.json", SAMPLES)
    models, verdict = session.tracker.registered
    assert [(m.name, m.digest[0], m.params["bits"]) for m in models] == [
        ("model", "a", "32"), ("int8", "b", "8"), ("int4", "c", "4"),
    ]  # fmt: skip
    assert models[2].params["parent"] == "a" * 64
    assert verdict == {"run": "life", "released": "a" * 64, "is_approved": passed == 1, "promotes": passed == 1}
    assert gates_passed(session.results) is (passed == 1)


def test_every_gate_that_was_not_passed_is_named_with_its_figures():
    metrics = {}
    for name, passed, value in (("int4_cost", 0.0, 0.0912), ("int8_cost", 1.0, 0.001)):
        metrics |= {f"release/gate_{what}/{name}": v for what, v in (("passed", passed), ("value", value))}
        metrics[f"release/gate_threshold/{name}"] = 0.08
    release = StageResult("release", "release", "k", False, 1, 1, record("release", "release", metrics))
    assert failed_gates([release]) == ["int4_cost: got 0.0912, limit 0.08"]
    assert failed_gates([]) == []


def test_a_run_without_a_release_registers_nothing(tmp_path: Path):
    session = session_of([StageResult("clean", "clean", "k", False, 1, 1, record("clean", "x", {}))], tmp_path)
    register_release(session, promotes=True)
    assert session.tracker.registered is None and gates_passed(session.results) is None


class Lineage:
    def history(self, key: str):
        return histories().get(key, [])


@pytest.mark.parametrize("num_finished", [1, 99])
def test_the_report_is_written_for_whole_and_for_broken_off_runs(tmp_path: Path, num_finished: int):
    found = records()
    found["release"] = found["release"].model_copy(update={"outputs": put_release(tmp_path)})
    results = [StageResult(label, r.stage, label, False, 1, 1, r) for label, r in found.items()][:num_finished]
    session = session_of(results, tmp_path)
    session.lineage = Lineage()  # type: ignore[assignment]
    row: LifecycleRow = lifecycle()
    path = write_run_report(session, row)
    text = path.read_text()
    assert path == tmp_path / "reports/run-1/report.html" and "</html>" in text
    assert ("2 &lt;right&gt;" in text) is (num_finished == 99)
