"""Lineage database: which stage made which artifact from what. SQLAlchemy; SQLite by default.

A stage run is one row, written after its outputs are stored and verified. No row means that nothing happened.
"""

import fcntl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from pydantic import BaseModel, ConfigDict
from sqlalchemy import JSON, BigInteger, Double, Executable, ForeignKey, String, create_engine, event, insert, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Engine, make_url
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

from infra.artifacts import ArtifactRef

_MIGRATIONS = Path(__file__).with_name("migrations")
_BUSY_TIMEOUT_S = 60


class Base(DeclarativeBase):
    """Declarative base of the lineage tables."""


class ArtifactRow(Base):
    """An artifact that some stage run produced or consumed."""

    __tablename__ = "artifacts"
    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    kind: Mapped[str] = mapped_column(String(40), primary_key=True)
    num_bytes: Mapped[int] = mapped_column(BigInteger)


class StageRunRow(Base):
    """One finished stage run."""

    __tablename__ = "stage_runs"
    id: Mapped[int] = mapped_column(primary_key=True)
    stage: Mapped[str] = mapped_column(String(40), index=True)
    key: Mapped[str] = mapped_column(String(64), index=True)
    seed: Mapped[int]
    config: Mapped[dict[str, Any]] = mapped_column(JSON)
    inputs: Mapped[dict[str, Any]] = mapped_column(JSON)
    outputs: Mapped[dict[str, Any]] = mapped_column(JSON)
    metrics: Mapped[dict[str, float]] = mapped_column(JSON)
    code_digest: Mapped[str] = mapped_column(String(64))
    environment: Mapped[dict[str, str]] = mapped_column(JSON)
    host: Mapped[str] = mapped_column(String(200))
    started_at: Mapped[datetime]
    ended_at: Mapped[datetime]
    wall_s: Mapped[float] = mapped_column(Double)
    peak_rss_bytes: Mapped[int] = mapped_column(BigInteger)
    links: Mapped[list["StageArtifactRow"]] = relationship(cascade="all, delete-orphan")


class StageArtifactRow(Base):
    """A stage run's named input or output."""

    __tablename__ = "stage_artifacts"
    stage_run_id: Mapped[int] = mapped_column(ForeignKey("stage_runs.id"), primary_key=True)
    is_output: Mapped[bool] = mapped_column(primary_key=True)
    field: Mapped[str] = mapped_column(String(60), primary_key=True)
    kind: Mapped[str] = mapped_column(String(40))
    digest: Mapped[str] = mapped_column(String(64), index=True)


class MetricRow(Base):
    """One point of one metric's history."""

    __tablename__ = "metric_points"
    id: Mapped[int] = mapped_column(primary_key=True)
    stage_run_id: Mapped[int] = mapped_column(ForeignKey("stage_runs.id"), index=True)
    name: Mapped[str] = mapped_column(String(120))
    step: Mapped[int]
    value: Mapped[float] = mapped_column(Double)


class LifecycleRow(Base):
    """One lifecycle run: the recipe that was asked for, and how it ended."""

    __tablename__ = "lifecycles"
    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    recipe: Mapped[str] = mapped_column(String(40))
    seed: Mapped[int]
    status: Mapped[str] = mapped_column(String(20))
    started_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
    tracking_run_id: Mapped[str] = mapped_column(String(64), default="")
    stages: Mapped[list[dict[str, Any]]] = mapped_column(JSON, default=list)


class MetricPoint(BaseModel):
    """A metric at a step."""

    model_config = ConfigDict(frozen=True)
    name: str
    value: float
    step: int = 0


class StageRecord(BaseModel):
    """What is committed about a finished stage run."""

    model_config = ConfigDict(frozen=True)
    stage: str
    key: str
    seed: int
    config: dict[str, Any]
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    metrics: dict[str, float]
    code_digest: str
    environment: dict[str, str]
    host: str
    started_at: datetime
    ended_at: datetime
    wall_s: float
    peak_rss_bytes: int


def _links(record: StageRecord) -> Iterator[tuple[bool, str, ArtifactRef]]:
    for is_output, fields in ((False, record.inputs), (True, record.outputs)):
        for field, ref in _refs(fields):
            yield is_output, field, ref


def _refs(fields: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, ArtifactRef]]:
    for name, value in fields.items():
        if isinstance(value, dict) and {"kind", "digest", "num_bytes"} == value.keys():
            yield prefix + name, ArtifactRef.model_validate(value)
        elif isinstance(value, dict):
            yield from _refs(value, f"{prefix}{name}.")


