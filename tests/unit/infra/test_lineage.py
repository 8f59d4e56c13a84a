"""Laws of the lineage database, on SQLite and (slow) on PostgreSQL."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import insert, text

from infra.artifacts import Model, Tokenizer
from infra.lineage import ArtifactRow, Lineage, MetricPoint, StageRecord, now

A, B, C = "a" * 64, "b" * 64, "c" * 64


def record(key: str = "k" * 64, output: str = A) -> StageRecord:
    return StageRecord(
        stage="clean",
        key=key,
        seed=1,
        config={"min_words": 3},
        inputs={"tokenizer": Tokenizer(digest=B, num_bytes=5).model_dump(), "nested": {"x": {"a": 1}}},
        outputs={"model": Model(digest=output, num_bytes=2**40).model_dump()},
        metrics={"clean/docs_kept": 2.0},
        code_digest="c" * 64,
        environment={"python": "3.11"},
        host="h",
        started_at=now(),
        ended_at=now(),
        wall_s=1.5,
        peak_rss_bytes=2**33,
    )


@pytest.fixture
def lineage(database_url: str) -> Lineage:
    return Lineage(database_url)


def test_a_record_comes_back_as_it_was_committed(lineage: Lineage):
    written = record()
    history = [MetricPoint(name="x", value=0.1, step=s) for s in range(3)]
    lineage.commit(written, history)
    assert lineage.find_by_key(written.key) == written
    assert lineage.find_maker(A) == written
    assert lineage.history(written.key) == tuple(history)


def test_it_is_named_without_its_password(lineage: Lineage):
    password = lineage.engine.url.password
    assert "lineage" in lineage.place or "***" in lineage.place
    assert password is None or password not in lineage.place


def test_the_newest_user_of_an_artifact_is_found_by_its_input_field(lineage: Lineage):
    for key in ("k" * 64, "l" * 64):
        lineage.commit(record(key), [])
    assert lineage.find_user(B, "clean", "tokenizer").key == "l" * 64
    assert lineage.find_user(B, "clean", "corpus") is None
    assert lineage.find_user(B, "pack", "tokenizer") is None
    assert lineage.find_user(A, "clean", "model") is None  # an output


def test_an_input_is_not_taken_for_an_output_and_an_unknown_key_is_none(lineage: Lineage):
    lineage.commit(record(), [])
    assert lineage.find_maker(B) is None
    assert lineage.find_by_key("z" * 64) is None
    assert lineage.history("z" * 64) == ()


def test_the_newest_run_of_a_key_is_the_one_that_counts(lineage: Lineage):
    lineage.commit(record(output=A), [])
    lineage.commit(record(output=B), [])
    assert lineage.find_by_key("k" * 64).outputs["model"]["digest"] == B


def test_the_highest_peak_of_a_stage_is_that_of_runs_with_the_same_config(lineage: Lineage):
    one = record("a" * 64)
    for config, peak in (({"x": 1, "y": [2]}, 5), ({"x": 1, "y": [2]}, 9), ({"x": 2}, 70)):
        update = {"config": config, "peak_rss_bytes": peak, "key": str(peak) * 3}
        lineage.commit(one.model_copy(update=update), ())
    assert lineage.peak_rss_bytes(one.stage, {"y": [2], "x": 1}) == 9
    assert lineage.peak_rss_bytes(one.stage, {"x": 3}) == lineage.peak_rss_bytes("another", {"x": 2}) == 0


def test_a_commit_that_is_said_again_is_one_commit(lineage: Lineage):
    written, history = record(), [MetricPoint(name="x", value=0.1, step=0)]
    assert lineage.commit(written, history) == lineage.commit(written, history)
    assert lineage.history(written.key) == tuple(history)
    later = written.model_copy(update={"ended_at": now()})
    assert lineage.commit(later, []) != lineage.commit(written, history)


def test_opening_a_new_database_from_many_threads_at_once_migrates_it_once(database_url: str):
    keys = [f"{i:064d}" for i in range(6)]
    with ThreadPoolExecutor(len(keys)) as pool:
        list(pool.map(lambda key: Lineage(database_url).commit(record(key=key), []), keys))
    assert all(Lineage(database_url).find_by_key(key) for key in keys)


@pytest.mark.slow
def test_artifacts_are_written_in_one_order_so_that_two_writers_never_wait_for_each_other(postgres_database: str):
    lineage = Lineage(postgres_database)
    first, second = (Model(digest=digest, num_bytes=1).model_dump() for digest in (A, C))
    backwards = record().model_copy(update={"inputs": {"b": second}, "outputs": {"a": first}})
    row = insert(ArtifactRow)
    with ThreadPoolExecutor(1) as pool, lineage.engine.connect() as other:
        other.execute(row, first)
        writing = pool.submit(lineage.commit, backwards, [])
        while not other.execute(text("SELECT 1 FROM pg_locks WHERE NOT granted")).first():
            assert not writing.done()
        other.execute(text("SET LOCAL lock_timeout = '5s'"))
        other.execute(row, second)
        other.rollback()
        assert writing.result(10)


def test_a_lifecycle_row_is_created_and_then_updated(lineage: Lineage):
    lineage.save_lifecycle("one", recipe="tiny", seed=0, status="running", started_at=now())
    lineage.save_lifecycle("one", status="done", ended_at=now(), stages=[{"stage": "clean"}])
    (row,) = lineage.lifecycles()
    assert (row.recipe, row.status, row.stages) == ("tiny", "done", [{"stage": "clean"}])
