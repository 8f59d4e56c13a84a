"""Recipes: the settings of a whole lifecycle as one typed value, and the plan that follows from it.

The only place of run settings: a stage's own defaults are those of `demo`, and what a recipe changes stands here.
"""

from collections.abc import Callable
from typing import Self

from pydantic import BaseModel, ConfigDict, Field

from flows.overrides import apply
from flows.plan import SOURCES, Step
from stages.clean import CleanConfig
from stages.dedup import DedupConfig
from stages.ingest import IngestConfig
from stages.pack import PackConfig
from stages.pretrain import PretrainConfig
from stages.tokenizer import TokenizerConfig


class Recipe(BaseModel):
    """One field per stage."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    ingest: IngestConfig = Field(default=IngestConfig())
    clean: CleanConfig = Field(default=CleanConfig())
    dedup: DedupConfig = Field(default=DedupConfig())
    tokenizer: TokenizerConfig = Field(default=TokenizerConfig())
    pack: PackConfig = Field(default=PackConfig())
    pretrain: PretrainConfig = Field(default=PretrainConfig())

    def changed(self, settings: list[str]) -> Self:
        """The recipe with `--set` applied."""
        return apply(self, settings)

    def steps(self) -> tuple[Step, ...]:
        """The plan: each step's inputs are outputs of steps above it."""
        corpus, tokenizer = "dedup.corpus", "tokenizer.tokenizer"
        return (
            Step("ingest", "ingest", self.ingest, {"sources": f"{SOURCES}.manifest"}),
            Step("clean", "clean", self.clean, {"corpus": "ingest.corpus"}),
            Step("dedup", "dedup", self.dedup, {"corpus": "clean.corpus"}),
            Step("tokenizer", "tokenizer", self.tokenizer, {"corpus": corpus}),
            Step("pack", "pack", self.pack, {"corpus": corpus, "tokenizer": tokenizer}),
            Step("pretrain", "pretrain", self.pretrain, {"tokens": "pack.tokens", "tokenizer": tokenizer}),
        )


def demo() -> Recipe:
    """A small chat model from real text, on two cores in a quarter of an hour."""
    return Recipe()


def tiny() -> Recipe:
    """Every stage in its smallest form, for tests: minutes for all of them together."""
    return Recipe()


RECIPES: dict[str, Callable[[], Recipe]] = {"demo": demo, "tiny": tiny}
