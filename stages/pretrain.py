"""Pretrain: a mixture-of-experts GLM on plain language modelling, [MASK] spans and [gMASK] documents.

Artifact `model`: a Hugging Face model directory with its tokenizer (see `models.export`). Held-out quality is bits per
byte in plain language-model mode over every byte of the held-out documents, at initialisation and at the end, beside a
unigram model fitted on the training tokens. The run resumes from its last checkpoint to the same bits.
"""

from typing import TYPE_CHECKING, Any

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from infra.artifacts import Model, Tokenizer, Tokens
from infra.errors import BadSpecError
from stages.contract import Headline, Stage, StageContext, StageModel, json_of

if TYPE_CHECKING:
    from models.batches import PretrainBatches
    from models.glm import GlmForCausalLM
    from models.perplexity import BitsPerByte
    from models.pretrain_loss import MicroBatch, PretrainLoss
    from models.token_shards import TokenShards
    from models.trainer import StepReport, Trainer

_ROWS_MEASURED = 64  # one block of rows, in which every objective has its exact share
_STEPS_PER_LOG_LINE = 25


class ModelSize(StageModel):
    """The model's shape."""

    hidden_size: PositiveInt = Field(default=192, description="width of the residual stream")
    num_hidden_layers: PositiveInt = Field(default=4, description="layers")
    num_attention_heads: PositiveInt = Field(default=6, description="query heads")
    num_key_value_heads: PositiveInt = Field(default=6, description="key-value heads; divides the query heads")
    head_dim: PositiveInt = Field(default=32, description="width of a head, a multiple of 4")
    qk_norm: bool = Field(default=True, description="RMS norm of queries and keys, as GLM-4.5")
    num_dense_layers: NonNegativeInt = Field(default=0, description="first layers with a dense FFN instead of experts")
    ffn_size: PositiveInt = Field(default=512, description="width of a dense FFN")
    num_experts: PositiveInt = Field(default=8, description="routed experts a layer; 1 = dense")
    top_k: PositiveInt = Field(default=2, description="routed experts a token goes to")
    num_shared_experts: NonNegativeInt = Field(default=1, description="experts that every token goes to")
    expert_ffn_size: PositiveInt = Field(default=144, description="width of an expert's FFN")
    routed_scaling_factor: PositiveFloat = Field(default=1.0, description="factor on the routed experts' gates")
    rope_base: PositiveFloat = Field(default=10_000.0, description="rotary base")
    initializer_range: PositiveFloat = Field(default=0.02, description="standard deviation of initial weights")
    embedding_grad_scale: PositiveFloat = Field(default=1.0, description="embedding gradient factor; GLM-130B 0.1")
    tie_word_embeddings: bool = Field(default=True, description="head and embedding share their weights")
    max_position_embeddings: PositiveInt = Field(default=2048, description="positions the model may be used at")


class ObjectiveRatios(StageModel):
    """How the training sequences are shared out between the objectives."""

    language: NonNegativeFloat = Field(default=0.7, description="plain language modelling, 0-1; the three sum to 1")
    span: NonNegativeFloat = Field(default=0.15, description="[MASK] spans, 0-1")
    document: NonNegativeFloat = Field(default=0.15, description="[gMASK] documents, 0-1")
    mask_ratio: float = Field(default=0.15, gt=0, lt=1, description="text tokens covered by [MASK] spans, 0-1")
    mean_span_length: PositiveFloat = Field(default=3.0, description="Poisson mean of a span, in tokens")
    min_document_blank: float = Field(default=0.5, gt=0, le=1, description="shortest [gMASK] blank, 0-1 of the text")


class Optimization(StageModel):
    """Optimizer and schedules."""

    learning_rate: PositiveFloat = Field(default=0.01, description="peak, hidden matrices")
    embedding_learning_rate: PositiveFloat = Field(default=0.02, description="peak, embedding and head")
    router_learning_rate: PositiveFloat = Field(default=0.003, description="peak, routers and norms")
    weight_decay: NonNegativeFloat = Field(default=0.1, description="decoupled, hidden matrices only")
    use_muon: bool = Field(default=True, description="Muon for hidden matrices; false = AdamW for everything")
    warmup_ratio: float = Field(default=0.05, ge=0, lt=1, description="share of the training tokens, 0-1")
    min_learning_rate_ratio: float = Field(default=0.05, ge=0, le=1, description="end of the cosine, 0-1 of the peak")
    max_grad_norm: PositiveFloat = Field(default=1.0, description="gradient norm above which it is scaled down")
    balance_loss_weight: NonNegativeFloat = Field(default=1e-4, description="sequence balance loss, as GLM-4.5")
    bias_update_rate: NonNegativeFloat = Field(
        default=0.01, description="step of the loss-free balance bias; GLM-4.5 has 1e-3 and 1000 times more steps"
    )
    bias_active_ratio: float = Field(default=0.8, ge=0, le=1, description="share of training after which it is 0")


