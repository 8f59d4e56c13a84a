"""A lineage that knows how a champion was made, in records of a few fields."""

from typing import Any

from infra.artifacts import ArtifactRef
from infra.lineage import Lineage, StageRecord, now
from stages.contract import json_of
from stages.pack import PackConfig

SOURCES = "0" * 64
PACK = PackConfig(max_heldout_bytes=77)


def ref(kind: str, letter: str) -> ArtifactRef:
    """An artifact of which nothing but its name exists."""
    return ArtifactRef(kind=kind, digest=letter * 64, num_bytes=1)


RAW, CLEAN, CORPUS = ref("raw_corpus", "1"), ref("clean_corpus", "2"), ref("deduped_corpus", "3")
TOKENIZER, TOKENS, INSTRUCTIONS = ref("tokenizer", "4"), ref("tokens", "5"), ref("instructions", "6")
MODEL, RELEASE = ref("model", "a"), ref("release", "7")


def record(stage: str, inputs: dict[str, ArtifactRef], outputs: dict[str, ArtifactRef], **config: Any) -> StageRecord:
    """One finished stage run."""
    return StageRecord(
        stage=stage, key=f"{stage:x<64}", seed=0, config=config,
        inputs={name: json_of(value) for name, value in inputs.items()},
        outputs={name: json_of(value) for name, value in outputs.items()},
        metrics={}, code_digest="c" * 64, environment={}, host="h", started_at=now(), ended_at=now(), wall_s=1.0,
        peak_rss_bytes=1,
    )  # fmt: skip


def record_champion(lineage: Lineage) -> None:
    """From the sources to the release of MODEL."""
    release = {"model": MODEL, "corpus": CORPUS, "tokens": TOKENS, "instructions": INSTRUCTIONS}
    for made in (
        record("ingest", {"sources": ref("source_manifest", SOURCES[0])}, {"corpus": RAW}),
        record("clean", {"corpus": RAW}, {"corpus": CLEAN}),
        record("dedup", {"corpus": CLEAN}, {"corpus": CORPUS}),
        record("tokenizer", {"corpus": CORPUS}, {"tokenizer": TOKENIZER}),
        record("pack", {"corpus": CORPUS, "tokenizer": TOKENIZER}, {"tokens": TOKENS}, **json_of(PACK)),
        record("release", release, {"release": RELEASE}),
    ):
        lineage.commit(made, [])
