"""The migrations make the tables of the code, go up and down, and are run by one process at a time."""

import multiprocessing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import inspect, text

from infra import decisions, schema  # noqa: F401  decisions: its table is one of ours
from infra.database import open_engine
from infra.errors import BadSpecError
from infra.lineage import Base, Lineage


def test_the_migrations_make_exactly_the_tables_of_the_code(database_url: str):
    with Lineage(database_url).engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        assert compare_metadata(context, Base.metadata) == []


def test_down_to_nothing_leaves_nothing_and_up_again_is_the_same_schema(database_url: str):
    engine = open_engine(database_url)
    tables = set(Base.metadata.tables)
    for _ in range(2):
        schema.upgrade(engine)
        assert set(inspect(engine).get_table_names()) == tables | {"alembic_version"}
        schema.move(engine, schema.NOTHING)
        assert set(inspect(engine).get_table_names()) == {"alembic_version"}
        assert schema.revision(engine) == schema.NOTHING
    schema.upgrade(engine)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []


def test_a_schema_or_a_revision_that_is_not_known_is_refused(database_url: str):
    engine = Lineage(database_url).engine
    with pytest.raises(
        BadSpecError, match=r"lineage database .*: want a schema of base, .*, got '9999'; use the glmflow"
    ):
        schema.move(engine, "9999")
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(BadSpecError, match="got '9999'"):
        Lineage(database_url)


def _open(url: str) -> None:
    Lineage(url)


def test_processes_that_open_a_new_database_at_once_migrate_it_once(database_url: str):
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_open, args=(database_url,)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * 3


def test_the_command_moves_the_database_of_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GLMFLOW_LINEAGE_URL", url := f"sqlite:///{tmp_path}/x.db")
    schema.main(["head"])
    assert schema.revision(open_engine(url)) != schema.NOTHING
    schema.main(["base"])
    assert schema.revision(open_engine(url)) == schema.NOTHING
