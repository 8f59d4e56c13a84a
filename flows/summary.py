"""The end of a lifecycle run: one document, printed as a table for people or as JSON for programs."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict
from rich.console import Console
from rich.table import Table

from flows.headline import HeadlineValue, short_bytes, short_duration, short_number
from flows.launch import StageResult
from infra.artifacts import ArtifactRef
from stages import load_stage

SIZE_METRICS = ("quantize/file_bytes", "quantize/full_file_bytes")


class HeadlineRow(BaseModel):
    """A stage's main metric."""

    label: str
    before: float | None
    after: float | None


class StageRow(BaseModel):
    """One stage of the run."""

    label: str
    stage: str
    key: str
    cached: bool
    wall_s: float
    process_s: float
    peak_rss_bytes: int
    headline: HeadlineRow
    outputs: dict[str, str]


class QuantizedRow(BaseModel):
    """The size of a quantized model's whole weights file, beside that of the model it was made from."""

    label: str
    file_bytes: int
    full_file_bytes: int


class Summary(BaseModel):
    """Everything that `glmflow run` says at its end."""

    model_config = ConfigDict(extra="forbid")
    lifecycle: str
    recipe: str
    seed: int
    status: str
    stages: list[StageRow]
    wall_s: float
    stage_process_s: float
    overhead_s: float
    peak_rss_bytes: int
    quantized: list[QuantizedRow] = []
    gates_passed: bool | None = None
    failed_gates: list[str] = []
    report: str | None = None
    tracking_uri: str
    notes: list[str] = []


def stage_rows(results: Sequence[StageResult]) -> list[StageRow]:
    """The rows of the stages that finished."""
    return [_stage_row(result) for result in results]


def _stage_row(result: StageResult) -> StageRow:
    value = HeadlineValue.of(load_stage(result.stage).headline, result.record)
    return StageRow(
        label=result.label,
        stage=result.stage,
        key=result.key,
        cached=result.is_cached,
        wall_s=round(result.wall_s, 3),
        process_s=round(result.process_s, 3),
        peak_rss_bytes=result.record.peak_rss_bytes,
        headline=HeadlineRow(label=value.label, before=value.before, after=value.after),
        outputs={name: ref.short for name, ref in _refs(result.outputs)},
    )


def _refs(outputs: Mapping[str, Any]) -> list[tuple[str, ArtifactRef]]:
    return [(name, ArtifactRef.model_validate(value)) for name, value in outputs.items()]


def quantized_rows(results: Sequence[StageResult]) -> list[QuantizedRow]:
    """File sizes, where a stage has measured them."""
    return [
        QuantizedRow(
            label=result.label,
            file_bytes=int(result.record.metrics[SIZE_METRICS[0]]),
            full_file_bytes=int(result.record.metrics[SIZE_METRICS[1]]),
        )
        for result in results
        if all(name in result.record.metrics for name in SIZE_METRICS)
    ]


def print_summary(summary: Summary, console: Console) -> None:
    """The table, then the figures of the whole run, then where to look."""
    table = Table(title=f"{summary.recipe}, run {summary.lifecycle}", title_justify="left")
    for name, justify in (("stage", "left"), ("time", "right"), ("main metric", "left"), ("artifact", "left")):
        table.add_column(name, justify=justify, no_wrap=name == "artifact")  # type: ignore[arg-type]  # rich wants its own literal
    for row in summary.stages:
        took = "cached" if row.cached else short_duration(row.wall_s)
        table.add_row(row.label, took, headline_text(row.headline), "\n".join(row.outputs.values()))
    console.print(table)
    for line in _lines(summary):
        console.print(line, markup=False, soft_wrap=True)


def headline_text(row: HeadlineRow) -> str:
    """The main metric in words."""
    return str(HeadlineValue(row.label, row.before, row.after))


def _lines(summary: Summary) -> list[str]:
    num_cached = sum(row.cached for row in summary.stages)
    inside = f"{short_duration(summary.stage_process_s)} inside stage processes"
    share = f" ({summary.overhead_s / summary.wall_s:.1%} of the run)" if num_cached < len(summary.stages) else ""
    lines = [
        f"{summary.status} in {short_duration(summary.wall_s)}: {inside}, "
        f"{short_duration(summary.overhead_s)} around them{share}; {num_cached} of {len(summary.stages)} stages cached",
        f"peak memory of a stage: {short_bytes(summary.peak_rss_bytes)}",
    ]
    for row in summary.quantized:
        ratio = short_number(row.file_bytes / row.full_file_bytes)
        lines.append(
            f"{row.label}: whole weights file {short_bytes(row.file_bytes)}, {ratio} of the full model's "
            f"{short_bytes(row.full_file_bytes)}"
        )
    if summary.gates_passed is not None:
        verdict = "passed: the model is now the champion" if summary.gates_passed else "failed: candidate only"
        lines.append(f"release gates {verdict}")
    lines += [f"  gate {text}" for text in summary.failed_gates]
    lines += summary.notes
    if summary.report:
        lines.append(f"report:   {summary.report}")
    lines.append(f"compare:  {_how_to_compare(summary.tracking_uri)}")
    if summary.gates_passed:
        lines += ["serve:    glmflow serve champion", "lineage:  glmflow explain champion"]
    return lines


def _how_to_compare(tracking_uri: str) -> str:
    if tracking_uri.startswith("http"):
        return tracking_uri
    is_file = tracking_uri.startswith("sqlite")
    return f"mlflow ui --backend-store-uri {tracking_uri}" if is_file else f"glmflow up shows {tracking_uri}"
