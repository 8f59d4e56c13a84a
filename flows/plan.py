"""A lifecycle as data: which stages run in which order, and which output feeds which input."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infra.errors import BadSpecError
from stages.contract import StageModel

SOURCES = "sources"  # the label of what comes from outside, in field `manifest`
Wire = str | Mapping[str, str]  # "dedup.corpus", or several of them by name


@dataclass(frozen=True)
class Step:
    """One stage call of a plan. A wire names an earlier step's label and the output field that it takes."""

    label: str
    stage: str
    config: StageModel
    wires: Mapping[str, Wire]


def until(steps: Sequence[Step], name: str | None) -> tuple[Step, ...]:
    """The steps up to the last one of this stage or label. Raises BadSpecError for a name that is not in the plan."""
    if name is None:
        return tuple(steps)
    ends = [position for position, step in enumerate(steps) if name in (step.label, step.stage)]
    if not ends:
        known = ", ".join(step.label for step in steps)
        raise BadSpecError(f"--until: want one of {known}, got {name!r}")
    return tuple(steps[: ends[-1] + 1])


def wired(step: Step, made: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The step's inputs, taken from the outputs that earlier steps made."""
    return {
        field: _take(wire, made) if isinstance(wire, str) else {name: _take(w, made) for name, w in wire.items()}
        for field, wire in step.wires.items()
    }


def _take(wire: str, made: Mapping[str, Mapping[str, Any]]) -> Any:
    label, field = wire.split(".")
    return made[label][field]
