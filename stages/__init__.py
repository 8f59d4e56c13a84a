"""Pipeline stages, in pipeline order; the last two are of retraining.

To add one: write `stages/<name>.py` ending in `STAGE = Stage(...)`; list it.
Names, not imports: `python -m stages clean` must not pay for the imports of every other stage.
"""

from importlib import import_module
from typing import Any

from stages.contract import Stage

STAGE_NAMES = (
    "ingest",
    "clean",
    "dedup",
    "tokenizer",
    "pack",
    "pretrain",
    "instructions",
    "sft",
    "preferences",
    "reward_model",
    "ppo",
    "quantize",
    "evaluate",
    "release",
    "drift",
    "challenge",
)


def load_stage(name: str) -> Stage[Any, Any, Any]:
    """The stage of this name; its module is imported now."""
    if name not in STAGE_NAMES:
        raise ValueError(f"stage {name!r}: want one of {', '.join(STAGE_NAMES)}")
    stage: Stage[Any, Any, Any] = import_module(f"stages.{name}").STAGE
    return stage
