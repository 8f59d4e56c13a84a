"""SFT: instruction tuning with TRL's SFTTrainer on checked instructions, easiest phase first.

A later phase repeats a share of the earlier ones (`replay_ratio`). Loss counts on assistant tokens and their end token
only. Examples that are longer than `max_tokens`, or that have no supervised token, are dropped and counted. Accuracy is
greedy, on held-out instructions, before and after.

Artifact `model`: a Hugging Face model directory with its tokenizer (see `models.export`).
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from infra.artifacts import Instructions, Model
from infra.errors import BadSpecError
from stages.answers import Judged, accuracy_by_task, accuracy_of, evenly, judge
from stages.contract import Headline, Stage, StageContext, StageModel
from stages.records import Instruction, read_records


class SftConfig(StageModel):
    """Everything about one instruction tuning."""

    epochs: tuple[PositiveInt, ...] = Field(
        default=(1, 1), min_length=1, description="passes over each phase; the last value holds for later phases"
    )
    replay_ratio: float = Field(
        default=0.25, ge=0, le=1, description="share of the earlier phases' rows that each later pass repeats, 0-1"
    )
    batch_size: PositiveInt = Field(default=32, description="conversations of one step")
    max_tokens: PositiveInt = Field(default=256, description="longest conversation, in tokens; longer ones are dropped")
    learning_rate: PositiveFloat = Field(default=0.0015, description="peak, all but the embedding")
    embedding_learning_rate: PositiveFloat = Field(default=0.001, description="peak, embedding and head")
    use_muon: bool = Field(default=False, description="Muon for hidden matrices (about x3 the rate, 40% slower)")
    weight_decay: NonNegativeFloat = Field(default=0.0, description="decoupled, hidden matrices only")
    warmup_ratio: float = Field(default=0.05, ge=0, lt=1, description="share of the steps, 0-1")
    min_learning_rate_ratio: float = Field(default=0.05, ge=0, le=1, description="end of the cosine, 0-1 of the peak")
    max_grad_norm: PositiveFloat = Field(default=1.0, description="gradient norm above which it is scaled down")
    log_every_steps: PositiveInt = Field(default=5, description="steps that one point of the loss curve averages")
    num_judged: PositiveInt = Field(default=600, description="held-out instructions judged after training")
    num_judged_before: PositiveInt = Field(default=100, description="held-out instructions judged before training")
    max_new_tokens: PositiveInt = Field(default=32, description="longest answer that is judged, in tokens")
    judge_batch_size: PositiveInt = Field(default=64, description="prompts answered at a time")


class SftInputs(StageModel):
    """What sft reads."""

    model: Model
    instructions: Instructions


class SftOutputs(StageModel):
    """What sft writes."""

    model: Model


def run(config: SftConfig, inputs: SftInputs, ctx: StageContext) -> SftOutputs:
    """Judge, train, judge, save."""
    import torch

    from models.export import load_model, save_model
    from models.tokenizer import ChatTemplate, load_tokenizer

    torch.use_deterministic_algorithms(True)
    model_dir, records_dir = ctx.store.get(inputs.model), ctx.store.get(inputs.instructions)
    model, tokenizer = load_model(model_dir), load_tokenizer(model_dir)
    template = ChatTemplate(tokenizer)
    heldout = read_records(records_dir / "heldout.jsonl", Instruction)
    if not heldout:
        raise BadSpecError("sft: want held-out instructions to judge, got none; raise the held-out ratio")
    before = _judge(config, model, template, evenly(heldout, config.num_judged_before))
    ctx.log_metric("sft/instruction_accuracy_before", accuracy_of(before).accuracy)
    _train(config, model, tokenizer, template, read_records(records_dir / "train.jsonl", Instruction), ctx)
    judged = _judge(config, model, template, evenly(heldout, config.num_judged))
    ctx.log_metric("sft/instruction_accuracy", accuracy_of(judged).accuracy)
    for name, accuracy in accuracy_by_task(judged).items():
        ctx.log_metric(f"sft/accuracy/{name}", accuracy.accuracy)
    save_model(model, tokenizer, ctx.scratch / "model")
    return SftOutputs(model=ctx.store.put(ctx.scratch / "model", Model))


def _train(
    config: SftConfig, model: Any, tokenizer: Any, template: Any, train: Sequence[Instruction], ctx: StageContext
) -> None:
    from models.mapped_rows import write_mapped_rows
    from models.optim import OptimConfig, build_optimizer
    from models.supervised import CurveCallback, FineTuning, fine_tune

    rows, batches = _rows_and_batches(config, template, train, ctx)
    optimizer = build_optimizer(
        model,
        OptimConfig(
            learning_rate=config.learning_rate,
            embedding_learning_rate=config.embedding_learning_rate,
            weight_decay=config.weight_decay,
            use_muon=config.use_muon,
        ),
    )
    fine_tune(
        model,
        tokenizer,
        write_mapped_rows(ctx.scratch / "rows.arrow", rows, ("input_ids", "labels")),
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
    )


def _rows_and_batches(
    config: SftConfig, template: Any, train: Sequence[Instruction], ctx: StageContext
) -> tuple[list[dict[str, list[int]]], list[list[int]]]:
    """The rows that can be trained on, and the rows of each step; what is dropped is counted."""
    from models.supervised_rows import curriculum_batches, labelled_row

    dropped: Counter[str] = Counter(longer_than_max_tokens=0, no_supervised_token=0)
    rows, phases = [], []
    for instruction in train:
        row = labelled_row(template, instruction.conversation)
        if reason := _reason_to_drop(row, config.max_tokens):
            dropped[reason] += 1
        else:
            rows.append(row)
            phases.append(instruction.phase)
    for reason, count in dropped.items():
        ctx.log_metric(f"sft/examples_dropped/{reason}", count)
    ctx.log_metric("sft/examples", len(rows))
    batches = curriculum_batches(
        phases,
        [len(row["input_ids"]) for row in rows],
        batch_size=config.batch_size,
        epochs=config.epochs,
        seed=ctx.seed,
        replay_ratio=config.replay_ratio,
    )
    if not batches:
        raise BadSpecError(
            f"sft: dataset yields 0 steps: rows={len(rows)}, batch={config.batch_size}, dropped={dict(dropped)}; "
            f"give more instructions, or raise sft.max_tokens ({config.max_tokens})"
        )
    return rows, batches


def _reason_to_drop(row: dict[str, list[int]], max_tokens: int) -> str | None:
    if len(row["input_ids"]) > max_tokens:
        return "longer_than_max_tokens"
    if all(label < 0 for label in row["labels"]):
        return "no_supervised_token"
    return None


def _log_step(step: int, num_steps: int, values: dict[str, float], ctx: StageContext) -> None:
    ctx.log_metric("sft/loss", values["loss"], step)
    ctx.log_metric("sft/grad_norm", values["grad_norm"], step)
    ctx.log(f"step {step}/{num_steps}: loss {values['loss']:.3f}")


def _judge(config: SftConfig, model: Any, template: Any, instructions: Sequence[Instruction]) -> list[Judged]:
    return judge(
        model, template, instructions, max_new_tokens=config.max_new_tokens, batch_size=config.judge_batch_size
    )


STAGE = Stage(
    name="sft",
    config=SftConfig,
    inputs=SftInputs,
    outputs=SftOutputs,
    run=run,
    metrics=(
        "sft/loss",
        "sft/grad_norm",
        "sft/examples",
        "sft/examples_dropped/*",
        "sft/instruction_accuracy_before",
        "sft/instruction_accuracy",
        "sft/accuracy/*",
    ),
    headline=Headline(
        label="held-out instruction accuracy",
        before="sft/instruction_accuracy_before",
        after="sft/instruction_accuracy",
    ),
)
