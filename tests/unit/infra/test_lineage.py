"""Laws of the lineage database."""

import threading
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from infra.artifacts import Model, Tokenizer
from infra.lineage import Base, Lineage, MetricPoint, StageRecord, now

A, B = "a" * 64, "b" * 64


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
def lineage(tmp_path: Path) -> Lineage:
    return Lineage(f"sqlite:///{tmp_path}/deep/lineage.db")


def test_the_migrations_make_exactly_the_tables_of_the_code(lineage: Lineage):
    with lineage.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []


def test_a_record_comes_back_as_it_was_committed(lineage: Lineage):
    written = record()
    history = [MetricPoint(name="x", value=0.1, step=s) for s in range(3)]
    lineage.commit(written, history)
    assert lineage.find_by_key(written.key) == written
    assert lineage.find_maker(A) == written
    assert lineage.history(written.key) == tuple(history)


def test_an_input_is_not_taken_for_an_output_and_an_unknown_key_is_none(lineage: Lineage):
    lineage.commit(record(), [])
    assert lineage.find_maker(B) is None
    assert lineage.find_by_key("z" * 64) is None
    assert lineage.history("z" * 64) == ()


def test_the_newest_run_of_a_key_is_the_one_that_counts(lineage: Lineage):
    lineage.commit(record(output=A), [])
    lineage.commit(record(output=B), [])
    assert lineage.find_by_key("k" * 64).outputs["model"]["digest"] == B


def test_opening_a_new_database_from_many_threads_at_once_migrates_it_once(tmp_path: Path):
    url, failures = f"sqlite:///{tmp_path}/lineage.db", []

    def open_and_write(i: int) -> None:
        try:
            Lineage(url).commit(record(key=f"{i:064d}"), [])
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=open_and_write, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert all(Lineage(url).find_by_key(f"{i:064d}") for i in range(6))


def test_a_lifecycle_row_is_created_and_then_updated(lineage: Lineage):
    lineage.save_lifecycle("one", recipe="tiny", seed=0, status="running", started_at=now())
    lineage.save_lifecycle("one", status="done", ended_at=now(), stages=[{"stage": "clean"}])
    (row,) = lineage.lifecycles()
    assert (row.recipe, row.status, row.stages) == ("tiny", "done", [{"stage": "clean"}])