class PretrainConfig(StageModel):
    """Everything about one pretraining run."""

    model: ModelSize = Field(default=ModelSize(), description="the model's shape")
    objectives: ObjectiveRatios = Field(default=ObjectiveRatios(), description="shares of the training objectives")
    optimization: Optimization = Field(default=Optimization(), description="optimizer and schedules")
    train_tokens: PositiveInt = Field(default=1_050_000, description="real (non-padding) tokens to train on")
    max_epochs: PositiveFloat = Field(default=4.0, description="at most so many passes over the training documents")
    sequence_tokens: PositiveInt = Field(default=512, description="positions of a training sequence")
    rows_per_step: PositiveInt = Field(default=8, description="sequences of one optimizer step")
    rows_per_micro_batch: PositiveInt = Field(default=8, description="sequences of one forward pass")
    checkpoint_every_steps: PositiveInt = Field(default=50, description="steps between two checkpoints")
    log_experts_every_steps: PositiveInt = Field(default=5, description="steps between two logs of every expert's load")
    eval_window_tokens: PositiveInt = Field(default=512, description="context of the held-out score, in tokens")
    eval_stride_tokens: PositiveInt = Field(default=256, description="tokens scored by one window of a long document")

    @model_validator(mode="after")
    def _micro_batches_fit(self) -> "PretrainConfig":
        if self.rows_per_step % self.rows_per_micro_batch:
            raise ValueError(
                f"rows_per_micro_batch: want a divisor of rows_per_step ({self.rows_per_step}), "
                f"got {self.rows_per_micro_batch}; change one"
            )
        return self

    @model_validator(mode="after")
    def _windows_fit_the_model(self) -> "PretrainConfig":
        limits = {
            "sequence_tokens": (self.sequence_tokens, self.model.max_position_embeddings),
            "eval_window_tokens": (self.eval_window_tokens, self.model.max_position_embeddings),
            "eval_stride_tokens": (self.eval_stride_tokens, self.eval_window_tokens),
        }
        for name, (value, limit) in limits.items():
            if value > limit:
                raise ValueError(f"{name}: want at most {limit}, got {value}; lower it or raise what it has to fit in")
        return self


class PretrainInputs(StageModel):
    """What pretrain reads."""

    tokens: Tokens
    tokenizer: Tokenizer


class PretrainOutputs(StageModel):
    """What pretrain writes."""

    model: Model


def run(config: PretrainConfig, inputs: PretrainInputs, ctx: StageContext) -> PretrainOutputs:
    """Train, score, save. The last step's checkpoint exists before the scoring starts, so a retry only scores."""
    import torch

    from models.checkpoint import CheckpointMismatchError, checkpoints
    from models.export import save_model
    from models.perplexity import bits_per_byte, unigram_nats
    from models.token_shards import TokenShards
    from models.tokenizer import load_tokenizer
    from models.trainer import TrainingDivergedError

    torch.use_deterministic_algorithms(True)
    setattr(torch.utils.deterministic, "fill_uninitialized_memory", False)  # noqa: B010  untyped module; saves 5%
    shards = TokenShards(ctx.store.get(inputs.tokens))
    tokenizer = load_tokenizer(ctx.store.get(inputs.tokenizer))
    if shards.manifest["tokenizer"] != inputs.tokenizer.digest:
        raise BadSpecError(
            f"pretrain: want tokens encoded with {inputs.tokenizer.short}, got those of tokenizer "
            f"{shards.manifest['tokenizer'][:12]}; run pack with this tokenizer"
        )
    try:
        model = _build_model(config, shards, ctx.seed)
        batches = _build_batches(config, shards, tokenizer, ctx.seed)
        num_steps = count_steps(config, batches)
        trainer, loss_of = _build_trainer(config, inputs, ctx, model, num_steps)
    except ValueError as error:
        raise BadSpecError(f"pretrain: {error}") from error
    heldout = [shards.heldout.tokens(doc_idx) for doc_idx in range(len(shards.heldout))]
    unigram = unigram_nats(heldout, shards.train.stream_S, vocab_size=shards.vocab_size, end_id=shards.end_id)
    ctx.log_metric("pretrain/unigram_bits_per_byte", bits_per_byte(unigram, shards.heldout).total)
    ctx.log_metric("pretrain/num_parameters", model.num_parameters())
    if not checkpoints(ctx.checkpoint_dir):
        ctx.log_metric("pretrain/initial_bits_per_byte", _score(config, model, shards, ctx).total)
    try:
        trainer.run(lambda step: _micro_batches_at(config, batches, loss_of, step), loss_of)
    except (CheckpointMismatchError, TrainingDivergedError) as error:
        raise BadSpecError(str(error)) from error
    ctx.log_metric("pretrain/num_tokens", trainer.tokens_seen, trainer.step)
    ctx.log_metric("pretrain/skipped_steps", trainer.num_skipped, trainer.step)
    _log_quality(_score(config, model, shards, ctx), ctx)
    save_model(model, tokenizer, ctx.scratch / "model")
    return PretrainOutputs(model=ctx.store.put(ctx.scratch / "model", Model))


