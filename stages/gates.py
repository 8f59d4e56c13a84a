"""What a model has to show before it is released: typed thresholds, and a verdict in words for each.

Comparisons of two models are paired over the same held-out items: the difference of each item, its mean and the
standard error of that mean.
"""

from collections.abc import Iterator, Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from infra.errors import BadSpecError
from stages.contract import StageModel
from stages.evaluation_file import EvaluatedModel, Items
from stages.means import mean_and_stderr

MODEL_NAMES = ("base", "sft", "ppo", "int8", "int4")
_MIN_STDERR = 1e-9  # equal differences everywhere, none at all among them, have a standard error of 0


class RewardModelQuality(BaseModel):
    """What gates read of a reward model's `evaluation.json`."""

    model_config = ConfigDict(frozen=True)
    accuracy: float
    length_baseline_accuracy: float


class GateThresholds(StageModel):
    """The limits; a ratio of 0.005 is half a percent."""

    min_unigram_gain_ratio: float = Field(
        default=0.20, description="pretrained bits per byte below the unigram model's, as a share of those"
    )
    min_sft_accuracy_gain: float = Field(default=0.10, description="instruction accuracy of SFT minus base, 0-1")
    min_tasks_above_constant: int = Field(
        default=2, ge=0, description="tasks whose accuracy beats the best constant answer by two standard errors"
    )
    min_items_of_task: int = Field(default=200, ge=1, description="held-out items that make a task count")
    tasks_not_counted: tuple[str, ...] = Field(
        default=("arithmetic",), description="tasks that never count as above constant"
    )
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
    max_int8_perplexity_cost: float = Field(default=0.005, description="INT8 perplexity above the full model's, ratio")
    max_int4_perplexity_cost: float = Field(default=0.08, description="INT4 perplexity above the full model's, ratio")
    max_int8_accuracy_drop: float = Field(default=0.03, description="instruction accuracy INT8 may lose, 0-1")
    max_int4_accuracy_drop: float = Field(default=0.10, description="instruction accuracy INT4 may lose, 0-1")


class Gate(BaseModel):
    """One verdict."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str
    about: str
    value: float
    bound: Literal["at least", "at most", "above"]
    threshold: float

    @property
    def passed(self) -> bool:
        """Whether the value keeps the bound."""
        if self.bound == "above":
            return self.value > self.threshold
        return self.value >= self.threshold if self.bound == "at least" else self.value <= self.threshold

    @property
    def reason(self) -> str:
        """The verdict in words."""
        verdict = "passed" if self.passed else "failed"
        return f"{self.name} {verdict}: want {self.bound} {self.threshold:.6g}, got {self.value:.6g} ({self.about})"


def judge(
    limits: GateThresholds, models: Mapping[str, EvaluatedModel], reward_model: RewardModelQuality
) -> tuple[Gate, ...]:
    """Every gate, in a fixed order. Raises BadSpecError for evaluations that cannot be compared."""
    check_comparable(models)
    return (*_learning(limits, models), *_alignment(limits, models, reward_model), *_packing(limits, models))


def check_comparable(models: Mapping[str, EvaluatedModel]) -> None:
    """One tokenizer, one chat template, one reward model, the same items."""
    for field in ("tokenizer_sha256", "template_sha256", "reward_model"):
        found = {name: str(getattr(model.about, field))[:12] for name, model in models.items()}
        if len(set(found.values())) > 1:
            raise BadSpecError(f"evaluations: want one {field} for all models, got {found}; evaluate them again alike")
    for kind in ("is_correct", "reward"):
        ids = {name: frozenset(model.items.get(kind, {})) for name, model in models.items()}
        if len(set(ids.values())) > 1:
            counts = {name: len(found) for name, found in ids.items()}
            raise BadSpecError(f"evaluations: want the same items of {kind} for all models, got {counts} of them")


def paired_gain(after: Items, before: Items) -> tuple[float, float]:
    """Mean and standard error of the items' differences."""
    if not after:
        return 0.0, 0.0
    return mean_and_stderr([float(after[item]) - float(before[item]) for item in sorted(after)])


def agreement(one: EvaluatedModel, other: EvaluatedModel) -> float:
    """Share of held-out items with the same greedy answer."""
    answers, others = one.items.get("answer", {}), other.items.get("answer", {})
    return sum(answers[item] == others[item] for item in answers) / max(1, len(answers))


def tasks_above_constant(limits: GateThresholds, model: EvaluatedModel) -> tuple[str, ...]:
    """Tasks that count and beat the best constant answer by two standard errors of their accuracy."""
    return tuple(sorted(_above_constant(limits, model)))


