"""Rewards. To add one: write `stages/rewards/<kind>.py`, then list its kind here."""

from typing import TYPE_CHECKING

from stages.plugins import plugin_union
from stages.rewards.base import Reward

REWARD_KINDS = ("reward_model", "answer_check")

if TYPE_CHECKING:
    AnyReward = Reward
else:
    AnyReward = plugin_union(__name__, REWARD_KINDS, Reward)
