"""Whether one model is better than another on the same items, or whether chance explains the difference.

Accuracy: McNemar's exact test, the items on which only one of the two is right, against a fair coin. Bits: the paired
permutation test on the mean difference of a document, with the signs flipped at random. Both are two-sided.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict

from stages.evaluation_file import Items

if TYPE_CHECKING:
    import numpy as np

NUM_RESAMPLES = 9999  # smallest p-value 1e-4


class Comparison(BaseModel):
    """One figure of champion and challenger over the same items."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    metric: str
    higher_is_better: bool
    champion: float
    challenger: float
    p_value: float
    num_items: int
    num_better: int  # items on which the challenger is the better one
    num_worse: int

    @property
    def gain(self) -> float:
        """How much better the challenger is; negative when it is worse."""
        return (self.challenger - self.champion) * (1 if self.higher_is_better else -1)

    def outcome(self, alpha: float) -> Literal["better", "worse", "no difference"]:
        """What the figures show at this level."""
        if self.p_value >= alpha or self.gain == 0:
            return "no difference"
        return "better" if self.gain > 0 else "worse"


def compare_accuracy(champion: Items, challenger: Items) -> Comparison:
    """Share of right answers. Both map the same item ids to 1 or 0."""
    from scipy.stats import binomtest

    ids = sorted(champion)
    num_better = sum(float(challenger[i]) > float(champion[i]) for i in ids)
    num_worse = sum(float(challenger[i]) < float(champion[i]) for i in ids)
    num_changed = num_better + num_worse
    return Comparison(
        metric="instruction_accuracy",
        higher_is_better=True,
        champion=sum(float(champion[i]) for i in ids) / len(ids),
        challenger=sum(float(challenger[i]) for i in ids) / len(ids),
        p_value=float(binomtest(num_better, num_changed).pvalue) if num_changed else 1.0,
        num_items=len(ids),
        num_better=num_better,
        num_worse=num_worse,
    )


def compare_bits(champion: Items, challenger: Items, num_bytes: Mapping[str, int]) -> Comparison:
    """Bits per byte over documents. Both map the same document ids to bits, `num_bytes` to their UTF-8 bytes."""
    import numpy as np

    ids = sorted(champion)
    before_N, after_N = (np.array([float(items[i]) for i in ids]) for items in (champion, challenger))
    saved_N, total_bytes = before_N - after_N, sum(num_bytes[i] for i in ids)
    return Comparison(
        metric="bits_per_byte",
        higher_is_better=False,
        champion=float(before_N.sum()) / total_bytes,
        challenger=float(after_N.sum()) / total_bytes,
        p_value=sign_flip_p_value(saved_N),
        num_items=len(ids),
        num_better=int((saved_N > 0).sum()),
        num_worse=int((saved_N < 0).sum()),
    )


def sign_flip_p_value(differences_N: "np.ndarray") -> float:
    """Two-sided p-value of the mean of paired differences; the same differences give the same value."""
    import numpy as np
    from scipy.stats import permutation_test

    if len(differences_N) == 0 or not np.any(differences_N):
        return 1.0
    found = permutation_test(
        (differences_N,), np.mean, permutation_type="samples", n_resamples=NUM_RESAMPLES, vectorized=True, rng=0
    )
    return float(found.pvalue)
