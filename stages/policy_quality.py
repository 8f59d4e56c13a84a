"""How good a policy is on held-out prompts: rewards of sampled and of greedy answers, and greedy accuracy."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stages.answers import accuracy_of, evenly, judge
from stages.means import mean_and_stderr
from stages.records import Instruction
from stages.rewards.base import Answer, Reward, RewardTools

if TYPE_CHECKING:
    from models.generate import Generation, Generator
    from stages.ppo import PpoConfig, Sampling


@dataclass(frozen=True)
class PolicyQuality:
    """Figures of one policy; the rewards are in the order of the prompts, so that two policies can be paired."""

    sampled_rewards: list[float]
    greedy_rewards: list[float]
    accuracy: float


def total_rewards(answers: Sequence[Answer], rewards: Sequence[Reward], tools: RewardTools) -> list[float]:
    """Weighted sum of all rewards. Raises RuntimeError for one that is not finite or not one an answer."""
    totals = [0.0] * len(answers)
    for reward in rewards:
        found = reward.rewards(answers, tools)
        if len(found) != len(answers) or not all(map(math.isfinite, found)):
            odd = next((value for value in found if not math.isfinite(value)), f"{len(found)} numbers")
            raise RuntimeError(
                f"reward {reward.model_dump().get('kind')}: want {len(answers)} finite numbers, got {odd}; mend it"
            )
        totals = [total + reward.weight * value for total, value in zip(totals, found, strict=True)]
    return totals


def sampled_answers(
    policy: Any, instructions: Sequence[Instruction], sampling: "Sampling", tools: RewardTools, generator: "Generator"
) -> tuple[list[list[int]], list["Generation"], list[Answer]]:
    """One sampled answer to each instruction: prompts and answers as tokens, and answers as text."""
    from models.rollout import sample_answers

    prompts = [tools.template.encode(one.prompt) for one in instructions]
    generations = sample_answers(
        policy,
        prompts,
        max_new_tokens=sampling.max_new_tokens,
        stop_ids=tools.template.stop_ids,
        temperature=sampling.temperature,
        generator=generator,
        batch_size=sampling.batch_size,
    )
    answers = [
        Answer(one, tools.template.parse(generation.token_ids), generation.finished == "stop")
        for one, generation in zip(instructions, generations, strict=True)
    ]
    return prompts, generations, answers


def quality_of(
    policy: Any, heldout: Sequence[Instruction], config: "PpoConfig", tools: RewardTools, *, seed: int
) -> PolicyQuality:
    """Measure `policy`; with the same seed, a prompt's answer is sampled with the same random numbers."""
    from models.rollout import generators

    sampling = config.sampling
    chosen = evenly(heldout, config.num_heldout_prompts)
    *_, answers = sampled_answers(policy, chosen, sampling, tools, generators(seed, len(chosen)))
    judged = judge(
        policy, tools.template, chosen, max_new_tokens=sampling.max_new_tokens, batch_size=sampling.batch_size
    )
    greedy = [Answer(one.instruction, one.answer, one.stopped) for one in judged]
    return PolicyQuality(
        sampled_rewards=total_rewards(answers, config.rewards, tools),
        greedy_rewards=total_rewards(greedy, config.rewards, tools),
        accuracy=accuracy_of(judged).accuracy,
    )


def paired_gain(before: Sequence[float], after: Sequence[float]) -> tuple[float, float]:
    """(mean difference, its standard error): a prompt's difficulty cancels out."""
    return mean_and_stderr([b - a for a, b in zip(before, after, strict=True)])