def _build_model(config: PretrainConfig, shards: "TokenShards", seed: int) -> "GlmForCausalLM":
    import torch

    from models.config import GlmConfig
    from models.glm import GlmForCausalLM

    torch.manual_seed(seed)
    size = json_of(config.model)
    shape = GlmConfig(
        vocab_size=shards.vocab_size,
        eos_token_id=shards.end_id,
        pad_token_id=shards.end_id,
        num_experts_per_tok=size.pop("top_k"),
        **size,
    )
    return GlmForCausalLM(shape)


def _build_batches(config: PretrainConfig, shards: "TokenShards", tokenizer: Any, seed: int) -> "PretrainBatches":
    from models.batches import ObjectiveMix, PretrainBatches, SpecialIds
    from models.tokenizer import EOP, GMASK, MASK, SOP

    mask_id, gmask_id, sop_id, eop_id = tokenizer.convert_tokens_to_ids([MASK, GMASK, SOP, EOP])
    mix = config.objectives
    return PretrainBatches(
        shards.train,
        SpecialIds(mask_id=mask_id, gmask_id=gmask_id, sop_id=sop_id, eop_id=eop_id, end_id=shards.end_id),
        ObjectiveMix(
            language_ratio=mix.language,
            span_ratio=mix.span,
            document_ratio=mix.document,
            mask_ratio=mix.mask_ratio,
            mean_span_length=mix.mean_span_length,
            min_document_blank_ratio=mix.min_document_blank,
        ),
        sequence_tokens=config.sequence_tokens,
        seed=seed,
    )


