"""Reward model: TRL's RewardTrainer on the SFT model's backbone, with one scalar head.

Artifact `reward_model`: a Hugging Face sequence-classification directory with its tokenizer, and evaluation.json with
the accuracy on held-out pairs and that of the better of two rules: the longer answer wins, the shorter one wins.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from infra.artifacts import Model, Preferences, RewardModel
from infra.errors import BadSpecError
from stages.contract import Headline, Stage, StageContext, StageModel
from stages.records import Preference, read_records


class RewardModelConfig(StageModel):
    """Everything about one reward model."""

    epochs: PositiveInt = Field(default=2, description="passes over the training pairs")
    batch_size: PositiveInt = Field(default=32, description="pairs of one step")
    max_tokens: PositiveInt = Field(default=256, description="longest conversation, in tokens; others are dropped")
    learning_rate: PositiveFloat = Field(default=0.002, description="peak, all but the embedding")
    embedding_learning_rate: PositiveFloat = Field(default=0.001, description="peak, embedding")
    use_muon: bool = Field(default=False, description="Muon for hidden matrices (about x3 the rate, 40% slower)")
    weight_decay: NonNegativeFloat = Field(default=0.05, description="decoupled, hidden matrices only")
    centring: NonNegativeFloat = Field(default=0.01, description="weight of the squared scores in the loss")
    warmup_ratio: float = Field(default=0.05, ge=0, lt=1, description="share of the steps, 0-1")
    min_learning_rate_ratio: float = Field(default=0.05, ge=0, le=1, description="end of the cosine, 0-1 of the peak")
    max_grad_norm: PositiveFloat = Field(default=1.0, description="gradient norm above which it is scaled down")
    log_every_steps: PositiveInt = Field(default=5, description="steps that one point of the loss curve averages")
    score_batch_size: PositiveInt = Field(default=64, description="held-out conversations scored at a time")


class RewardModelInputs(StageModel):
    """What reward_model reads."""

    model: Model
    preferences: Preferences


class RewardModelOutputs(StageModel):
    """What reward_model writes."""

    reward_model: RewardModel


def run(config: RewardModelConfig, inputs: RewardModelInputs, ctx: StageContext) -> RewardModelOutputs:
    """Train on the training pairs, judge on the held-out ones, save."""
    import torch

    from models.export import load_model, save_model
    from models.preference_training import on_backbone_of, pair_row
    from models.tokenizer import ChatTemplate, load_tokenizer

    torch.use_deterministic_algorithms(True)
    model_dir, pairs_dir = ctx.store.get(inputs.model), ctx.store.get(inputs.preferences)
    tokenizer = load_tokenizer(model_dir)
    template = ChatTemplate(tokenizer)
    model = on_backbone_of(load_model(model_dir), seed=ctx.seed)
    pairs: dict[str, list[EncodedPair]] = {}
    for split in ("train", "heldout"):
        records = read_records(pairs_dir / f"{split}.jsonl", Preference)
        encoded = [EncodedPair(one, pair_row(template, one.messages, one.chosen, one.rejected)) for one in records]
        pairs[split] = _fitting(encoded, split, config, ctx)
    _train(config, model, tokenizer, [pair.row for pair in pairs["train"]], ctx)
    quality = _quality(config, model, pairs["heldout"])
    for name, value in quality.items():
        ctx.log_metric(f"reward_model/{name}", value)
    directory = ctx.scratch / "reward_model"
    save_model(model, tokenizer, directory)
    text = json.dumps(quality, indent=1, sort_keys=True)
    (directory / "evaluation.json").write_text(text + "\n", encoding="utf-8")
    return RewardModelOutputs(reward_model=ctx.store.put(directory, RewardModel))


@dataclass(frozen=True)
class EncodedPair:
    """A pair with its two conversations as token ids."""

    record: Preference
    row: dict[str, list[int]]


def _fitting(
    pairs: Sequence[EncodedPair], split: str, config: RewardModelConfig, ctx: StageContext
) -> list[EncodedPair]:
    """Pairs within max_tokens whose two answers differ as token ids. Raises BadSpecError if none is left."""
    short = [pair for pair in pairs if max(map(len, pair.row.values())) <= config.max_tokens]
    kept = [pair for pair in short if pair.row["chosen_ids"] != pair.row["rejected_ids"]]
    ctx.log_metric(f"reward_model/pairs/{split}", len(kept))
    ctx.log_metric(f"reward_model/pairs_dropped/{split}/longer_than_max_tokens", len(pairs) - len(short))
    ctx.log_metric(f"reward_model/pairs_dropped/{split}/chosen_equals_rejected", len(short) - len(kept))
    if not kept:
        raise BadSpecError(
            f"reward_model: dataset yields 0 steps: rows={len(kept)} of {len(pairs)} {split} pairs, "
            f"batch={config.batch_size}; give more pairs, or raise reward_model.max_tokens ({config.max_tokens})"
        )
    return kept


def _train(
    config: RewardModelConfig, model: Any, tokenizer: Any, rows: Sequence[dict[str, list[int]]], ctx: StageContext
) -> None:
    from models.mapped_rows import write_mapped_rows
    from models.optim import OptimConfig, build_optimizer
    from models.preference_training import train_on_pairs
    from models.supervised import CurveCallback, FineTuning
    from models.supervised_rows import curriculum_batches

    lengths = [max(map(len, row.values())) for row in rows]
    batches = curriculum_batches(
        [0] * len(rows), lengths, batch_size=config.batch_size, epochs=(config.epochs,), seed=ctx.seed
    )
    optimizer = build_optimizer(
        model,
        OptimConfig(
            learning_rate=config.learning_rate,
            embedding_learning_rate=config.embedding_learning_rate,
            weight_decay=config.weight_decay,
            use_muon=config.use_muon,
        ),
    )
    train_on_pairs(
        model,
        tokenizer,
        write_mapped_rows(ctx.scratch / "rows.arrow", rows, ("chosen_ids", "rejected_ids")),
        batches,
        optimizer,
        FineTuning(
            output_dir=ctx.scratch / "trainer",
            seed=ctx.seed,
            warmup_ratio=config.warmup_ratio,
            min_learning_rate_ratio=config.min_learning_rate_ratio,
            max_grad_norm=config.max_grad_norm,
            log_every_steps=config.log_every_steps,
        ),
        CurveCallback(
            on_log=lambda step, values: _log_step(step, len(batches), values, ctx),
            on_step=lambda step, total: ctx.progress(step, total, "steps"),
        ),
        centring=config.centring,
    )


def _log_step(step: int, num_steps: int, values: dict[str, float], ctx: StageContext) -> None:
    ctx.log_metric("reward_model/loss", values["loss"], step)
    ctx.log_metric("reward_model/grad_norm", values["grad_norm"], step)
    ctx.log_metric("reward_model/train_accuracy", values["accuracy"], step)
    ctx.log(f"step {step}/{num_steps}: loss {values['loss']:.3f}, accuracy {values['accuracy']:.2f}")


def _quality(config: RewardModelConfig, model: Any, pairs: Sequence[EncodedPair]) -> dict[str, float]:
    """Accuracy and margin of all held-out pairs, and the accuracy of each task and language."""
    from models.scores import score

    conversations = [pair.row[name] for pair in pairs for name in ("chosen_ids", "rejected_ids")]
    scores = score(model, conversations, batch_size=config.score_batch_size)
    margins = [chosen - rejected for chosen, rejected in zip(scores[::2], scores[1::2], strict=True)]
    by_task: dict[str, list[float]] = {}
    for pair, margin in zip(pairs, margins, strict=True):
        by_task.setdefault(f"{pair.record.task}/{pair.record.lang}", []).append(margin)
    return {
        "accuracy": share_of_wins(margins),
        "length_baseline_accuracy": length_baseline_accuracy([pair.row for pair in pairs]),
        "margin": sum(margins) / len(margins),
        **{f"accuracy/{name}": share_of_wins(by_task[name]) for name in sorted(by_task)},
    }


def share_of_wins(margins: Sequence[float]) -> float:
    """Share of positive margins; a tie is half a win."""
    return sum(1.0 if margin > 0 else 0.5 if margin == 0 else 0.0 for margin in margins) / len(margins)


def length_baseline_accuracy(rows: Sequence[dict[str, list[int]]]) -> float:
    """Accuracy of the better of "the longer answer wins" and "the shorter answer wins"."""
    longer_wins = share_of_wins([len(row["chosen_ids"]) - len(row["rejected_ids"]) for row in rows])
    return max(longer_wins, 1.0 - longer_wins)


STAGE = Stage(
    name="reward_model",
    config=RewardModelConfig,
    inputs=RewardModelInputs,
    outputs=RewardModelOutputs,
    run=run,
    metrics=(
        "reward_model/loss",
        "reward_model/grad_norm",
        "reward_model/train_accuracy",
        "reward_model/accuracy",
        "reward_model/length_baseline_accuracy",
        "reward_model/margin",
        "reward_model/accuracy/*",
        "reward_model/pairs/*",
        "reward_model/pairs_dropped/*",
    ),
    headline=Headline(
        label="held-out pairs ranked right (before: length alone)",
        before="reward_model/length_baseline_accuracy",
        after="reward_model/accuracy",
    ),
)
