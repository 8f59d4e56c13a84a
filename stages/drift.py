"""How far a corpus is from the one that the champion was made of: lengths, languages, domains, rejections, size.

Artifact: `drift.json`, every measure with its limit, and the two distributions behind it. A distance is 0-1: for the
lengths Kolmogorov-Smirnov's, the largest difference of the two cumulative shares; for shares by label the total
variation, half the sum of absolute differences. Small corpora differ by chance, so each limit is widened by what two
samples of these sizes stay below in 95 of 100 cases (1.36 sqrt(1/n + 1/m), Smirnov 1948).

The stage only measures; whether a run goes on with a corpus that changed is for a person to say (flows/retraining).
"""

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from infra.artifacts import CleanCorpus, DedupedCorpus, Drift
from stages.contract import Headline, Stage, StageContext, StageModel
from stages.evaluation_file import write_json

DRIFT_NAME = "drift.json"
_SMIRNOV_95 = 1.36
_KEPT = "kept"


class DriftConfig(StageModel):
    """How far is too far."""

    max_length_distance: float = Field(default=0.15, ge=0, le=1, description="of documents' lengths in characters, 0-1")
    max_language_distance: float = Field(default=0.10, ge=0, le=1, description="of documents by language, 0-1")
    max_domain_distance: float = Field(default=0.15, ge=0, le=1, description="of documents by domain, 0-1")
    max_rejection_distance: float = Field(
        default=0.10, ge=0, le=1, description="of what cleaning did, kept or rejected and why, 0-1"
    )
    max_size_ratio: float = Field(default=3.0, ge=1, description="documents of the larger corpus / of the smaller one")


class DriftInputs(StageModel):
    """The corpora, cleaned and deduplicated."""

    corpus: DedupedCorpus
    clean: CleanCorpus
    champion_corpus: DedupedCorpus
    champion_clean: CleanCorpus


class DriftOutputs(StageModel):
    """What comes out."""

    drift: Drift


class Measure(BaseModel):
    """One distance with its limit."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str
    value: float
    limit: float

    @property
    def is_exceeded(self) -> bool:
        """Whether a person has to look."""
        return self.value > self.limit


@dataclass(frozen=True)
class CorpusFacts:
    """What one corpus looks like."""

    lengths: tuple[int, ...]
    languages: Counter[str]
    domains: Counter[str]
    cleaning: Counter[str]

    @classmethod
    def read(cls, corpus_dir: Path, clean_dir: Path) -> "CorpusFacts":
        """The facts of the deduplicated corpus, and those of what cleaning did before."""
        from stages.records import read_corpus

        lengths, languages, domains = [], Counter[str](), Counter[str]()
        for document in read_corpus(corpus_dir):
            lengths.append(len(document.text))
            languages[document.lang] += 1
            domains[document.domain] += 1
        report = json.loads((clean_dir / "report.json").read_text(encoding="utf-8"))
        cleaning = Counter({_KEPT: report["documents_kept"], **report["rejected"]})
        return cls(tuple(lengths), languages, domains, cleaning)


def run(config: DriftConfig, inputs: DriftInputs, ctx: StageContext) -> DriftOutputs:
    """Measure, write it down, and log every measure."""
    new = CorpusFacts.read(ctx.store.get(inputs.corpus), ctx.store.get(inputs.clean))
    old = CorpusFacts.read(ctx.store.get(inputs.champion_corpus), ctx.store.get(inputs.champion_clean))
    measures = measure(config, new, old)
    target = ctx.scratch / "drift"
    target.mkdir()
    shares = {
        name: {"corpus": dict(getattr(new, name)), "champion": dict(getattr(old, name))}
        for name in ("languages", "domains", "cleaning")
    }
    write_json(target / DRIFT_NAME, {"measures": [one.model_dump() for one in measures], **shares})
    for one in measures:
        ctx.log_metric(f"drift/{one.name}", one.value)
        ctx.log(f"{one.name}: {one.value:.4g}, limit {one.limit:.4g}{' EXCEEDED' if one.is_exceeded else ''}")
    ctx.log_metric("drift/exceeded", sum(one.is_exceeded for one in measures))
    return DriftOutputs(drift=ctx.store.put(target, Drift))


def read_measures(directory: Path) -> tuple[Measure, ...]:
    """The measures of a drift artifact."""
    written = json.loads((directory / DRIFT_NAME).read_text(encoding="utf-8"))
    return tuple(Measure.model_validate(one) for one in written["measures"])


def measure(config: DriftConfig, new: CorpusFacts, old: CorpusFacts) -> tuple[Measure, ...]:
    """Every distance, with the limit for samples of these sizes."""
    num_new, num_old = len(new.lengths), len(old.lengths)
    chance = _by_chance(num_new, num_old)
    cleaning_chance = _by_chance(new.cleaning.total(), old.cleaning.total())
    return (
        _measure("length_distance", smirnov_distance(new.lengths, old.lengths), config.max_length_distance + chance),
        _measure(
            "language_distance", total_variation(new.languages, old.languages), config.max_language_distance + chance
        ),
        _measure("domain_distance", total_variation(new.domains, old.domains), config.max_domain_distance + chance),
        _measure(
            "rejection_distance",
            total_variation(new.cleaning, old.cleaning),
            config.max_rejection_distance + cleaning_chance,
        ),
        _measure("size_ratio", max(num_new, num_old) / min(num_new, num_old), config.max_size_ratio),
    )


def _measure(name: str, value: float, limit: float) -> Measure:
    return Measure(name=name, value=value, limit=limit)


def _by_chance(num_new: int, num_old: int) -> float:
    return _SMIRNOV_95 * math.sqrt(1 / num_new + 1 / num_old)


def smirnov_distance(one: tuple[int, ...], other: tuple[int, ...]) -> float:
    """Largest difference of the two cumulative distributions."""
    from scipy.stats import ks_2samp

    return float(ks_2samp(one, other, method="asymp").statistic)


def total_variation(one: Mapping[str, int], other: Mapping[str, int]) -> float:
    """Half the sum of the absolute differences of the shares."""
    num_one, num_other = sum(one.values()), sum(other.values())
    labels = sorted({*one, *other})
    return sum(abs(one.get(label, 0) / num_one - other.get(label, 0) / num_other) for label in labels) / 2


STAGE = Stage(
    name="drift",
    config=DriftConfig,
    inputs=DriftInputs,
    outputs=DriftOutputs,
    run=run,
    metrics=(
        "drift/length_distance",
        "drift/language_distance",
        "drift/domain_distance",
        "drift/rejection_distance",
        "drift/size_ratio",
        "drift/exceeded",
    ),
    headline=Headline("measures over their limit", after="drift/exceeded", higher_is_better=False),
)
