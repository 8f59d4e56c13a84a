"""The data of PPO's steps: an iteration's rollouts are made when its first step asks for them.

Rewards are relative to the other samples of the same prompt; prompts whose samples are all worth the same are left out.
Within an iteration the rollouts are cut into micro-batches once, and every epoch walks through them in another seeded
order: the forward passes of sampling and training stay the same computation.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from models.ppo import explained_variance, relative_to_prompt
from models.ppo_loss import ActorCritic, PpoMicroBatch, pad_conversations
from models.rollout import Rollout, evaluate_answers, pad_answers, with_advantages
from models.schedule import CosineSchedule
from models.supervised_rows import labelled_row
from stages.contract import StageContext
from stages.policy_quality import sampled_answers, total_rewards
from stages.records import Instruction
from stages.rewards.base import Answer, RewardTools

if TYPE_CHECKING:
    from stages.ppo import PpoConfig

_MAX_EMPTY_RATIO = 0.9  # a policy that only ends its answers has collapsed (DeepSpeedExamples issue 887)


@dataclass(frozen=True)
class _Sample:
    """An answer of the policy, and its reward relative to the prompt's other samples."""

    prompt: list[int]
    token_ids: list[int]
    relative_reward: float


class PpoSteps:
    """`batches_at` and the schedule of the trainer."""

    def __init__(
        self,
        config: "PpoConfig",
        networks: ActorCritic,
        reference: Any,
        instructions: Sequence[Instruction],
        tools: RewardTools,
        ctx: StageContext,
    ) -> None:
        self.config = config
        self.networks = networks
        self.reference = reference
        self.instructions = instructions
        self.tools = tools
        self.ctx = ctx
        self.generator = torch.Generator(device=networks.policy.device).manual_seed(ctx.seed)
        self.order = random.Random(ctx.seed)
        self.num_steps = config.iterations * config.epochs * config.steps_per_epoch
        self._step = 0
        self._waiting: list[int] = []
        self._steps: list[list[Rollout]] = []

    def micro_batches_at(self, step: int) -> list[PpoMicroBatch]:
        """The parts of optimizer step `step` (0 = the first); steps are asked for in order, once."""
        self._step = step
        per_iteration = self.config.epochs * self.config.steps_per_epoch
        iteration, place = divmod(step, per_iteration)
        if place == 0:
            self._steps = self._shuffled(self._rollouts(iteration))
        rollouts = self._steps[place]
        num_tokens = sum(rollout.tokens.num_answer_tokens for rollout in rollouts)
        parts = [PpoMicroBatch(rollout, num_tokens) for rollout in rollouts]
        if self.config.sft_loss_weight:
            chosen = [self.instructions[i] for i in self._draw(self.config.sft_batch_size)]
            rows = [labelled_row(self.tools.template, one.conversation) for one in chosen]
            parts.append(PpoMicroBatch(pad_conversations(rows, pad_id=self.tools.template.pad_id), num_tokens))
        return parts

    def factor(self, _num_tokens: int) -> float:
        """Warm-up and half a cosine over the steps, because how long answers will be is not known before.

        It ends low: a constant rate would undo what the decay at the end of SFT has settled.
        """
        warmup_steps = int(self.num_steps * self.config.warmup_ratio)
        return CosineSchedule(warmup_steps, self.num_steps, self.config.min_learning_rate_ratio).factor(self._step + 1)

    def _shuffled(self, rollouts: Sequence[Rollout]) -> list[list[Rollout]]:
        steps: list[list[Rollout]] = []
        for _ in range(self.config.epochs):
            order = self.order.sample(range(len(rollouts)), len(rollouts))
            for part in range(self.config.steps_per_epoch):
                # where prompts were left out, there may be fewer micro-batches than steps: one is used again
                steps.append([rollouts[i] for i in order[part :: self.config.steps_per_epoch] or order[:1]])
        return steps

    def _draw(self, count: int) -> list[int]:
        """Indices without repetition until every instruction had its turn."""
        while len(self._waiting) < count:
            self._waiting += self.order.sample(range(len(self.instructions)), len(self.instructions))
        drawn, self._waiting = self._waiting[:count], self._waiting[count:]
        return drawn

    def _rollouts(self, iteration: int) -> list[Rollout]:
        config, networks = self.config, self.networks
        networks.policy.eval()
        samples = self._samples(self._first_step_of(iteration))
        rollouts = []
        for start in range(0, len(samples), config.micro_batch_size):
            batch = samples[start : start + config.micro_batch_size]
            tokens = pad_answers(
                [sample.prompt for sample in batch],
                [sample.token_ids for sample in batch],
                pad_id=self.tools.template.pad_id,
                device=networks.policy.device,
            )
            reward_B = torch.tensor([sample.relative_reward for sample in batch], device=tokens.input_ids_BL.device)
            rollouts.append(evaluate_answers(networks.policy, networks.critic, self.reference, tokens, reward_B))
        self._check_kl(iteration, rollouts)
        rollouts = with_advantages(rollouts, kl_coef=config.kl_coef, gamma=config.gamma, lam=config.lam)
        values, returns, is_answer = (
            torch.cat([part.flatten() for part in parts])
            for parts in zip(*((r.old_values_BT, r.returns_BT, r.tokens.is_answer_BT) for r in rollouts), strict=True)
        )
        explained = explained_variance(values, returns, is_answer)
        self.ctx.log_metric("ppo/explained_variance", explained, self._first_step_of(iteration))
        networks.train()
        return rollouts

    def _samples(self, step: int) -> list[_Sample]:
        """Samples of the next prompts whose samples are told apart, short ones first."""
        sampling = self.config.sampling
        drawn = [i for i in self._draw(sampling.prompts_per_iteration) for _ in range(sampling.samples_per_prompt)]
        chosen = [self.instructions[i] for i in drawn]
        prompts, generations, answers = sampled_answers(
            self.networks.policy, chosen, sampling, self.tools, self.generator
        )
        rewards = total_rewards(answers, self.config.rewards, self.tools)
        relative_PK, is_told_apart_P = relative_to_prompt(torch.tensor(rewards).view(-1, sampling.samples_per_prompt))
        self._check_answers(step, answers, rewards, is_told_apart_P)
        num_tokens = sum(len(generation.token_ids) for generation in generations)
        self.ctx.log_metric("ppo/answer_tokens", num_tokens / len(generations), step)
        kept = [
            _Sample(prompts[i], generations[i].token_ids, float(relative_PK.flatten()[i]))
            for i in range(len(prompts))
            if is_told_apart_P[i // sampling.samples_per_prompt]
        ]
        return sorted(kept, key=lambda sample: len(sample.prompt) + len(sample.token_ids))

    def _first_step_of(self, iteration: int) -> int:
        return iteration * self.config.epochs * self.config.steps_per_epoch + 1

    def _check_answers(
        self, step: int, answers: Sequence[Answer], rewards: Sequence[float], is_told_apart_P: torch.Tensor
    ) -> None:
        empty_ratio = sum(not answer.text for answer in answers) / len(answers)
        if empty_ratio > _MAX_EMPTY_RATIO:
            raise RuntimeError(
                f"step {step}: want answers, got {empty_ratio:.0%} empty ones (the policy only stops); "
                "look at the rewards, or lower ppo.learning_rate"
            )
        if not bool(is_told_apart_P.any()):
            raise RuntimeError(
                f"rewards: want prompts whose answers are told apart, got none of {len(is_told_apart_P)} "
                f"(the first reward is {rewards[0]}); use another reward, or sample at a higher temperature"
            )
        mean_reward = sum(rewards) / len(rewards)
        self.ctx.log_metric("ppo/train_reward", mean_reward, step)
        self.ctx.log_metric("ppo/told_apart_ratio", float(is_told_apart_P.float().mean()), step)
        self.ctx.log(f"step {step}: reward {mean_reward:.3f}")

    def _check_kl(self, iteration: int, rollouts: Sequence[Rollout]) -> None:
        """KL to the reference over the tokens that are trained on."""
        counted = torch.cat([rollout.tokens.is_answer_BT.flatten() for rollout in rollouts])
        kl = torch.cat([rollout.kl_BT.flatten() for rollout in rollouts])[counted]
        mean_kl = float(kl.mean())
        if iteration == 0:
            self.ctx.log_metric("ppo/first_step_kl", float(kl.abs().max()))
            if bool(kl.any()):
                raise RuntimeError(
                    f"first step: want a KL of exactly 0 to the reference it started as, got {float(kl.abs().max())}; "
                    "policy and reference differ, which is a bug"
                )
        if not mean_kl <= self.config.max_kl:
            raise RuntimeError(
                f"iteration {iteration}: want a mean KL of at most {self.config.max_kl} nats a token, got {mean_kl}; "
                "lower ppo.learning_rate or raise ppo.kl_coef"
            )
        self.ctx.log_metric("ppo/kl", mean_kl, self._first_step_of(iteration))
