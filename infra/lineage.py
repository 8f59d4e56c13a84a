"""Lineage database: which stage made which artifact from what. SQLAlchemy; SQLite by default, or PostgreSQL.

A stage run is one row, written after its outputs are stored and verified. No row means that nothing happened. A
PostgreSQL server that restarts is waited for, and what it was doing is done again: every write may be repeated.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict
from sqlalchemy import JSON, BigInteger, Double, Executable, ForeignKey, Select, String, insert, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

from infra.artifacts import ArtifactRef
from infra.database import exclusive, open_engine, patiently, shown
from infra.schema import upgrade

T = TypeVar("T")


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
        self.engine = open_engine(url)
        upgrade(self.engine)

    @property
    def place(self) -> str:
        """Where it is, for people."""
        return shown(self.engine.url)

    @property
    def is_shared(self) -> bool:
        """Whether other machines may write to it, too."""
        return self.engine.dialect.name != "sqlite"

    def exclusive(self, name: str) -> AbstractContextManager[None]:
        """At most one block of this name at a time, among all processes that use this database; others wait."""
        return exclusive(self.engine, name)

    def transact(self, work: Callable[[Session], T]) -> T:
        """`work` in one transaction, once more after a connection that was lost."""

        def transaction() -> T:
            with Session(self.engine, expire_on_commit=False) as session, session.begin():
                return work(session)

        return patiently(self.engine, transaction)

    def commit(self, record: StageRecord, history: Sequence[MetricPoint]) -> int:
        """Write one finished stage run with its metric history, in one transaction; returns its id."""
        return self.transact(lambda session: self._commit(session, record, history))

    def _commit(self, session: Session, record: StageRecord, history: Sequence[MetricPoint]) -> int:
        """A commit whose answer was lost is found by its instant, and not written twice."""
        same = {name: getattr(record, name) for name in ("stage", "key", "host", "ended_at")}
        written = session.scalar(select(StageRunRow.id).filter_by(**same))
        if written is not None:
            return written
        row = StageRunRow(**record.model_dump())
        links = list(_links(record))
        artifacts = sorted({ref for *_, ref in links}, key=str)  # in one order, or two writers wait for each other
        for ref in artifacts:
            session.execute(self._insert_if_absent(ArtifactRow), ref.model_dump())
        row.links = [
            StageArtifactRow(is_output=out, field=f, kind=ref.kind, digest=ref.digest) for out, f, ref in links
        ]
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
        return self._newest(select(StageRunRow).where(StageRunRow.key == key))

    def find_maker(self, digest: str) -> StageRecord | None:
        """The newest stage run that has this artifact among its outputs."""
        made_it = (StageArtifactRow.digest == digest, StageArtifactRow.is_output)
        return self._newest(select(StageRunRow).join(StageArtifactRow).where(*made_it))

    def _newest(self, runs: Select[StageRunRow]) -> StageRecord | None:
        row = self.transact(lambda session: session.scalars(runs.order_by(StageRunRow.id.desc()).limit(1)).first())
        return _record(row) if row else None

    def find_user(self, digest: str, stage: str, field: str) -> StageRecord | None:
        """The newest run of this stage that took the artifact as this input."""
        took_it = (StageArtifactRow.digest == digest, StageArtifactRow.field == field, ~StageArtifactRow.is_output)
        return self._newest(select(StageRunRow).join(StageArtifactRow).where(StageRunRow.stage == stage, *took_it))

    def peak_rss_bytes(self, stage: str, config: dict[str, Any]) -> int:
        """The highest peak memory of this stage's runs with this config, in bytes; 0 when there was none."""
        peaks = select(StageRunRow.config, StageRunRow.peak_rss_bytes).where(StageRunRow.stage == stage)
        rows = self.transact(lambda session: session.execute(peaks).all())
        return max((peak for had, peak in rows if had == config), default=0)

    def history(self, key: str) -> tuple[MetricPoint, ...]:
        """Every metric point of the newest run of this key, in the order it was logged."""
        newest = select(StageRunRow.id).where(StageRunRow.key == key).order_by(StageRunRow.id.desc()).limit(1)
        points = select(MetricRow).where(MetricRow.stage_run_id == newest.scalar_subquery()).order_by(MetricRow.id)
        rows = self.transact(lambda session: session.scalars(points).all())
        return tuple(MetricPoint(name=r.name, value=r.value, step=r.step) for r in rows)

    def save_lifecycle(self, lifecycle_id: str, **fields: Any) -> None:
        """Create or update one lifecycle row."""

        def save(session: Session) -> None:
            row = session.get(LifecycleRow, lifecycle_id)
            if row is None:
                session.add(LifecycleRow(id=lifecycle_id, **fields))
                return
            for name, value in fields.items():
                setattr(row, name, value)

        self.transact(save)

    def lifecycles(self, limit: int = 50) -> tuple[LifecycleRow, ...]:
        """Newest first."""
        newest = select(LifecycleRow).order_by(LifecycleRow.started_at.desc()).limit(limit)
        return self.transact(lambda session: tuple(session.scalars(newest)))


def _record(row: StageRunRow) -> StageRecord:
    return StageRecord.model_validate({name: getattr(row, name) for name in StageRecord.model_fields})


def now() -> datetime:
    """The present instant, UTC, without a zone (SQLite keeps none)."""
    return datetime.now(UTC).replace(tzinfo=None)
