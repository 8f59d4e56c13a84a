"""What release gates judge by: the evaluations of the five models, the reward model's quality, and the files' sizes.

Comparisons of two models are paired over the same held-out items: the difference of each item, its mean and the
standard error of that mean.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from infra.errors import BadSpecError
from stages.evaluation_file import EvaluatedModel, Items
from stages.means import mean_and_stderr

MODEL_NAMES = ("base", "sft", "ppo", "int8", "int4")


class RewardModelQuality(BaseModel):
    """What gates read of a reward model's `evaluation.json`."""

    model_config = ConfigDict(frozen=True)
    accuracy: float
    length_baseline_accuracy: float


@dataclass(frozen=True)
class Evidence:
    """Everything known about a release before it is judged. Raises BadSpecError when the models cannot be compared."""

    models: Mapping[str, EvaluatedModel]
    reward_model: RewardModelQuality
    weight_bytes: Mapping[str, int]  # whole weight files of ppo, int8, int4

    def __post_init__(self) -> None:
        """One tokenizer, one chat template, one reward model, the same items."""
        for field in ("tokenizer_sha256", "template_sha256", "reward_model"):
            found = {name: str(getattr(model.about, field))[:12] for name, model in self.models.items()}
            if len(set(found.values())) > 1:
                raise BadSpecError(
                    f"evaluations: want one {field} for all models, got {found}; evaluate them again alike"
                )
        for kind in ("is_correct", "reward"):
            ids = {name: frozenset(model.items.get(kind, {})) for name, model in self.models.items()}
            if len(set(ids.values())) > 1:
                counts = {name: len(found) for name, found in ids.items()}
                raise BadSpecError(f"evaluations: want the same items of {kind} for all models, got {counts} of them")

    def metric(self, model: str, name: str) -> float:
        """One figure of one model."""
        return self.models[model].metric(name)


def paired_gain(after: Items, before: Items) -> tuple[float, float]:
    """Mean and standard error of the items' differences."""
    if not after:
        return 0.0, 0.0
    return mean_and_stderr([float(after[item]) - float(before[item]) for item in sorted(after)])


def agreement(one: EvaluatedModel, other: EvaluatedModel) -> float:
    """Share of held-out items with the same greedy answer."""
    answers, others = one.items.get("answer", {}), other.items.get("answer", {})
    return sum(answers[item] == others[item] for item in answers) / max(1, len(answers))