def count_steps(config: PretrainConfig, batches: "PretrainBatches") -> int:
    """Steps until `train_tokens` real tokens or `max_epochs`, whichever is less. Raises ValueError if there is none."""
    measured = [batches.batch(idx, 1).num_tokens for idx in range(_ROWS_MEASURED)]
    tokens_per_step = config.rows_per_step * sum(measured) / len(measured)
    wanted = -(-config.train_tokens // int(tokens_per_step))
    available = int(config.max_epochs * batches.epoch_tokens // tokens_per_step)
    num_steps = min(wanted, available)
    if num_steps < 1:
        raise ValueError(
            f"dataset yields 0 steps: want at least {int(tokens_per_step)} tokens (rows={config.rows_per_step} of "
            f"{config.sequence_tokens}), got {batches.epoch_tokens} in {len(batches.split)} documents x "
            f"{config.max_epochs} epochs; add documents, or lower rows_per_step or sequence_tokens"
        )
    return num_steps


def _micro_batches_at(
    config: PretrainConfig, batches: "PretrainBatches", loss_of: "PretrainLoss", step: int
) -> list["MicroBatch"]:
    from models.pretrain_loss import micro_batches_of

    loss_of.start_step()
    first, size = step * config.rows_per_step, config.rows_per_micro_batch
    return micro_batches_of([batches.batch(first + start, size) for start in range(0, config.rows_per_step, size)])


def _build_trainer(
    config: PretrainConfig, inputs: PretrainInputs, ctx: StageContext, model: "GlmForCausalLM", num_steps: int
) -> tuple["Trainer[MicroBatch]", "PretrainLoss"]:
    from models.checkpoint import StateRegistry
    from models.optim import OptimConfig, build_optimizer
    from models.pretrain_loss import PretrainLoss
    from models.schedule import BalanceRateSchedule, CosineSchedule
    from models.trainer import Callbacks, Trainer, TrainerConfig

    optimization = config.optimization
    loss_of = PretrainLoss(model, balance_loss_weight=optimization.balance_loss_weight)
    total_tokens = num_steps * config.rows_per_step * config.sequence_tokens
    bias_rate = BalanceRateSchedule(optimization.bias_update_rate, int(optimization.bias_active_ratio * total_tokens))
    optimizer = build_optimizer(
        model,
        OptimConfig(
            learning_rate=optimization.learning_rate,
            embedding_learning_rate=optimization.embedding_learning_rate,
            router_learning_rate=optimization.router_learning_rate,
            weight_decay=optimization.weight_decay,
            use_muon=optimization.use_muon,
        ),
    )
    schedule = CosineSchedule(
        int(optimization.warmup_ratio * total_tokens), total_tokens, optimization.min_learning_rate_ratio
    )
    fingerprint = {"config": json_of(config), "inputs": json_of(inputs), "seed": ctx.seed}
    trainer: Trainer[MicroBatch] = Trainer(
        "pretrain",
        model=model,
        optimizer=optimizer,
        schedule=schedule,
        registry=StateRegistry(fingerprint, report=ctx.log),
        config=TrainerConfig(
            num_steps=num_steps,
            max_grad_norm=optimization.max_grad_norm,
            checkpoint_every_steps=config.checkpoint_every_steps,
            checkpoint_dir=ctx.checkpoint_dir,
        ),
        callbacks=Callbacks(
            after_update=lambda tokens_seen: loss_of.update_biases(bias_rate.at(tokens_seen)),
            on_step=lambda report: _log_step(config, ctx, loss_of, report, num_steps),
            on_checkpoint=ctx.check_stop,
            stop_requested=lambda: ctx.stop_requested,
        ),
    )
    return trainer, loss_of


def _log_step(
    config: PretrainConfig, ctx: StageContext, loss_of: "PretrainLoss", report: "StepReport", num_steps: int
) -> None:
    from models.batches import OBJECTIVES

    learning_rate = config.optimization.learning_rate * report.lr_factor
    metrics = {
        "pretrain/grad_norm": report.grad_norm,
        "pretrain/embedding_grad_norm": report.embedding_grad_norm,
        "pretrain/learning_rate": learning_rate,
        "pretrain/tokens_per_s": report.num_tokens / report.step_s,
        "pretrain/padding_ratio": report.metrics["num_padding"] / (report.metrics["num_padding"] + report.num_tokens),
        "moe/balance_loss": report.metrics.get("balance_loss", 0.0),
    }
    sums = {name: (report.metrics[f"{name}_sum"], report.metrics[f"{name}_count"]) for name in OBJECTIVES}
    metrics |= {f"pretrain/loss/{name}": total / count for name, (total, count) in sums.items() if count}
    metrics["pretrain/loss"] = sum(total for total, _ in sums.values()) / sum(count for _, count in sums.values())
    with_experts = report.step == 1 or report.step % config.log_experts_every_steps == 0
    metrics |= loss_of.load_metrics(with_experts=with_experts)
    if report.is_skipped:
        ctx.log(f"step {report.step}: skipped, loss {report.loss}, gradient norm {report.grad_norm}")
        return
    for name, value in metrics.items():
        ctx.log_metric(name, value, report.step)
    total_tokens = num_steps * config.rows_per_step * config.sequence_tokens
    ctx.progress(total_tokens if report.step == num_steps else report.tokens_seen, total_tokens, "tokens")
    if report.step == 1 or report.step % _STEPS_PER_LOG_LINE == 0 or report.step == num_steps:
        ctx.log(
            f"step {report.step}/{num_steps}: loss {metrics['pretrain/loss']:.3f}, learning rate {learning_rate:.2e}, "
            f"{metrics['pretrain/tokens_per_s']:.0f} tokens/s"
        )


def _score(config: PretrainConfig, model: "GlmForCausalLM", shards: "TokenShards", ctx: StageContext) -> "BitsPerByte":
    from models.perplexity import heldout_bits_per_byte

    return heldout_bits_per_byte(
        model,
        shards.heldout,
        end_id=shards.end_id,
        window_tokens=config.eval_window_tokens,
        stride_tokens=config.eval_stride_tokens,
        on_progress=lambda _done, _total: ctx.check_stop(),
    )


def _log_quality(quality: "BitsPerByte", ctx: StageContext) -> None:
    ctx.log_metric("pretrain/bits_per_byte", quality.total)
    for domain, value in quality.by_domain.items():
        ctx.log_metric(f"pretrain/bits_per_byte/domain/{domain}", value)
    for lang, value in quality.by_lang.items():
        ctx.log_metric(f"pretrain/bits_per_byte/lang/{lang}", value)


STAGE = Stage(
    name="pretrain",
    config=PretrainConfig,
    inputs=PretrainInputs,
    outputs=PretrainOutputs,
    run=run,
    metrics=("pretrain/*", "moe/*"),
    headline=Headline(
        label="held-out bits per byte (before: unigram)",
        before="pretrain/unigram_bits_per_byte",
        after="pretrain/bits_per_byte",
        higher_is_better=False,
    ),
    checkpoints=True,
)
