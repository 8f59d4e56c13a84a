"""The loss of a PPO step: clipped policy loss, clipped value loss, and the SFT loss that holds what was learnt.

Two networks, no shared weights: the policy, and a critic that starts as the reward model's backbone with a head of 0.

Shapes: B answers, T positions that predict a token.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from models.losses import IGNORED_LABEL, supervised_loss_sum
from models.optim import MuonAdamW, OptimConfig, build_optimizer
from models.ppo import policy_loss, value_loss
from models.rollout import Rollout, answer_logprobs, answer_values
from models.trainer import StepLoss


class ActorCritic(nn.Module):
    """Policy and critic side by side, so that one trainer clips, checks and updates both."""

    def __init__(self, policy: Any, critic: Any) -> None:
        super().__init__()
        self.policy = policy
        self.critic = critic


def critic_of(reward_model: Any) -> Any:
    """`reward_model`, made a critic in place: its head becomes 0, because returns are relative to the prompt's samples.

    Its scores would be no values: they say how good an answer is, not by how much it beats another.
    """
    with torch.no_grad():
        reward_model.score.weight.zero_()
    return reward_model


@dataclass(frozen=True)
class Conversations:
    """Supervised conversations, padded on the right; labels as in Hugging Face."""

    input_ids_BL: torch.Tensor
    is_real_BL: torch.Tensor
    labels_BL: torch.Tensor


@dataclass(frozen=True)
class PpoMicroBatch:
    """A part of a step. `num_step_tokens` counts the answer tokens of the whole step, so that the losses add up."""

    part: Rollout | Conversations
    num_step_tokens: int


@dataclass(frozen=True)
class PpoLossConfig:
    """Clipping and the weights of the three losses."""

    clip_range: float
    value_clip_range: float
    value_loss_weight: float
    sft_loss_weight: float


def pad_conversations(rows: Sequence[dict[str, list[int]]], *, pad_id: int) -> Conversations:
    """Rows of `models.supervised.labelled_row` as one batch."""
    length = max(len(row["input_ids"]) for row in rows)
    gaps = [length - len(row["input_ids"]) for row in rows]
    return Conversations(
        torch.tensor([row["input_ids"] + [pad_id] * gap for row, gap in zip(rows, gaps, strict=True)]),
        torch.tensor([[position < length - gap for position in range(length)] for gap in gaps]),
        torch.tensor([row["labels"] + [IGNORED_LABEL] * gap for row, gap in zip(rows, gaps, strict=True)]),
    )


class PpoLoss:
    """`loss_of` of the trainer; its metrics are shares of the step, so they add up over micro-batches."""

    def __init__(self, networks: ActorCritic, config: PpoLossConfig) -> None:
        self.networks = networks
        self.config = config

    def __call__(self, micro_batch: PpoMicroBatch) -> StepLoss:
        """Loss and metrics of one micro-batch."""
        if isinstance(micro_batch.part, Conversations):
            return self._supervised(micro_batch.part)
        return self._clipped(micro_batch.part, micro_batch.num_step_tokens)

    def _clipped(self, rollout: Rollout, num_step_tokens: int) -> StepLoss:
        is_answer_BT = rollout.tokens.is_answer_BT
        logprobs_BT, entropy_BT = answer_logprobs(self.networks.policy, rollout.tokens)
        policy = policy_loss(
            logprobs_BT,
            rollout.old_logprobs_BT,
            rollout.advantages_BT,
            is_answer_BT,
            clip_range=self.config.clip_range,
            num_tokens=num_step_tokens,
        )
        value = value_loss(
            answer_values(self.networks.critic, rollout.tokens),
            rollout.old_values_BT,
            rollout.returns_BT,
            is_answer_BT,
            clip_range=self.config.value_clip_range,
            num_tokens=num_step_tokens,
        )
        return StepLoss(
            loss=policy.loss + self.config.value_loss_weight * value,
            num_tokens=rollout.tokens.num_answer_tokens,
            metrics={
                "policy_loss": float(policy.loss.detach()),
                "value_loss": float(value.detach()),
                "clip_fraction": policy.clip_fraction,
                "approx_kl": policy.approx_kl,
                "entropy": float(entropy_BT.sum() / num_step_tokens),
                "ratio_error": policy.ratio_error,
            },
        )

    def _supervised(self, batch: Conversations) -> StepLoss:
        policy = self.networks.policy
        hidden_BLD = policy.model(input_ids=batch.input_ids_BL, attention_mask=batch.is_real_BL).hidden_BTD
        targets_BT = batch.labels_BL[:, 1:]
        counts_BT = targets_BT != IGNORED_LABEL
        loss = supervised_loss_sum(hidden_BLD[:, :-1], targets_BT, counts_BT, policy.lm_head) / counts_BT.sum()
        return StepLoss(
            loss=self.config.sft_loss_weight * loss, num_tokens=0, metrics={"sft_loss": float(loss.detach())}
        )


def build_ppo_optimizer(
    networks: ActorCritic, *, policy_learning_rate: float, critic_learning_rate: float
) -> MuonAdamW:
    """Adam for both networks, each at its own learning rate, without weight decay."""
    configs = [
        OptimConfig(learning_rate=rate, embedding_learning_rate=rate, weight_decay=0.0, use_muon=False)
        for rate in (policy_learning_rate, critic_learning_rate)
    ]
    halves = [
        build_optimizer(network, config)
        for network, config in zip((networks.policy, networks.critic), configs, strict=True)
    ]
    return MuonAdamW((group for half in halves for group in half.param_groups), configs[0])
