"""Render a model card from the facts of a release. No dates, no times: the same release gives the same card."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stages.card_facts import DataFacts, ModelFacts
from stages.evaluation_file import EvaluatedModel
from stages.gates.base import Gate

TEMPLATE = "model_card.md.jinja"
_ARCHITECTURE = (
    ("parameters", "num_parameters"),
    ("layers", "num_hidden_layers"),
    ("width", "hidden_size"),
    ("attention heads", "num_attention_heads"),
    ("key-value heads", "num_key_value_heads"),
    ("routed experts a layer", "num_experts"),
    ("experts a token", "num_experts_per_tok"),
    ("shared experts", "num_shared_experts"),
    ("width of an expert", "expert_ffn_size"),
    ("vocabulary", "vocab_size"),
    ("context, tokens", "max_position_embeddings"),
)
_MEASUREMENTS = (
    ("bits per byte", "eval/bits_per_byte", ""),
    ("perplexity per token", "eval/perplexity", ""),
    ("infilling accuracy", "eval/infilling_accuracy", "eval/infilling_stderr"),
    ("instruction accuracy", "eval/instruction_accuracy", "eval/instruction_stderr"),
    ("mean reward", "eval/reward", "eval/reward_stderr"),
)


def render_card(
    *,
    passed: bool,
    models: Sequence[ModelFacts],
    data: DataFacts,
    tokens: Mapping[str, Any],
    instructions: Sequence[tuple[str, str, int]],
    evaluations: Mapping[str, EvaluatedModel],
    gates: Sequence[Gate],
) -> str:
    """The card as Markdown. `tokens` is the manifest of the tokens artifact."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["cell"] = _cell
    config = {**models[0].config, "num_parameters": models[0].num_elements}
    return environment.get_template(TEMPLATE).render(
        title=f"glmflow GLM {models[0].digest[:12]}",
        passed=passed,
        languages=sorted(share.label for share in data.languages if share.label.isalpha() and share.label != "code"),
        models=models,
        architecture=[(label, f"{config[name]:,}") for label, name in _ARCHITECTURE if name in config],
        context_tokens=config["max_position_embeddings"],
        data=data,
        tokens=tokens,
        instructions=instructions,
        shares_by_caption=[
            ("licence", data.licenses), ("language", data.languages), ("domain", data.domains), ("source", data.sources)
        ],
        evaluations=list(evaluations),
        table=_table(evaluations),
        gates=gates,
    )  # fmt: skip


def _cell(text: object) -> str:
    """Text inside a Markdown table: one line, no column break."""
    return " ".join(str(text).split()).replace("|", "\\|")


def _table(evaluations: Mapping[str, EvaluatedModel]) -> list[tuple[str, list[str]]]:
    rows = [(label, _row(evaluations, name, error)) for label, name, error in _MEASUREMENTS]
    names = sorted({name for model in evaluations.values() for name in model.about.metrics})
    for prefix, label in (("eval/bits_per_byte/", "bits per byte, "), ("eval/infilling_accuracy/", "infilling, ")):
        rows += [(label + n.removeprefix(prefix).replace("/", " "), _row(evaluations, n)) for n in names if prefix in n]
    prefix = "eval/instruction_accuracy/"
    for name in (name for name in names if prefix in name):
        task = name.removeprefix(prefix)
        rows.append((f"{task}: accuracy", _row(evaluations, name, f"eval/instruction_stderr/{task}")))
        rows.append((f"{task}: constant", _row(evaluations, f"eval/instruction_constant/{task}")))
    return [row for row in rows if set(row[1]) != {"-"}]


def _row(evaluations: Mapping[str, EvaluatedModel], name: str, error_name: str = "") -> list[str]:
    cells = []
    for model in evaluations.values():
        metrics = model.about.metrics
        text = f"{metrics[name]:.4g}" if name in metrics else "-"
        cells.append(f"{text} +- {metrics[error_name]:.2g}" if error_name in metrics else text)
    return cells
