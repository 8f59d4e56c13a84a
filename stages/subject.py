"""A model under evaluation, with what benchmarks share: held-out data, and its greedy answers.

Answers are given once for all benchmarks that need them, on the same items in every evaluation: the first
`max_items_per_task` (or `max_items_of`) of each task and language in the order of the hash of their ids.
"""

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infra.errors import BadSpecError

if TYPE_CHECKING:
    from models.token_shards import TokenShards
    from models.tokenizer import ChatTemplate
    from stages.answers import Judged
    from stages.records import Instruction

Progress = Callable[[float, float, str], None]
_ITEMS_PER_CALL = 256


@dataclass
class Subject:
    """One model and the held-out data it is measured on."""

    model: Any
    template: "ChatTemplate"
    tokens_dir: Path
    instructions_dir: Path
    reward_model: Any | None = None
    max_items_per_task: int = 200
    max_items_of: Mapping[str, int] = field(default_factory=dict)  # `task/lang` -> its own limit
    max_new_tokens: int = 20
    batch_size: int = 64
    progress: Progress = lambda _done, _total, _unit: None
    generation_s: float = 0.0

    @cached_property
    def shards(self) -> "TokenShards":
        """The tokens artifact, opened."""
        from models.token_shards import TokenShards

        shards = TokenShards(self.tokens_dir)
        if shards.vocab_size > self.model.config.vocab_size:
            raise BadSpecError(
                f"tokens: want at most the model's vocabulary of {self.model.config.vocab_size}, got "
                f"{shards.vocab_size}; pack the corpus with the model's tokenizer"
            )
        return shards

    @cached_property
    def items(self) -> "list[Instruction]":
        """The held-out instructions that are asked."""
        from stages.records import Instruction, read_records

        by_task: dict[str, list[Instruction]] = {}
        for item in read_records(self.instructions_dir / "heldout.jsonl", Instruction):
            by_task.setdefault(f"{item.task}/{item.lang}", []).append(item)
        if not by_task:
            raise BadSpecError("instructions: want at least one held-out item, got 0; raise the held-out ratio")
        chosen = []
        for task, items in sorted(by_task.items()):
            limit = self.max_items_of.get(task, self.max_items_per_task)
            chosen += sorted(items, key=lambda item: _order(item.id))[:limit]
        return chosen

    @cached_property
    def judged(self) -> "list[Judged]":
        """The greedy answer to every item, in the order of `items`."""
        from stages.answers import judge

        lengths = [len(self.template.encode(item.prompt)) for item in self.items]
        limit = self.model.config.max_position_embeddings - self.max_new_tokens
        if max(lengths) > limit:
            worst = self.items[lengths.index(max(lengths))]
            raise BadSpecError(
                f"instruction {worst.id}: want at most {limit} prompt tokens, got {max(lengths)}; build shorter "
                "prompts or lower max_new_tokens"
            )
        by_length = sorted(range(len(lengths)), key=lambda index: (lengths[index], index))
        found: dict[int, Judged] = {}
        started_at = time.monotonic()
        for start in range(0, len(by_length), _ITEMS_PER_CALL):
            part = by_length[start : start + _ITEMS_PER_CALL]
            judged = judge(
                self.model,
                self.template,
                [self.items[index] for index in part],
                max_new_tokens=self.max_new_tokens,
                batch_size=self.batch_size,
            )
            found |= dict(zip(part, judged, strict=True))
            self.progress(len(found), len(by_length), "answers")
        self.generation_s += time.monotonic() - started_at
        return [found[index] for index in range(len(lengths))]


def _order(item_id: str) -> str:
    return hashlib.sha256(item_id.encode()).hexdigest()
