"""What the flows of one lifecycle run share: settings, databases, launcher, tracker, terminal."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from flows.console import Console
from flows.launch import Launcher, StageResult
from flows.plan import Step
from infra.artifacts import SourceManifest
from infra.lineage import Lineage
from infra.settings import Settings
from infra.stores.base import Store
from infra.tracking import Tracker


@dataclass
class Session:
    """One lifecycle run in this process."""

    lifecycle_id: str
    settings: Settings
    store: Store
    lineage: Lineage
    launcher: Launcher
    tracker: Tracker
    console: Console
    steps: Sequence[Step]
    sources: SourceManifest | None  # none for a single stage, whose inputs are given
    tracking_run: str
    results: list[StageResult] = field(default_factory=list)

    @property
    def place(self) -> tuple[int, int]:
        """Which stage is running, of how many."""
        return len(self.results) + 1, len(self.steps)


_current: ContextVar[Session] = ContextVar("session")


@contextmanager
def entered(session: Session) -> Iterator[Session]:
    """Make `session` the one that the flows called in this block use."""
    token = _current.set(session)
    try:
        yield session
    finally:
        _current.reset(token)


def current() -> Session:
    """The session of the lifecycle run that is being executed."""
    return _current.get()
