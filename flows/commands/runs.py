"""`glmflow runs`: the lifecycle runs of this home, newest first."""

import argparse

from rich.table import Table

from flows.console import page
from flows.headline import short_duration
from infra.lineage import LifecycleRow, Lineage
from infra.settings import read_settings
from infra.tracking import mark_killed


def run(args: argparse.Namespace) -> int:
    """Print the table."""
    settings, console = read_settings(), page()
    lineage = Lineage(settings.resolved_lineage_url())
    mark_killed(lineage, settings)
    rows = lineage.lifecycles(args.limit)
    if not rows:
        console.print(f"no runs in {settings.root}; `glmflow run` makes one", markup=False)
        return 0
    table = Table()
    for name in ("run", "recipe", "seed", "status", "started (UTC)", "took", "stages", "last artifact"):
        table.add_column(name, no_wrap=name in ("run", "last artifact"))
    for row in rows:
        table.add_row(*_cells(row))
    console.print(table)
    return 0


def _cells(row: LifecycleRow) -> list[str]:
    took = short_duration((row.ended_at - row.started_at).total_seconds()) if row.ended_at else ""
    stages = row.stages or []
    num_cached = sum(stage["cached"] for stage in stages)
    count = f"{len(stages)} ({num_cached} cached)" if num_cached else str(len(stages))
    outputs = list(stages[-1]["outputs"].values()) if stages else []
    started = f"{row.started_at:%Y-%m-%d %H:%M:%S}"
    return [row.id, row.recipe, str(row.seed), row.status, started, took, count, outputs[-1] if outputs else ""]
