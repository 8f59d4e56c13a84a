"""PPO: reinforcement learning from the reward model and the answers' checks, with a KL penalty to the SFT model.

An iteration samples several answers to each training prompt, rewards them (stages/rewards) relative to each other,
and makes a few epochs of clipped updates on them; the loop is `models.trainer`. Reward and accuracy are measured on
held-out prompts before and after: `ppo/reward` of answers sampled with the same random numbers, `ppo/greedy_reward` and
`ppo/accuracy` of greedy ones. The gain is given in standard errors of the paired difference. A run that carries no
signal, leaves the reference too far or stops answering ends with an error.

Artifact `model`: a Hugging Face model directory with its tokenizer (see `models.export`).
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator

from infra.artifacts import Instructions, Model, RewardModel
from infra.errors import BadSpecError
from stages.contract import Headline, Stage, StageContext, StageModel
from stages.policy_quality import PolicyQuality, paired_gain, quality_of
from stages.records import Instruction, read_records
from stages.rewards import AnyReward
from stages.rewards.answer_check import AnswerCheck
from stages.rewards.base import RewardTools
from stages.rewards.reward_model import RewardModelScore

if TYPE_CHECKING:
    from models.ppo_loss import ActorCritic
    from models.trainer import StepReport


class Sampling(StageModel):
    """How answers are sampled."""

    prompts_per_iteration: PositiveInt = Field(default=128, description="prompts of one iteration")
    samples_per_prompt: PositiveInt = Field(default=2, description="answers to each prompt")
    temperature: PositiveFloat = Field(default=1.0, description="sampling temperature")
    max_prompt_tokens: PositiveInt = Field(default=160, description="longest prompt, in tokens; others are left out")
    max_new_tokens: PositiveInt = Field(default=20, description="longest answer, in tokens")
    batch_size: PositiveInt = Field(default=64, description="answers sampled at a time")


class PpoConfig(StageModel):
    """Everything about one PPO run."""

    iterations: PositiveInt = Field(default=16, description="rollouts, each followed by `epochs` passes over it")
    epochs: PositiveInt = Field(default=1, description="passes over an iteration's answers")
    steps_per_epoch: PositiveInt = Field(default=2, description="optimizer steps that share an iteration's answers")
    micro_batch_size: PositiveInt = Field(default=32, description="answers in one forward pass")
    sampling: Sampling = Field(default=Sampling(), description="how answers are sampled")
    rewards: tuple[AnyReward, ...] = Field(
        default=(RewardModelScore(weight=0.25), AnswerCheck()), min_length=1, description="what is summed to the reward"
    )
    learning_rate: PositiveFloat = Field(default=2e-4, description="Adam, policy, peak")
    critic_learning_rate: PositiveFloat = Field(default=3e-4, description="Adam, critic, peak")
    warmup_ratio: float = Field(default=0.1, ge=0, lt=1, description="share of the steps, 0-1")
    min_learning_rate_ratio: float = Field(default=0.05, ge=0, le=1, description="end of the cosine, 0-1 of the peak")
    kl_coef: NonNegativeFloat = Field(default=0.3, description="weight of the per-token KL penalty in the reward")
    max_kl: PositiveFloat = Field(default=1.0, description="mean KL to the reference, nats a token, that ends the run")
    gamma: float = Field(default=1.0, ge=0, le=1, description="discount")
    lam: float = Field(default=0.95, ge=0, le=1, description="GAE's lambda")
    clip_range: PositiveFloat = Field(default=0.2, description="policy ratio kept within 1 +- this")
    value_clip_range: PositiveFloat = Field(default=0.5, description="value kept within this of the old one")
    value_loss_weight: NonNegativeFloat = Field(default=0.5, description="weight of the critic's loss")
    sft_loss_weight: NonNegativeFloat = Field(default=0.2, description="weight of the SFT loss against forgetting")
    sft_batch_size: PositiveInt = Field(default=16, description="conversations in the SFT loss of one step")
    max_grad_norm: PositiveFloat = Field(default=1.0, description="gradient norm above which it is scaled down")
    num_heldout_prompts: PositiveInt = Field(default=600, description="held-out prompts for reward and accuracy")

    @model_validator(mode="after")
    def _every_step_has_answers(self) -> "PpoConfig":
        num_answers = self.sampling.prompts_per_iteration * self.sampling.samples_per_prompt
        num_batches = -(-num_answers // self.micro_batch_size)
        if self.steps_per_epoch > num_batches:
            raise ValueError(
                f"steps_per_epoch: want at most the micro-batches of an iteration ({num_answers} answers, "
                f"{self.micro_batch_size} at a time: {num_batches}), got {self.steps_per_epoch}; lower it or "
                f"micro_batch_size"
            )
        return self


class PpoInputs(StageModel):
    """What ppo reads."""

    model: Model
    reward_model: RewardModel
    instructions: Instructions


class PpoOutputs(StageModel):
    """What ppo writes."""

    model: Model


def run(config: PpoConfig, inputs: PpoInputs, ctx: StageContext) -> PpoOutputs:
    """Measure, train, measure, save."""
    import torch

    from models.export import load_model, load_reward_model, save_model
    from models.ppo_loss import ActorCritic, critic_of
    from models.tokenizer import ChatTemplate, load_tokenizer
    from models.trainer import TrainingDivergedError

    torch.use_deterministic_algorithms(True)
    model_dir, reward_dir = ctx.store.get(inputs.model), ctx.store.get(inputs.reward_model)
    records_dir = ctx.store.get(inputs.instructions)
    tokenizer = load_tokenizer(model_dir)
    template = ChatTemplate(tokenizer)
    tools = RewardTools(template, load_reward_model(reward_dir))
    policy = load_model(model_dir)
    heldout = _within_length(config, template, read_records(records_dir / "heldout.jsonl", Instruction), "held-out")
    train = _within_length(config, template, read_records(records_dir / "train.jsonl", Instruction), "training")
    before = quality_of(policy, heldout, config, tools, seed=ctx.seed)
    networks = ActorCritic(policy, critic_of(load_reward_model(reward_dir)))
    try:
        _train(config, networks, load_model(model_dir), train, tools, ctx)
    except (TrainingDivergedError, RuntimeError) as error:
        raise BadSpecError(f"ppo: {error}") from error
    policy.eval()
    _log_quality(before, quality_of(policy, heldout, config, tools, seed=ctx.seed), ctx)
    save_model(policy, tokenizer, ctx.scratch / "model")
    return PpoOutputs(model=ctx.store.put(ctx.scratch / "model", Model))


def _within_length(
    config: PpoConfig, template: Any, instructions: Sequence[Instruction], split: str
) -> list[Instruction]:
    limit = config.sampling.max_prompt_tokens
    found = [one for one in instructions if len(template.encode(one.prompt)) <= limit]
    if not found:
        raise BadSpecError(
            f"ppo: want {split} prompts of at most {limit} tokens, got none of {len(instructions)}; "
            "raise ppo.sampling.max_prompt_tokens"
        )
    return found


def _train(
    config: PpoConfig,
    networks: "ActorCritic",
    reference: Any,
    train: Sequence[Instruction],
    tools: RewardTools,
    ctx: StageContext,
) -> None:
    from models.checkpoint import StateRegistry
    from models.ppo_loss import PpoLoss, PpoLossConfig, PpoMicroBatch, build_ppo_optimizer
    from models.trainer import Callbacks, Trainer, TrainerConfig
    from stages.ppo_steps import PpoSteps

    steps = PpoSteps(config, networks, reference, train, tools, ctx)
    loss_of = PpoLoss(
        networks,
        PpoLossConfig(
            clip_range=config.clip_range,
            value_clip_range=config.value_clip_range,
            value_loss_weight=config.value_loss_weight,
            sft_loss_weight=config.sft_loss_weight,
        ),
    )
    registry = StateRegistry({})
    registry.register("ppo.generator", steps.generator)
    registry.register("ppo.order", steps.order)
    for constant in (reference, tools.reward_model):
        registry.exempt(constant)
    trainer: Trainer[PpoMicroBatch] = Trainer(
        "ppo",
        model=networks,
        optimizer=build_ppo_optimizer(
            networks,
            policy_learning_rate=config.learning_rate,
            critic_learning_rate=config.critic_learning_rate,
        ),
        schedule=steps,
        registry=registry,
        config=TrainerConfig(num_steps=steps.num_steps, max_grad_norm=config.max_grad_norm),
        callbacks=Callbacks(on_step=lambda report: _log_step(report, steps.num_steps, ctx)),
    )
    trainer.run(steps.micro_batches_at, loss_of)


def _log_step(report: "StepReport", num_steps: int, ctx: StageContext) -> None:
    metrics = dict(report.metrics)
    ratio_error = metrics.pop("ratio_error")
    if report.step == 1:
        ctx.log_metric("ppo/first_step_ratio_error", ratio_error)
        if ratio_error != 0.0:
            raise RuntimeError(
                f"first step: want a ratio of exactly 1 (rollout and training agree), got an error of {ratio_error}; "
                "the two forward passes differ, which is a bug"
            )
    if report.is_skipped:
        ctx.log(f"step {report.step}: skipped, loss {report.loss}, gradient norm {report.grad_norm}")
        return
    for name, value in metrics.items():
        ctx.log_metric(f"ppo/{name}", value, report.step)
    ctx.log_metric("ppo/grad_norm", report.grad_norm, report.step)
    ctx.progress(report.step, num_steps, "steps")


def _log_quality(before: PolicyQuality, after: PolicyQuality, ctx: StageContext) -> None:
    for name, of_before, of_after in (
        ("reward", before.sampled_rewards, after.sampled_rewards),
        ("greedy_reward", before.greedy_rewards, after.greedy_rewards),
    ):
        gain, standard_error = paired_gain(of_before, of_after)
        ctx.log_metric(f"ppo/{name}_before", math.fsum(of_before) / len(of_before))
        ctx.log_metric(f"ppo/{name}", math.fsum(of_after) / len(of_after))
        ctx.log_metric(f"ppo/{name}_gain_standard_errors", gain / standard_error if standard_error else 0.0)
        ctx.log(f"held-out {name}: gain {gain:+.4f}, standard error {standard_error:.4f}")
    ctx.log_metric("ppo/accuracy_before", before.accuracy)
    ctx.log_metric("ppo/accuracy", after.accuracy)


STAGE = Stage(
    name="ppo",
    config=PpoConfig,
    inputs=PpoInputs,
    outputs=PpoOutputs,
    run=run,
    metrics=("ppo/*",),
    headline=Headline(label="mean reward on held-out prompts", before="ppo/reward_before", after="ppo/reward"),
)
