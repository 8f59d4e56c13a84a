"""The sections of a lifecycle's report: what to draw and to tabulate, from lineage records and metric histories.

A section without data is left out. Names of runs are those of the lifecycle: `evaluate_<model>`, `quantize_<bits>`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from flows.charts import Bar, Line, bar_chart, heat_map, line_chart, number
from infra.artifacts import SHORT_DIGEST_CHARS
from infra.lineage import MetricPoint, StageRecord

MAX_CELL_CHARS = 300
Records = Mapping[str, StageRecord]
Histories = Mapping[str, Sequence[MetricPoint]]


@dataclass(frozen=True)
class Figure:
    """One chart with its caption."""

    caption: str
    svg: str


@dataclass(frozen=True)
class Table:
    """One table; columns are named by their index."""

    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    caption: str = ""
    code_columns: tuple[int, ...] = ()
    number_columns: tuple[int, ...] = ()


@dataclass(frozen=True)
class Details:
    """Text that is folded away."""

    caption: str
    text: str


@dataclass(frozen=True)
class Section:
    """One part of the page."""

    anchor: str
    title: str
    about: str
    figures: list[Figure] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    details: list[Details] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to show."""
        return not (self.figures or self.tables or self.details)


def sections(records: Records, histories: Histories, samples: Mapping[str, Any] | None = None) -> list[Section]:
    """Every section that has something to show, in reading order."""
    found = [
        _gates(records),
        _quality(records),
        _samples(samples or {}),
        _quantization(records),
        _data(records),
        _pretraining(records, histories),
        _alignment(records, histories),
        _cost(records),
        _provenance(records),
    ]
    return [section for section in found if not section.is_empty]


def evaluations(records: Records) -> dict[str, dict[str, float]]:
    """Metrics of each evaluated model: `evaluate_sft` -> `sft`."""
    found = {name: record.metrics for name, record in records.items() if record.stage == "evaluate"}
    return {name.removeprefix("evaluate").lstrip("_-/.: ") or name: metrics for name, metrics in found.items()}


def _figures(*figures: Figure) -> list[Figure]:
    return [figure for figure in figures if figure.svg]


def _tables(*tables: Table) -> list[Table]:
    return [table for table in tables if table.rows]


def _lines(history: Sequence[MetricPoint], *patterns: str) -> list[Line]:
    """One line for each metric whose name matches, labelled by the name without its first part."""
    points: dict[str, list[tuple[float, float]]] = {}
    for point in history:
        if any(fnmatchcase(point.name, pattern) for pattern in patterns):
            points.setdefault(point.name, []).append((point.step, point.value))
    return [Line(name, found) for name, found in zip(_short_labels(list(points)), points.values(), strict=True)]


def _short_labels(names: Sequence[str]) -> list[str]:
    """Metric names without the path that all of them share."""
    paths = [name.split("/") for name in names]
    num_shared = 1
    while all(len(path) > num_shared + 1 for path in paths) and len({path[num_shared] for path in paths}) == 1:
        num_shared += 1
    return [" ".join(path[num_shared:]).replace("_", " ") for path in paths]


def _with_prefix(metrics: Mapping[str, float], prefix: str) -> Iterator[tuple[str, float]]:
    for name in sorted(metrics):
        if name.startswith(prefix):
            yield name.removeprefix(prefix), metrics[name]


def _gates(records: Records) -> Section:
    rows = []
    for record in records.values():
        if record.stage != "release":
            continue
        for name, passed in _with_prefix(record.metrics, "release/gate_passed/"):
            value, threshold = (record.metrics[f"release/gate_{kind}/{name}"] for kind in ("value", "threshold"))
            bound = "at most" if record.metrics.get(f"release/gate_is_maximum/{name}") else "at least"
            verdict = "passed" if passed else "failed"
            rows.append((name.replace("_", " "), number(value), f"{bound} {number(threshold)}", verdict))
    about = "What the model had to show before it was registered. A failed gate keeps it out of the registry."
    tables = _tables(Table(("gate", "measured", "wanted", "verdict"), rows, number_columns=(1,)))
    return Section("gates", "Gates", about, tables=tables)


