"""Whether the reward model ranks answers, and whether PPO raised the reward without losing what the model could do."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from stages.evidence import Evidence, paired_gain
from stages.gates.base import Gate, GateFamily

_MIN_STDERR = 1e-9  # equal differences everywhere, none at all among them, have a standard error of 0


class AlignmentGates(GateFamily):
    """Reward model on held-out pairs, PPO against SFT on held-out prompts."""

    kind: Literal["alignment"] = "alignment"
    min_reward_model_accuracy: float = Field(default=0.65, description="held-out pairs ranked right, 0-1")
    min_gain_over_length: float = Field(
        default=0.0, description="held-out pairs ranked right beyond those that length alone ranks right, 0-1"
    )
    min_ppo_reward_gain_stderr: float = Field(
        default=2.0, description="mean reward of PPO minus SFT, in standard errors of the paired difference"
    )
    max_ppo_accuracy_drop_stderr: float = Field(
        default=1.0, ge=0, description="instruction accuracy PPO may lose, in standard errors of the paired difference"
    )

    def judge(self, evidence: Evidence) -> Iterator[Gate]:
        """The reward model first."""
        quality, ppo, sft = evidence.reward_model, evidence.models["ppo"], evidence.models["sft"]
        yield Gate(
            name="reward_model_accuracy",
            about="held-out preference pairs that the reward model ranks right",
            value=quality.accuracy,
            bound="at least",
            threshold=self.min_reward_model_accuracy,
        )
        yield Gate(
            name="reward_model_beats_length",
            about="held-out pairs that the reward model ranks right beyond those that length alone ranks right",
            value=quality.accuracy - quality.length_baseline_accuracy,
            bound="above",
            threshold=self.min_gain_over_length,
        )
        gain, stderr = paired_gain(ppo.items.get("reward", {}), sft.items.get("reward", {}))
        yield Gate(
            name="ppo_reward_gain",
            about=f"mean reward of PPO minus SFT on held-out prompts; the bound is {self.min_ppo_reward_gain_stderr:g} "
            "standard errors",
            value=gain,
            bound="above",
            threshold=self.min_ppo_reward_gain_stderr * max(stderr, _MIN_STDERR),
        )
        gain, stderr = paired_gain(ppo.items.get("is_correct", {}), sft.items.get("is_correct", {}))
        yield Gate(
            name="ppo_keeps_accuracy",
            about="instruction accuracy of PPO minus SFT; the bound allows for "
            f"{self.max_ppo_accuracy_drop_stderr:g} standard errors",
            value=gain,
            bound="at least",
            threshold=-self.max_ppo_accuracy_drop_stderr * stderr,
        )