def _above_constant(limits: GateThresholds, model: EvaluatedModel) -> Iterator[str]:
    prefix = "eval/instruction_constant/"
    for name, constant in model.about.metrics.items():
        task = name.removeprefix(prefix)
        if not name.startswith(prefix) or task.split("/")[0] in limits.tasks_not_counted:
            continue
        if model.metric(f"eval/instruction_items/{task}") < limits.min_items_of_task:
            continue
        margin = 2 * model.metric(f"eval/instruction_stderr/{task}")
        if model.metric(f"eval/instruction_accuracy/{task}") - constant > margin:
            yield task


def _learning(limits: GateThresholds, models: Mapping[str, EvaluatedModel]) -> Iterator[Gate]:
    base, sft = models["base"], models["sft"]
    unigram = base.metric("eval/unigram_bits_per_byte")
    yield Gate(
        name="pretraining_beats_unigram",
        about="held-out bits per byte of the pretrained model below the unigram model's, ratio",
        value=1 - base.metric("eval/bits_per_byte") / unigram,
        bound="at least",
        threshold=limits.min_unigram_gain_ratio,
    )
    yield Gate(
        name="sft_accuracy_gain",
        about="instruction accuracy of the SFT model minus the pretrained model's",
        value=sft.metric("eval/instruction_accuracy") - base.metric("eval/instruction_accuracy"),
        bound="at least",
        threshold=limits.min_sft_accuracy_gain,
    )
    above = tasks_above_constant(limits, sft)
    yield Gate(
        name="tasks_above_constant",
        about=f"tasks that beat the best constant answer by two standard errors: {', '.join(above) or 'none'}",
        value=len(above),
        bound="at least",
        threshold=limits.min_tasks_above_constant,
    )


def _alignment(
    limits: GateThresholds, models: Mapping[str, EvaluatedModel], reward_model: RewardModelQuality
) -> Iterator[Gate]:
    sft, ppo = models["sft"], models["ppo"]
    yield Gate(
        name="reward_model_accuracy",
        about="held-out preference pairs that the reward model ranks right",
        value=reward_model.accuracy,
        bound="at least",
        threshold=limits.min_reward_model_accuracy,
    )
    yield Gate(
        name="reward_model_beats_length",
        about="held-out pairs that the reward model ranks right beyond those that length alone ranks right",
        value=reward_model.accuracy - reward_model.length_baseline_accuracy,
        bound="above",
        threshold=limits.min_gain_over_length,
    )
    gain, stderr = paired_gain(ppo.items.get("reward", {}), sft.items.get("reward", {}))
    yield Gate(
        name="ppo_reward_gain",
        about=f"mean reward of PPO minus SFT on held-out prompts; the bound is {limits.min_ppo_reward_gain_stderr:g} "
        "standard errors",
        value=gain,
        bound="above",
        threshold=limits.min_ppo_reward_gain_stderr * max(stderr, _MIN_STDERR),
    )
    gain, stderr = paired_gain(ppo.items.get("is_correct", {}), sft.items.get("is_correct", {}))
    yield Gate(
        name="ppo_keeps_accuracy",
        about="instruction accuracy of PPO minus SFT; the bound allows for "
        f"{limits.max_ppo_accuracy_drop_stderr:g} standard errors",
        value=gain,
        bound="at least",
        threshold=-limits.max_ppo_accuracy_drop_stderr * stderr,
    )


def _packing(limits: GateThresholds, models: Mapping[str, EvaluatedModel]) -> Iterator[Gate]:
    full = models["ppo"]
    bounds = {
        "int8": (limits.max_int8_perplexity_cost, limits.max_int8_accuracy_drop),
        "int4": (limits.max_int4_perplexity_cost, limits.max_int4_accuracy_drop),
    }
    for name, (max_cost, max_drop) in bounds.items():
        yield Gate(
            name=f"{name}_perplexity_cost",
            about=f"held-out perplexity of {name.upper()} above the full model's, ratio",
            value=models[name].metric("eval/perplexity") / full.metric("eval/perplexity") - 1,
            bound="at most",
            threshold=max_cost,
        )
        yield Gate(
            name=f"{name}_accuracy_drop",
            about=f"instruction accuracy of the full model minus {name.upper()}'s",
            value=full.metric("eval/instruction_accuracy") - models[name].metric("eval/instruction_accuracy"),
            bound="at most",
            threshold=max_drop,
        )
