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
from stages.instructions import InstructionsConfig
from stages.pack import PackConfig
from stages.pretrain import ModelSize, PretrainConfig
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
    instructions: InstructionsConfig = Field(default=InstructionsConfig())

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
            Step("instructions", "instructions", self.instructions, {"corpus": corpus}),
        )


def demo() -> Recipe:
    """A small chat model from real text, on two cores in a quarter of an hour."""
    return Recipe()


def tiny() -> Recipe:
    """Every stage in its smallest form, to try the whole chain: a minute or two for all of them together."""
    return Recipe(
        ingest=IngestConfig(
            max_domain_bytes={"api": 500_000, "doc": 300_000, "code": 150_000, "review": 300_000, "manual": 150_000}
        ),
        tokenizer=TokenizerConfig(vocab_size=1024, max_train_bytes=500_000),
        pack=PackConfig(max_heldout_bytes=20_000),
        pretrain=PretrainConfig(
            model=ModelSize(
                hidden_size=64,
                num_hidden_layers=2,
                num_attention_heads=4,
                num_key_value_heads=4,
                head_dim=16,
                num_experts=4,
                expert_ffn_size=64,
                max_position_embeddings=512,
            ),
            train_tokens=60_000,
            sequence_tokens=256,
            rows_per_step=8,
            checkpoint_every_steps=10,
            eval_window_tokens=256,
            eval_stride_tokens=128,
        ),
    )


RECIPES: dict[str, Callable[[], Recipe]] = {"demo": demo, "tiny": tiny}
