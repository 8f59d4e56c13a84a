"""The one shape every stage has: config + inputs -> outputs, with effects only through the context."""

import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict

from infra.errors import StopRequestedError
from infra.lineage import MetricPoint
from infra.stores.base import Store

PROGRESS_INTERVAL_S = 0.5


class StageModel(BaseModel):
    """Base of every Config, Inputs and Outputs: frozen, and a misspelt field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


C = TypeVar("C", bound=StageModel)
I = TypeVar("I", bound=StageModel)  # noqa: E741
O = TypeVar("O", bound=StageModel)  # noqa: E741


@dataclass
class StageContext:
    """Everything a stage may touch outside its arguments.

    `workdir` belongs to one stage key. `scratch` is empty when the stage starts; `checkpoint_dir` survives a killed
    process, so that the next run of the same key goes on from it. Both are deleted after success.
    """

    store: Store
    workdir: Path
    seed: int = 0
    declared_metrics: tuple[str, ...] = ("*",)
    stop_requested: bool = False
    _last_progress_at: float = field(default=0.0, repr=False)

    @property
    def scratch(self) -> Path:
        """Where outputs are built before they are put into the store."""
        return self.workdir / "scratch"

    @property
    def checkpoint_dir(self) -> Path:
        """Where a long stage keeps its state."""
        return self.workdir / "checkpoint"

    @property
    def metrics_path(self) -> Path:
        """Append-only file of metric points, one JSON object a line; the launcher forwards it to the tracker."""
        return self.workdir / "metrics.jsonl"

    @property
    def progress_path(self) -> Path:
        """The latest progress, replaced as a whole."""
        return self.workdir / "progress.json"

    def log_metric(self, name: str, value: float, step: int = 0) -> None:
        """Append one metric point. Raises ValueError for an undeclared name or a value that is not finite."""
        if not any(fnmatchcase(name, pattern) for pattern in self.declared_metrics):
            raise ValueError(f"metric {name!r}: want a name that the stage declares in its `metrics`; add it there")
        number = float(value)
        if not math.isfinite(number):
            raise ValueError(f"metric {name} at step {step}: want a finite number, got {number}")
        point = MetricPoint(name=name, value=number, step=step)
        with self.metrics_path.open("a") as file:
            file.write(point.model_dump_json() + "\n")

    def progress(self, done: float, total: float, unit: str) -> None:
        """Publish how far the stage is; cheap to call often."""
        now = time.monotonic()
        if done < total and now - self._last_progress_at < PROGRESS_INTERVAL_S:
            return
        self._last_progress_at = now
        partial = self.progress_path.with_suffix(".partial")
        partial.write_text(json.dumps({"done": done, "total": total, "unit": unit}))
        partial.replace(self.progress_path)

    def log(self, message: str) -> None:
        """One line into the stage's log."""
        print(message, flush=True)  # noqa: T201  the log is the process's standard output

    def check_stop(self) -> None:
        """Call at a point where the state is saved: ends the stage if a stop was asked for."""
        if self.stop_requested:
            raise StopRequestedError(f"stopped on request with its state saved in {self.checkpoint_dir}")


@dataclass(frozen=True)
class Headline:
    """The metric that says what a stage was good for, with the figure it has to beat."""

    label: str
    after: str
    before: str | None = None
    higher_is_better: bool = True


@dataclass(frozen=True)
class Stage(Generic[C, I, O]):
    """A stage: what it is called, what it takes and gives, and the function that does it.

    `metrics` lists every metric it may log, as fnmatch patterns. `checkpoints` says that it saves its state and calls
    `check_stop`; any other stage is interrupted at once by SIGTERM.
    """

    name: str
    config: type[C]
    inputs: type[I]
    outputs: type[O]
    run: Callable[[C, I, StageContext], O]
    metrics: tuple[str, ...]
    headline: Headline
    checkpoints: bool = False


def json_of(model: BaseModel) -> dict[str, Any]:
    """A model as plain JSON values, as it enters the key and the lineage."""
    return model.model_dump(mode="json")
