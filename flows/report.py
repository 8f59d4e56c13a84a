"""One self-contained HTML page about a lifecycle run: no script, no request to anywhere, light and dark."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from flows.charts import number
from flows.report_sections import evaluations, sections
from infra.lineage import LifecycleRow, MetricPoint, StageRecord

TEMPLATE = "report.html.jinja"


@dataclass(frozen=True)
class Tile:
    """One figure at the head of the page."""

    label: str
    value: str
    verdict: bool | None = None


def write_report(
    lifecycle: LifecycleRow,
    records: Mapping[str, StageRecord],
    histories: Mapping[str, Sequence[MetricPoint]],
    path: Path,
    samples: Mapping[str, Any] | None = None,
) -> None:
    """Write the page to `path`. `records` and `histories` are keyed by the run's name (`pretrain`, `evaluate_sft`).

    `samples` is the release's table of sample answers.
    """
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    text = environment.get_template(TEMPLATE).render(
        title=f"glmflow {lifecycle.recipe}, run {lifecycle.id}",
        subtitle=_subtitle(lifecycle),
        tiles=_tiles(records),
        sections=sections(records, histories, samples),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def _subtitle(lifecycle: LifecycleRow) -> str:
    parts = [f"seed {lifecycle.seed}", lifecycle.status, f"started {lifecycle.started_at:%Y-%m-%d %H:%M} UTC"]
    if lifecycle.ended_at is not None:
        parts.append(f"took {(lifecycle.ended_at - lifecycle.started_at).total_seconds():.0f} s")
    return " \u00b7 ".join(parts)


def _tiles(records: Mapping[str, StageRecord]) -> list[Tile]:
    tiles = []
    for record in records.values():
        if record.stage == "release" and "release/passed" in record.metrics:
            has_passed = record.metrics["release/passed"] == 1
            tiles.append(Tile("release gates", "passed" if has_passed else "failed", has_passed))
    models = evaluations(records)
    wanted = (
        ("base", "eval/bits_per_byte", "bits per byte, pretrained model"),
        ("ppo", "eval/instruction_accuracy", "instruction accuracy, final model"),
        ("ppo", "eval/reward", "mean reward, final model"),
    )
    tiles += [Tile(label, number(models[m][name])) for m, name, label in wanted if name in models.get(m, {})]
    tiles.append(Tile("stages", str(len(records))))
    tiles.append(Tile("time inside stages", f"{sum(r.wall_s for r in records.values()):.0f} s"))
    return tiles
