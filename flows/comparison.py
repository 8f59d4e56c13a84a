"""Two lifecycle runs side by side: which stages made the same bytes, and every metric that both measured alike."""

from collections.abc import Iterator

from rich.table import Table

from flows.headline import short_number
from infra.errors import BadSpecError
from infra.lineage import LifecycleRow, Lineage, StageRecord
from stages import STAGE_NAMES, load_stage

_MAX_RUNS = 10_000
_SAME = "same artifact"


def find_run(name: str, lineage: Lineage) -> LifecycleRow:
    """The run whose id is, or starts with, `name`; `latest` is the newest. Raises BadSpecError for none or several."""
    rows = lineage.lifecycles(_MAX_RUNS)
    found = rows[:1] if name == "latest" else [row for row in rows if row.id.startswith(name)]
    if len(found) != 1:
        raise BadSpecError(
            f"run {name!r}: want one run, got {len(found)} of {len(rows)}; `glmflow runs` lists them, newest first"
        )
    return found[0]


def compare(first: LifecycleRow, second: LifecycleRow, lineage: Lineage, *, shows_all: bool) -> Table:
    """For each stage of either run: that both made the same bytes, or its main metrics (or all of them) in both."""
    table = Table("stage", "metric", first.id, second.id, "change")
    records = [_records(row, lineage) for row in (first, second)]
    for label in dict.fromkeys([*records[0], *records[1]]):
        for cells in _rows(label, records[0].get(label), records[1].get(label), shows_all=shows_all):
            table.add_row(*cells)
    return table


def _records(row: LifecycleRow, lineage: Lineage) -> dict[str, StageRecord]:
    found = {stage["label"]: lineage.find_by_key(stage["key"]) for stage in row.stages or []}
    return {label: record for label, record in found.items() if record is not None}


def _rows(
    label: str, first: StageRecord | None, second: StageRecord | None, *, shows_all: bool
) -> Iterator[tuple[str, ...]]:
    if first is None or second is None:
        yield (label, "", *("not run" if record is None else "run" for record in (first, second)), "")
        return
    if first.outputs == second.outputs:
        yield label, "", _SAME, _SAME, ""
        return
    shared = [name for name in first.metrics if name in second.metrics]
    shown = shared if shows_all else [name for name in _main_metrics(first) if name in shared]
    for name in shown:
        values = first.metrics[name], second.metrics[name]
        yield label, name, *map(short_number, values), _change(*values)
        label = ""


def _main_metrics(record: StageRecord) -> tuple[str, ...]:
    """What stands for a stage: its headline, and an evaluation's figures over all items."""
    if record.stage not in STAGE_NAMES:
        return ()
    if record.stage == "evaluate":
        return tuple(name for name in record.metrics if name.count("/") == 1)
    return (load_stage(record.stage).headline.after,)


def _change(before: float, after: float) -> str:
    return "" if before == after else f"{after - before:+.4g}"
