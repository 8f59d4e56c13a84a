"""The data of PPO's steps: an iteration's rollouts are made when its first step asks for them.

Within an iteration the rollouts are cut into micro-batches once, and every epoch walks through them in another seeded
order: the forward passes of sampling and training stay the same computation.
"""

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from models.ppo import explained_variance
from models.ppo_loss import ActorCritic, PpoMicroBatch, pad_conversations
from models.rollout import Rollout, evaluate_answers, pad_answers, sample_answers, with_advantages
from models.supervised_rows import labelled_row
from stages.contract import StageContext
from stages.policy_quality import total_rewards
from stages.records import Instruction
from stages.rewards.base import Answer, RewardTools

if TYPE_CHECKING:
    from stages.ppo import PpoConfig

_MAX_EMPTY_RATIO = 0.9  # a policy that only ends its answers has collapsed (DeepSpeedExamples issue 887)


class PpoSteps:
    """`batches_at` of the trainer."""

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
        self._waiting: list[int] = []
        self._steps: list[list[Rollout]] = []

    def micro_batches_at(self, step: int) -> list[PpoMicroBatch]:
        """The parts of optimizer step `step` (0 = the first); steps are asked for in order, once."""
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

    def _shuffled(self, rollouts: Sequence[Rollout]) -> list[list[Rollout]]:
        steps: list[list[Rollout]] = []
        for _ in range(self.config.epochs):
            order = self.order.sample(range(len(rollouts)), len(rollouts))
            for part in range(self.config.steps_per_epoch):
                steps.append([rollouts[i] for i in order[part :: self.config.steps_per_epoch]])
        return steps

    def _draw(self, count: int) -> list[int]:
        """Indices without repetition until every instruction had its turn."""
        while len(self._waiting) < count:
            self._waiting += self.order.sample(range(len(self.instructions)), len(self.instructions))
        drawn, self._waiting = self._waiting[:count], self._waiting[count:]
        return drawn

    def _rollouts(self, iteration: int) -> list[Rollout]:
        config, sampling, template = self.config, self.config.sampling, self.tools.template
        self.networks.policy.eval()
        drawn = [i for i in self._draw(sampling.prompts_per_iteration) for _ in range(sampling.samples_per_prompt)]
        chosen = [self.instructions[i] for i in drawn]
        prompts = [template.encode(one.prompt) for one in chosen]
        generations = sample_answers(
            self.networks.policy,
            prompts,
            max_new_tokens=sampling.max_new_tokens,
            stop_ids=template.stop_ids,
            temperature=sampling.temperature,
            generator=self.generator,
            batch_size=sampling.batch_size,
        )
        answers = [
            Answer(one, template.parse(generation.token_ids), generation.finished == "stop")
            for one, generation in zip(chosen, generations, strict=True)
        ]
        rewards = total_rewards(answers, config.rewards, self.tools)
        order = sorted(range(len(prompts)), key=lambda i: (len(prompts[i]) + len(generations[i].token_ids), i))
        rollouts = []
        for start in range(0, len(order), config.micro_batch_size):
            batch = order[start : start + config.micro_batch_size]
            tokens = pad_answers(
                [prompts[i] for i in batch],
                [generations[i].token_ids for i in batch],
                pad_id=template.pad_id,
                device=self.networks.policy.device,
            )
            reward_B = torch.tensor([rewards[i] for i in batch], device=tokens.input_ids_BL.device)
            rollouts.append(
                evaluate_answers(self.networks.policy, self.networks.critic, self.reference, tokens, reward_B)
            )
        self._check_and_log(iteration, rollouts, answers)
        rollouts = with_advantages(rollouts, kl_coef=config.kl_coef, gamma=config.gamma, lam=config.lam)
        values, returns, is_answer = (
            torch.cat([part.flatten() for part in parts])
            for parts in zip(*((r.old_values_BT, r.returns_BT, r.tokens.is_answer_BT) for r in rollouts), strict=True)
        )
        explained = explained_variance(values, returns, is_answer)
        self.ctx.log_metric("ppo/explained_variance", explained, self._first_step_of(iteration))
        self.networks.train()
        return rollouts

    def _first_step_of(self, iteration: int) -> int:
        return iteration * self.config.epochs * self.config.steps_per_epoch + 1

    def _check_and_log(self, iteration: int, rollouts: Sequence[Rollout], answers: Sequence[Answer]) -> None:
        counted = torch.cat([rollout.tokens.is_answer_BT.flatten() for rollout in rollouts])
        kl = torch.cat([rollout.kl_BT.flatten() for rollout in rollouts])[counted]
        mean_kl, empty_ratio = float(kl.mean()), sum(not answer.text for answer in answers) / len(answers)
        step = self._first_step_of(iteration)
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
        if empty_ratio > _MAX_EMPTY_RATIO:
            raise RuntimeError(
                f"iteration {iteration}: want answers, got {empty_ratio:.0%} empty ones (the policy only stops); "
                "look at the rewards, or lower ppo.learning_rate"
            )
        rewards = torch.cat([rollout.reward_B for rollout in rollouts])
        self.ctx.log_metric("ppo/kl", mean_kl, step)
        self.ctx.log_metric("ppo/train_reward", float(rewards.mean()), step)
        self.ctx.log_metric("ppo/answer_tokens", int(counted.sum()) / len(answers), step)
        self.ctx.log(f"iteration {iteration}: reward {float(rewards.mean()):.3f}, KL {mean_kl:.4f} nats a token")