_QUALITY = (
    ("eval/bits_per_byte", "bits per byte, held-out text (lower is better)", ""),
    ("eval/perplexity", "perplexity per token, held-out text (lower is better)", ""),
    ("eval/infilling_accuracy", "infilling accuracy on [MASK] spans", ""),
    ("eval/instruction_accuracy", "instruction accuracy", "eval/instruction_stderr"),
    ("eval/reward", "mean reward on held-out prompts", "eval/reward_stderr"),
)


def _quality(records: Records) -> Section:
    models = evaluations(records)
    figures = []
    for name, caption, error_name in _QUALITY:
        bars = [Bar(model, m[name], m.get(error_name, 0.0)) for model, m in models.items() if name in m]
        if bars and min(bar.value for bar in bars) >= 0:  # bars start at zero; negative rewards stay in the table
            figures.append(Figure(caption, bar_chart(caption, bars, label_width=60)))
    names = [name for name, _, _ in _QUALITY]
    rows = [(name.removeprefix("eval/").replace("_", " "), *_cells(models, name)) for name in names]
    tables = [
        Table(("metric", *models), [row for row in rows if set(row[1:]) - {"-"}], "All figures", (), _numbers(models)),
        _breakdown(models, "eval/bits_per_byte/", "bits per byte by domain and language"),
        _breakdown(models, "eval/instruction_accuracy/", "instruction accuracy by task and language", "accuracy"),
    ]
    about = "The same measurements on the same held-out documents for every model; whiskers are one standard error."
    return Section("quality", "Quality by stage", about, _figures(*figures), _tables(*tables))


def _numbers(models: Mapping[str, object]) -> tuple[int, ...]:
    return tuple(range(1, len(models) + 1))


def _cells(models: Mapping[str, Mapping[str, float]], name: str, error_name: str = "") -> list[str]:
    cells = []
    for metrics in models.values():
        text = number(metrics[name]) if name in metrics else "-"
        cells.append(f"{text} \u00b1 {number(metrics[error_name])}" if error_name in metrics else text)
    return cells


def _breakdown(models: Mapping[str, Mapping[str, float]], prefix: str, caption: str, kind: str = "") -> Table:
    labels = sorted({label for metrics in models.values() for label, _ in _with_prefix(metrics, prefix)})
    rows = []
    for label in labels:
        error_name = f"{prefix}{label}".replace(kind, "stderr") if kind else ""
        rows.append((label.replace("/", ", ").replace("_", " "), *_cells(models, prefix + label, error_name)))
    return Table(("", *models), rows, caption, (), _numbers(models))


def _samples(samples: Mapping[str, Any]) -> Section:
    rows = [tuple(_cut(str(cell)) for cell in row) for row in samples.get("data", ())]
    tables = _tables(Table(tuple(samples.get("columns", ())), rows))
    about = "What each model answers to the same held-out prompts; it always takes the likeliest token."
    return Section("samples", "Sample answers", about, tables=tables)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_CELL_CHARS else f"{text[: MAX_CELL_CHARS - 3]}..."


def _quantization(records: Records) -> Section:
    full = evaluations(records).get("ppo", {})
    rows, bars = [], []
    for name, record in records.items():
        if record.stage != "quantize":
            continue
        metrics = record.metrics
        label = name.removeprefix("quantize").lstrip("_-/.: ") or name
        own = evaluations(records).get(label, {})
        cost = "-"
        if "eval/perplexity" in full and "eval/perplexity" in own:
            cost = f"{own['eval/perplexity'] / full['eval/perplexity'] - 1:+.2%}"
        columns = ("quantize/size_ratio", "quantize/file_bytes", "quantize/full_file_bytes", "quantize/weight_error")
        rows.append((label, *(number(metrics[c]) if c in metrics else "-" for c in columns), cost))
        if "quantize/file_bytes" in metrics:
            bars.append(Bar(label, metrics["quantize/file_bytes"] / 1e6))
            size = metrics.get("quantize/full_file_bytes", 0.0) / 1e6
    if bars and size:
        bars.insert(0, Bar("fp32", size))
    header = ("model", "size of quantized tensors / bf16", "file, bytes", "full file, bytes", "relative weight error")
    tables = _tables(Table((*header, "perplexity cost"), rows, number_columns=(1, 2, 3, 4, 5)))
    caption = "weight file, MB"
    figures = _figures(Figure(caption, bar_chart(caption, bars, label_width=60)))
    about = "Weights are packed; embeddings, norms and the router keep full precision."
    return Section("quantization", "Quantization", about, figures, tables)