class Lineage:
    """The lineage database behind `url`, brought to the newest schema when it is opened."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.engine = _engine(url)
        _migrate(self.engine)

    def commit(self, record: StageRecord, history: Sequence[MetricPoint]) -> int:
        """Write one finished stage run with its metric history, in one transaction; returns its id."""
        with Session(self.engine) as session, session.begin():
            row = StageRunRow(**record.model_dump())
            for is_output, field, ref in _links(record):
                session.execute(self._insert_if_absent(ArtifactRow), ref.model_dump())
                row.links.append(StageArtifactRow(is_output=is_output, field=field, kind=ref.kind, digest=ref.digest))
            session.add(row)
            session.flush()
            if history:
                session.execute(insert(MetricRow), [{"stage_run_id": row.id, **p.model_dump()} for p in history])
            return row.id

    def _insert_if_absent(self, table: type[Base]) -> Executable:
        """Two stages may record the same artifact at once; both SQLite and PostgreSQL know this statement."""
        if self.engine.dialect.name == "sqlite":
            return sqlite.insert(table).on_conflict_do_nothing()
        return postgresql.insert(table).on_conflict_do_nothing()

    def find_by_key(self, key: str) -> StageRecord | None:
        """The newest finished run of this key."""
        statement = select(StageRunRow).where(StageRunRow.key == key).order_by(StageRunRow.id.desc()).limit(1)
        with Session(self.engine) as session:
            row = session.scalars(statement).first()
            return _record(row) if row else None

    def find_maker(self, digest: str) -> StageRecord | None:
        """The newest stage run that has this artifact among its outputs."""
        statement = (
            select(StageRunRow)
            .join(StageArtifactRow)
            .where(StageArtifactRow.digest == digest, StageArtifactRow.is_output)
            .order_by(StageRunRow.id.desc())
            .limit(1)
        )
        with Session(self.engine) as session:
            row = session.scalars(statement).first()
            return _record(row) if row else None

    def history(self, key: str) -> tuple[MetricPoint, ...]:
        """Every metric point of the newest run of this key, in the order it was logged."""
        with Session(self.engine) as session:
            newest = select(StageRunRow.id).where(StageRunRow.key == key).order_by(StageRunRow.id.desc()).limit(1)
            run_id = session.scalar(newest)
            rows = session.scalars(select(MetricRow).where(MetricRow.stage_run_id == run_id).order_by(MetricRow.id))
            return tuple(MetricPoint(name=r.name, value=r.value, step=r.step) for r in rows)

    def save_lifecycle(self, lifecycle_id: str, **fields: Any) -> None:
        """Create or update one lifecycle row."""
        with Session(self.engine) as session, session.begin():
            row = session.get(LifecycleRow, lifecycle_id)
            if row is None:
                session.add(LifecycleRow(id=lifecycle_id, **fields))
                return
            for name, value in fields.items():
                setattr(row, name, value)

    def lifecycles(self, limit: int = 50) -> tuple[LifecycleRow, ...]:
        """Newest first."""
        with Session(self.engine, expire_on_commit=False) as session:
            return tuple(session.scalars(select(LifecycleRow).order_by(LifecycleRow.started_at.desc()).limit(limit)))


def _record(row: StageRunRow) -> StageRecord:
    return StageRecord.model_validate({name: getattr(row, name) for name in StageRecord.model_fields})


def _engine(url: str) -> Engine:
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        return create_engine(url, pool_pre_ping=True)
    if parsed.database:
        Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(url, connect_args={"timeout": _BUSY_TIMEOUT_S})

    @event.listens_for(engine, "connect")
    def _pragmas(connection: Any, _record: Any) -> None:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA foreign_keys=ON")

    return engine


def _migrate(engine: Engine) -> None:
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    head = ScriptDirectory.from_config(config).get_current_head()
    if _revision(engine) == head:
        return
    with _migration_lock(engine), engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def _revision(engine: Engine) -> str | None:
    with engine.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()


@contextmanager
def _migration_lock(engine: Engine) -> Iterator[None]:
    """Two processes that open a new SQLite file at once must not both create the tables."""
    if engine.dialect.name != "sqlite" or not engine.url.database:
        yield
        return
    with Path(engine.url.database + ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def now() -> datetime:
    """The present instant, UTC, without a zone (SQLite keeps none)."""
    return datetime.now(UTC).replace(tzinfo=None)
