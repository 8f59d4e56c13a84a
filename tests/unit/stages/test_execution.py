"""Laws of running a stage once per key."""

import multiprocessing
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from infra.artifacts import SourceManifest
from infra.errors import BadSpecError
from infra.lineage import Lineage, MetricPoint
from infra.settings import Settings
from infra.stores.local import LocalStore
from stages import execution
from stages.execution import StageKey, execute, find_finished, read_history, refs_in
from tests.support.toy_stage import STAGE, ToyConfig, ToyInputs


@pytest.fixture(autouse=True)
def cheap_digests(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(execution, "code_digest", lambda modules: "c" * 64)
    monkeypatch.setattr(execution, "environment", lambda modules, threads: {"threads": str(threads)})


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path)


def lineage_of(settings: Settings) -> Lineage:
    return Lineage(settings.resolved_lineage_url())


def run_toy(settings: Settings, text: str = "hello", seed: int = 0):
    return execute(STAGE, ToyConfig(text=text), ToyInputs(), seed=seed, settings=settings)


def test_a_finished_stage_is_read_back_and_not_run_again(settings: Settings):
    first = run_toy(settings)
    broken = replace(STAGE, run=lambda *_: pytest.fail("ran again"))
    assert execute(broken, ToyConfig(), ToyInputs(), seed=0, settings=settings) == first


def test_a_hit_is_honoured_only_while_its_artifacts_are_whole(settings: Settings):
    first = run_toy(settings)
    shutil.rmtree(LocalStore(settings.store_dir).get(first.corpus))
    assert run_toy(settings) == first
    LocalStore(settings.store_dir).verify_bytes(first.corpus)


@pytest.mark.parametrize("change", [{"config": ToyConfig(text="x")}, {"seed": 1}, {"threads": 3}])
def test_config_seed_and_environment_are_part_of_the_key(change: dict):
    same = {"stage": STAGE, "config": ToyConfig(), "inputs": ToyInputs(), "seed": 0, "threads": 2}
    assert StageKey.of(**same) == StageKey.of(**same)
    assert StageKey.of(**same).key != StageKey.of(**(same | change)).key


def test_the_record_is_written_last(settings: Settings):
    with pytest.raises(RuntimeError, match="on fire"):
        execute(STAGE, ToyConfig(behaviour="raise"), ToyInputs(), seed=0, settings=settings)
    key = StageKey.of(STAGE, ToyConfig(behaviour="raise"), ToyInputs(), 0, settings.threads)
    assert find_finished(key, lineage_of(settings), LocalStore(settings.store_dir)) is None


def test_the_record_holds_metrics_with_their_history_and_the_work_is_cleaned_up(settings: Settings):
    run_toy(settings)
    key = StageKey.of(STAGE, ToyConfig(), ToyInputs(), 0, settings.threads)
    record = lineage_of(settings).find_by_key(key.key)
    assert record.metrics == {"toy/count": 2.0}
    assert [p.value for p in lineage_of(settings).history(key.key)] == [0.0, 1.0, 2.0]
    assert record.peak_rss_bytes > 2**20
    workdir = key.workdir(STAGE.name, settings)
    assert {p.name for p in workdir.iterdir()} == {"lock", "metrics.jsonl"}


def test_a_missing_input_is_refused_before_anything_runs(settings: Settings):
    inputs = ToyInputs(sources=SourceManifest(digest="d" * 64, num_bytes=1))
    with pytest.raises(BadSpecError, match=r"stage ingest: artifact source_manifest:dddddddddddd is not complete"):
        execute(STAGE, ToyConfig(), inputs, seed=0, settings=settings)


def test_an_undeclared_metric_is_an_error(settings: Settings):
    with pytest.raises(ValueError, match="metric 'toy/undeclared': want a name that the stage declares"):
        execute(STAGE, ToyConfig(behaviour="log_undeclared"), ToyInputs(), seed=0, settings=settings)


def test_two_processes_with_the_same_key_give_one_record_and_equal_outputs(settings: Settings):
    context = multiprocessing.get_context("fork")
    with context.Pool(3) as pool:
        outputs = pool.map(run_toy, [settings] * 3)
    assert outputs[0] == outputs[1] == outputs[2]


def test_a_step_repeated_after_a_resume_counts_once_and_a_cut_line_is_left_out(tmp_path: Path):
    path = tmp_path / "metrics.jsonl"
    lines = [MetricPoint(name="x", value=v, step=s).model_dump_json() for v, s in ((1, 1), (2, 2), (2, 2), (3, 3))]
    path.write_text("\n".join(lines) + '\n{"name": "x", "va')
    assert [(p.step, p.value) for p in read_history(path)] == [(1, 1.0), (2, 2.0), (3, 3.0)]


def test_references_are_found_however_deep_they_lie():
    ref = SourceManifest(digest="d" * 64, num_bytes=1).model_dump()
    assert [r.digest for r in refs_in({"a": ref, "b": {"c": ref}, "d": 3})] == ["d" * 64] * 2