_BAR_STAGES = ("ingest", "clean", "dedup", "instructions", "preferences")
_DATA_STAGES = (*_BAR_STAGES, "tokenizer", "pack")


def _data(records: Records) -> Section:
    rows, figures = [], []
    for name, record in records.items():
        if record.stage not in _DATA_STAGES:
            continue
        labelled = dict(_labelled(record)) if record.stage in _BAR_STAGES else {}
        plain = {k: v for k, v in record.metrics.items() if k not in labelled}
        rows += [(name, _words(k), number(v)) for k, v in sorted(plain.items())]
        for group in sorted({group for group, _ in labelled.values()}):
            found = [(label, record.metrics[k]) for k, (part, label) in labelled.items() if part == group]
            ordered = sorted((item for item in found if item[1]), key=lambda item: (-item[1], item[0]))[:14]
            caption = f"{name}: {group}"
            bars = [Bar(label[:32], value) for label, value in ordered]
            figures.append(Figure(caption, bar_chart(caption, bars, label_width=190)))
    about = "What came in, what was kept, and why the rest was not."
    tables = _tables(Table(("stage", "count", "value"), rows, number_columns=(2,)))
    return Section("data", "Data", about, _figures(*figures), tables)


def _labelled(record: StageRecord) -> Iterator[tuple[str, tuple[str, str]]]:
    """Metrics that are parts of a whole, as (group, label): `clean/docs_rejected/too_short`, `dedup/near_removed`."""
    for name in record.metrics:
        _, group, *rest = name.replace("_", " ").split("/")
        if rest:
            yield name, (group, ", ".join(rest))
        elif group.endswith(" removed"):
            yield name, ("docs removed", group.removesuffix(" removed"))


def _words(metric: str) -> str:
    """A metric's name without its stage, as words."""
    return metric.split("/", 1)[1].replace("_", " ").replace("/", ", ")


def _pretraining(records: Records, histories: Histories) -> Section:
    history = histories.get("pretrain", ())
    metrics = records["pretrain"].metrics if "pretrain" in records else {}
    stages = (("unigram", "unigram_"), ("untrained", "initial_"), ("trained", ""))
    names = [(label, f"pretrain/{prefix}bits_per_byte") for label, prefix in stages]
    bars = [Bar(label, metrics[name]) for label, name in names if name in metrics]
    figures = [
        Figure("loss, nats a token", line_chart("pretraining loss", _lines(history, "pretrain/loss*"))),
        Figure("held-out bits per byte", bar_chart("held-out bits per byte", bars, label_width=80)),
    ]
    for layer in sorted({p.name.split("/")[2] for p in history if fnmatchcase(p.name, "moe/expert_load/*/*")}):
        caption = f"expert load over time, {layer.replace('_', ' ')}"
        figures.append(Figure(caption, heat_map(caption, _lines(history, f"moe/expert_load/{layer}/*"))))
    by_label = {
        "busiest expert over the mean load, minus 1": ("moe/max_violation",),
        "entropy of the load and of the router, 1 = even": ("moe/*entropy",),
        "experts without a token": ("moe/dead_experts",),
        "sequence balance loss": ("moe/balance_loss",),
        "learning rate": ("pretrain/learning_rate",),
        "gradient norm": ("pretrain/grad_norm",),
        "tokens per second": ("pretrain/tokens_per_s",),
    }
    figures += [Figure(label, line_chart(label, _lines(history, *names))) for label, names in by_label.items()]
    about = "Blank infilling mixed with language modelling; the load of each expert is logged from the first step on."
    return Section("pretraining", "Pretraining", about, _figures(*figures))


