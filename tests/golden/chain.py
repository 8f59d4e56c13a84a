"""A fixed corpus through the stages that compute without torch, so that their bytes are the same on every machine."""

import random
from pathlib import Path
from typing import Any

from infra.artifacts import SourceManifest
from infra.lineage import Lineage
from infra.settings import Settings
from infra.stores.local import LocalStore
from stages import load_stage
from stages.contract import StageModel
from stages.execution import StageKey, execute
from stages.sources import scan_paths

STAGES = ("ingest", "clean", "dedup", "tokenizer", "pack", "instructions")
CONFIGS: dict[str, dict[str, Any]] = {
    "ingest": {"min_bytes": 1000},
    "tokenizer": {"vocab_size": 400},
    "pack": {"heldout_ratio": 0.2},
    "instructions": {"heldout_ratio": 0.2, "tasks": [{"kind": "language"}, {"kind": "arithmetic", "max_number": 9}]},
}
_WORDS = "the a model reads writes text about numbers and words in every page of this small book"
_HAN = "我们在这里写一些中文的句子用来测试文本处理是否正确结果应当每次都相同"


def write_corpus(folder: Path) -> None:
    """English, Chinese, duplicates, and documents that the filters reject."""
    rng = random.Random(0)
    folder.mkdir(parents=True)
    for i in range(60):
        words = " ".join(rng.choices(_WORDS.split(), k=60))
        (folder / f"en{i:02}.txt").write_text(words + "\n", encoding="utf-8")
        (folder / f"zh{i:02}.md").write_text("".join(rng.choices(_HAN, k=80)) + "。\n", encoding="utf-8")
    (folder / "copy.txt").write_text((folder / "en00.txt").read_text(encoding="utf-8").upper(), encoding="utf-8")
    (folder / "short.txt").write_text("too short\n", encoding="utf-8")
    (folder / "digits.txt").write_text("0123456789 " * 30 + "\n", encoding="utf-8")


def run_chain(home: Path) -> dict[str, dict[str, Any]]:
    """Digest and metrics of every stage on the fixed corpus."""
    settings = Settings(home=home, threads=1)
    write_corpus(home / "documents")
    scan_paths([home / "documents"]).write(home / "manifest")
    made: dict[str, Any] = {"sources": LocalStore(settings.store_dir).put(home / "manifest", SourceManifest)}
    results: dict[str, dict[str, Any]] = {}
    for name in STAGES:
        stage = load_stage(name)
        config: StageModel = stage.config.model_validate(CONFIGS.get(name, {}))
        given = made.keys() & stage.inputs.model_fields.keys()  # an optional input is left out
        inputs = stage.inputs.model_validate({field: made[field].model_dump() for field in given})
        outputs = execute(stage, config, inputs, seed=0, settings=settings)
        made |= {field: getattr(outputs, field) for field in stage.outputs.model_fields}
        key = StageKey.of(stage, config, inputs, 0, settings.threads).key
        record = Lineage(settings.resolved_lineage_url()).find_by_key(key)
        assert record is not None
        # the manifest names this machine's folder, so ingest's input digest differs; documents and all after it do not
        digests = {field: getattr(outputs, field).digest for field in stage.outputs.model_fields}
        results[name] = {"outputs": digests, "metrics": record.metrics}
    return results
