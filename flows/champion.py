"""The champion and what it was made from, and the frozen held-out sets on which a challenger has to beat it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.artifacts import ArtifactRef
from infra.decisions import decisions
from infra.errors import BadSpecError
from infra.lineage import Lineage, StageRecord
from infra.registry import open_registry
from infra.settings import Settings
from stages.pack import PackConfig


@dataclass(frozen=True)
class Champion:
    """The champion with the artifacts behind it, read from the lineage."""

    model: ArtifactRef
    corpus: ArtifactRef
    clean: ArtifactRef
    tokenizer: ArtifactRef
    instructions: ArtifactRef
    sources: str  # digest of the source manifest
    pack: PackConfig


@dataclass(frozen=True)
class FrozenSets:
    """Where the held-out documents and instructions of every comparison come from."""

    corpus: ArtifactRef
    instructions: ArtifactRef
    pack: PackConfig

    def as_json(self) -> dict[str, Any]:
        """As the lineage keeps it."""
        return {name: value.model_dump(mode="json") for name, value in vars(self).items()}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "FrozenSets":
        """What `as_json` made."""
        return cls(
            corpus=ArtifactRef.model_validate(value["corpus"]),
            instructions=ArtifactRef.model_validate(value["instructions"]),
            pack=PackConfig.model_validate(value["pack"]),
        )


def find_champion(settings: Settings, lineage: Lineage) -> Champion | None:
    """The champion; None when nothing was promoted yet. Raises BadSpecError for one that the lineage does not know."""
    model = champion_model(settings)
    if model is None:
        return None
    release = lineage.find_user(model.digest, "release", "model")
    if release is None:
        raise BadSpecError(
            f"champion {model.short}: want a model whose release is in the lineage at {lineage.place}, got none; "
            "promote a model that was released here"
        )
    corpus, tokens = _ref(release, "corpus"), _ref(release, "tokens")
    dedup, pack = _maker(lineage, corpus), _maker(lineage, tokens)
    clean = _ref(dedup, "corpus")
    ingest = _maker(lineage, _ref(_maker(lineage, clean), "corpus"))
    return Champion(
        model=model,
        corpus=corpus,
        clean=clean,
        tokenizer=_ref(pack, "tokenizer"),
        instructions=_ref(release, "instructions"),
        sources=_ref(ingest, "sources").digest,
        pack=PackConfig.model_validate(pack.config),
    )


def champion_model(settings: Settings) -> ArtifactRef | None:
    """The model behind the alias; None when the registry is empty."""
    uri = settings.resolved_tracking_uri()
    if uri.startswith("sqlite:///") and not Path(uri.removeprefix("sqlite:///")).is_file():
        return None
    return open_registry(settings).resolve("champion")


def frozen_sets(champion: Champion, lineage: Lineage, *, freezes_again: bool) -> FrozenSets:
    """Those of the last comparison; the champion's own at first, and when they are to be frozen again."""
    kept = [row.frozen for row in decisions(lineage) if row.frozen]
    if kept and not freezes_again:
        return FrozenSets.from_json(kept[0])
    return FrozenSets(champion.corpus, champion.instructions, champion.pack)


def _ref(record: StageRecord, field: str) -> ArtifactRef:
    return ArtifactRef.model_validate(record.inputs[field])


def _maker(lineage: Lineage, ref: ArtifactRef) -> StageRecord:
    record = lineage.find_maker(ref.digest)
    if record is None:
        raise BadSpecError(
            f"artifact {ref.short}: want one that a stage made, got none in the lineage at {lineage.place}"
        )
    return record