_ALIGNMENT_PLOTS = (
    ("sft", "instruction tuning: loss", ("sft/loss",)),
    ("reward_model", "reward model: loss", ("reward_model/loss",)),
    ("reward_model", "reward model: accuracy on training pairs", ("reward_model/train_accuracy",)),
    ("ppo", "PPO: mean reward of the samples", ("ppo/train_reward", "ppo/reward")),
    ("ppo", "PPO: KL against the reference, nats a token", ("ppo/kl",)),
    ("ppo", "PPO: entropy, nats a token", ("ppo/entropy",)),
    ("ppo", "PPO: losses", ("ppo/*_loss",)),
    ("ppo", "PPO: share of clipped tokens", ("ppo/clip_fraction",)),
    ("ppo", "PPO: length of the answers, tokens", ("ppo/answer_tokens",)),
)


def _alignment(records: Records, histories: Histories) -> Section:
    figures = []
    for name, caption, patterns in _ALIGNMENT_PLOTS:
        lines = [line for line in _lines(histories.get(name, ()), *patterns) if len(line.points) > 1]
        figures.append(Figure(caption, line_chart(caption, lines)))
    rows = []
    for name in ("sft", "reward_model", "ppo"):
        curves = {point.name for point in histories.get(name, ()) if point.step > 1}
        metrics = records[name].metrics if name in records else {}
        rows += [(name, _words(k), number(v)) for k, v in sorted(metrics.items()) if k not in curves]
    about = "Instruction tuning, the reward model, and PPO with a KL penalty against the tuned model."
    tables = _tables(Table(("stage", "figure", "value"), rows, number_columns=(2,)))
    return Section("alignment", "Alignment", about, _figures(*figures), tables)


_TOKEN_COUNTS = {"tokens", "num_tokens", "tokens_seen"}


def _cost(records: Records) -> Section:
    bars = [Bar(name, record.wall_s, text=f"{record.wall_s:.1f} s") for name, record in records.items()]
    memory = [Bar(name, record.peak_rss_bytes / 2**30) for name, record in records.items()]
    tokens = []
    for name, record in records.items():
        if record.stage == "evaluate":
            continue
        found = [value for label, value in record.metrics.items() if label.rsplit("/", 1)[-1] in _TOKEN_COUNTS]
        if found:
            tokens.append(Bar(name, max(found)))
    figures = _figures(
        Figure("time inside each stage, seconds", bar_chart("time of each stage", bars, 105)),
        Figure("peak memory of each stage, GiB", bar_chart("peak memory of each stage", memory, 105)),
        Figure("tokens by stage", bar_chart("tokens by stage", tokens, 105)),
    )
    total_s = sum(record.wall_s for record in records.values())
    about = f"{total_s:.0f} s inside the stages in all; a stage found finished shows the time of the run that made it."
    return Section("cost", "Time and tokens", about, figures)


def _provenance(records: Records) -> Section:
    rows, details = [], []
    for name, record in records.items():
        inputs = ", ".join(_shorts(record.inputs)) or "-"
        rows.append((name, ", ".join(_shorts(record.outputs)), inputs, record.key[:SHORT_DIGEST_CHARS]))
        settings = {"config": record.config, "seed": record.seed, "environment": record.environment}
        details.append(Details(f"{name}: config and environment", json.dumps(settings, indent=2, sort_keys=True)))
    header = ("stage", "made", "from", "key")
    tables = _tables(Table(header, rows, code_columns=(1, 2, 3)))
    about = "Every artifact is named by the digest of its bytes; `glmflow explain REF` prints the tree below one."
    return Section("provenance", "Artifacts", about, tables=tables, details=details)


def _shorts(fields: Mapping[str, object]) -> Iterator[str]:
    for value in fields.values():
        if isinstance(value, dict) and "digest" in value:
            yield f"{value['kind']}:{value['digest'][:SHORT_DIGEST_CHARS]}"
        elif isinstance(value, dict):
            yield from _shorts(value)
