"""A finished lifecycle as the lineage records it, with known figures."""

import math
from datetime import datetime, timedelta

from infra.lineage import LifecycleRow, MetricPoint, StageRecord

STARTED_AT = datetime(2026, 1, 2, 3, 4, 5)
MODELS = ("base", "sft", "ppo", "int8", "int4")


def lifecycle(status: str = "finished") -> LifecycleRow:
    """The lifecycle row."""
    ended_at = STARTED_AT + timedelta(seconds=812)
    return LifecycleRow(id="run-1", recipe="demo", seed=7, status=status, started_at=STARTED_AT, ended_at=ended_at)


def record(stage: str, kind: str, metrics: dict[str, float], wall_s: float = 10.0) -> StageRecord:
    """One stage's record."""
    outputs = {kind: {"kind": kind, "digest": f"{len(metrics):064x}", "num_bytes": 10}}
    return StageRecord(
        stage=stage, key="k" * 64, seed=7, config={"a": "<script>"}, inputs={"more": outputs}, outputs=outputs,
        metrics=metrics, code_digest="c" * 64, environment={"python": "3.11"}, host="h", started_at=STARTED_AT,
        ended_at=STARTED_AT, wall_s=wall_s, peak_rss_bytes=2**30,
    )  # fmt: skip


def evaluation(rank: int) -> StageRecord:
    """Better with every rank."""
    metrics = {
        "eval/bits_per_byte": 2.5 - 0.1 * rank, "eval/perplexity": 40.0 - rank, "eval/infilling_accuracy": 0.2,
        "eval/bits_per_byte/domain/prose": 2.4, "eval/instruction_accuracy": 0.1 + 0.1 * rank,
        "eval/instruction_stderr": 0.01, "eval/instruction_accuracy/arithmetic/en": 0.5,
        "eval/instruction_stderr/arithmetic/en": 0.02, "eval/reward": -1.0 + 0.5 * rank, "eval/reward_stderr": 0.1,
    }  # fmt: skip
    return record("evaluate", "evaluation", metrics)


def records() -> dict[str, StageRecord]:
    """Every stage of the lifecycle, by the name of its run."""
    found = {
        "clean": record("clean", "clean_corpus", {"clean/docs_in": 9, "clean/docs_rejected/too_short": 4}),
        "dedup": record("dedup", "deduped_corpus", {"dedup/docs_in": 5, "dedup/near_removed": 2}),
        "pretrain": record("pretrain", "model", {"pretrain/num_tokens": 1e6, "pretrain/bits_per_byte": 1.8}, 320),
        "ppo": record("ppo", "model", {"ppo/kl": 0.1, "ppo/accuracy": 0.6}),
    }
    for bits, size in (("int8", 2e6), ("int4", 1e6)):
        metrics = {"quantize/size_ratio": 0.3, "quantize/file_bytes": size, "quantize/full_file_bytes": 9e6}
        found[f"quantize_{bits}"] = record("quantize", "quantized_model", metrics)
    found |= {f"evaluate_{name}": evaluation(rank) for rank, name in enumerate(MODELS)}
    gates = {"release/passed": 1, "release/gate_passed/int8_cost": 1, "release/gate_value/int8_cost": 0.001,
             "release/gate_threshold/int8_cost": 0.005, "release/gate_is_maximum/int8_cost": 1}  # fmt: skip
    return found | {"release": record("release", "release", gates)}


def histories() -> dict[str, list[MetricPoint]]:
    """Metric points of the training stages."""
    points = []
    for step in range(300):
        points.append(MetricPoint(name="pretrain/loss", value=8 * math.exp(-step / 100) + 3, step=step))
        for expert in range(8):
            load = 0.125 + 0.05 * math.sin(step / 20 + expert)
            points.append(MetricPoint(name=f"moe/expert_load/layer_0/expert_{expert}", value=load, step=step))
    ppo = [
        MetricPoint(name=f"ppo/{name}", value=step / 10, step=step) for step in range(20) for name in ("reward", "kl")
    ]
    return {"pretrain": points, "ppo": ppo}
