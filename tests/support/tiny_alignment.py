"""Contexts and pairs for the tests of the alignment stages."""

from pathlib import Path
from typing import Any

from infra.artifacts import Instructions, Model, Preferences
from infra.stores.local import LocalStore
from stages.contract import Stage, StageContext
from stages.execution import read_history
from stages.records import Preference, Turn, write_records
from tests.support.tiny_release import write_instructions, write_model


def context(root: Path, name: str, stage: Stage[Any, Any, Any], seed: int = 0) -> StageContext:
    """A context with an empty scratch folder and the store of `root`."""
    ctx = StageContext(LocalStore(root / "store"), root / name, seed, declared_metrics=stage.metrics)
    ctx.scratch.mkdir(parents=True)
    return ctx


def metrics(ctx: StageContext) -> dict[str, float]:
    """The last value of every metric."""
    return {point.name: point.value for point in read_history(ctx.metrics_path)}


def store_model(root: Path, **changes: Any) -> Model:
    """A random model in the store."""
    return LocalStore(root / "store").put(write_model(root / "model", **changes), Model)


def store_instructions(root: Path) -> Instructions:
    """The tiny instructions in the store."""
    return LocalStore(root / "store").put(write_instructions(root / "instructions"), Instructions)


def pair(index: int, chosen: str, rejected: str) -> Preference:
    """A pair about item `index`."""
    prompt = (Turn(role="user", content=f"What is item {index}?"),)
    return Preference(
        id=f"p{index}", task="heading", lang="en", prompt=prompt, chosen=chosen, rejected=rejected, origin="sampled"
    )


def store_preferences(root: Path, num_train: int = 24, num_heldout: int = 10) -> Preferences:
    """Pairs in which the word `good` wins at equal length."""
    for name, count in (("train", num_train), ("heldout", num_heldout)):
        rows = [pair(index, f"good {index}", f"dull {index}") for index in range(count)]
        write_records(root / "preferences" / f"{name}.jsonl", rows)
    return LocalStore(root / "store").put(root / "preferences", Preferences)
