"""Recipes: the settings of a whole lifecycle as one typed value, and the plan that follows from it.

The only place of run settings: a stage's own defaults are those of `demo`, and what a recipe changes stands here.
"""

from collections.abc import Callable
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from flows.overrides import apply
from flows.plan import SOURCES, Step
from stages.benchmarks.infilling import InfillingAccuracy
from stages.benchmarks.instructions import InstructionAccuracy
from stages.benchmarks.perplexity import Perplexity
from stages.benchmarks.reward import MeanReward
from stages.challenge import ChallengeConfig
from stages.clean import CleanConfig
from stages.dedup import DedupConfig
from stages.drift import DriftConfig
from stages.evaluate import EvaluateConfig
from stages.gates.alignment import AlignmentGates
from stages.gates.learning import LearningGates
from stages.gates.quantization import QuantizationGates
from stages.gates.size import SizeGates
from stages.ingest import IngestConfig
from stages.instructions import InstructionsConfig
from stages.pack import PackConfig
from stages.ppo import PpoConfig, Sampling
from stages.preferences import PreferencesConfig
from stages.pretrain import ModelSize, PretrainConfig
from stages.quantize import QuantizeConfig
from stages.quantizers.rtn import RoundToNearest
from stages.release import ReleaseConfig
from stages.reward_model import RewardModelConfig
from stages.sft import SftConfig
from stages.tokenizer import TokenizerConfig


class Recipe(BaseModel):
    """One field per stage, in the order in which they run."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    ingest: IngestConfig = Field(default=IngestConfig())
    clean: CleanConfig = Field(default=CleanConfig())
    dedup: DedupConfig = Field(default=DedupConfig())
    tokenizer: TokenizerConfig = Field(default=TokenizerConfig())
    pack: PackConfig = Field(default=PackConfig())
    pretrain: PretrainConfig = Field(default=PretrainConfig())
    instructions: InstructionsConfig = Field(default=InstructionsConfig())
    sft: SftConfig = Field(default=SftConfig())
    preferences: PreferencesConfig = Field(default=PreferencesConfig())
    reward_model: RewardModelConfig = Field(default=RewardModelConfig())
    ppo: PpoConfig = Field(default=PpoConfig())
    quantize_int8: QuantizeConfig = Field(default=QuantizeConfig(quantizer=RoundToNearest(bits=8)))
    quantize_int4: QuantizeConfig = Field(default=QuantizeConfig(quantizer=RoundToNearest(bits=4)))
    evaluate: EvaluateConfig = Field(default=EvaluateConfig())
    release: ReleaseConfig = Field(default=ReleaseConfig())
    drift: DriftConfig = Field(default=DriftConfig())  # this and the next: retraining only (flows/retraining_plan)
    challenge: ChallengeConfig = Field(default=ChallengeConfig())

    @model_validator(mode="after")
    def _the_same_documents_are_held_out(self) -> Self:
        if self.pack.heldout_ratio != self.instructions.heldout_ratio:
            raise ValueError(
                f"instructions.heldout_ratio: want that of pack ({self.pack.heldout_ratio}), got "
                f"{self.instructions.heldout_ratio}; change both, so that no held-out document is trained on"
            )
        return self

    def changed(self, settings: list[str], origin: str = "--set") -> Self:
        """The recipe with `--set` applied, or with lines that stood somewhere else."""
        return apply(self, settings, origin)

    def steps(self) -> tuple[Step, ...]:
        """The plan: each step's inputs are outputs of steps above it."""
        corpus, tokenizer, instructions = "dedup.corpus", "tokenizer.tokenizer", "instructions.instructions"
        tokens, reward_model = "pack.tokens", "reward_model.reward_model"
        measured = {"tokens": tokens, "instructions": instructions, "reward_model": reward_model}
        models = {
            "base": "pretrain.model",
            "sft": "sft.model",
            "ppo": "ppo.model",
            "int8": "quantize_int8.model",
            "int4": "quantize_int4.model",
        }
        return (
            Step("ingest", "ingest", self.ingest, {"sources": f"{SOURCES}.manifest"}),
            Step("clean", "clean", self.clean, {"corpus": "ingest.corpus"}),
            Step("dedup", "dedup", self.dedup, {"corpus": "clean.corpus"}),
            Step("tokenizer", "tokenizer", self.tokenizer, {"corpus": corpus}),
            Step("pack", "pack", self.pack, {"corpus": corpus, "tokenizer": tokenizer}),
            Step("pretrain", "pretrain", self.pretrain, {"tokens": tokens, "tokenizer": tokenizer}),
            Step("instructions", "instructions", self.instructions, {"corpus": corpus}),
            Step("sft", "sft", self.sft, {"model": models["base"], "instructions": instructions}),
            Step(
                "preferences", "preferences", self.preferences, {"model": models["sft"], "instructions": instructions}
            ),
            Step(
                "reward_model",
                "reward_model",
                self.reward_model,
                {"model": models["sft"], "preferences": "preferences.preferences"},
            ),
            Step(
                "ppo",
                "ppo",
                self.ppo,
                {"model": models["sft"], "reward_model": reward_model, "instructions": instructions},
            ),
            Step("quantize_int8", "quantize", self.quantize_int8, {"model": models["ppo"]}),
            Step("quantize_int4", "quantize", self.quantize_int4, {"model": models["ppo"]}),
            *(
                Step(f"evaluate_{name}", "evaluate", self.evaluate, {"model": model, **measured})
                for name, model in models.items()
            ),
            Step(
                "release",
                "release",
                self.release,
                {
                    "model": models["ppo"],
                    "int8": models["int8"],
                    "int4": models["int4"],
                    "reward_model": reward_model,
                    "corpus": corpus,
                    "tokens": tokens,
                    "instructions": instructions,
                    "evaluations": {name: f"evaluate_{name}.evaluation" for name in models},
                },
            ),
        )


_TINY_MODEL = ModelSize(
    hidden_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=4,
    head_dim=16,
    num_experts=4,
    expert_ffn_size=64,
    max_position_embeddings=512,
)
_TINY_GATES = (  # what so little training can show
    LearningGates(min_unigram_gain_ratio=0.02, min_sft_accuracy_gain=-1.0, min_tasks_above_constant=0),
    AlignmentGates(
        min_reward_model_accuracy=0.0,
        min_gain_over_length=-1.0,
        min_ppo_reward_gain_stderr=-100.0,
        max_ppo_accuracy_drop_stderr=100.0,
    ),
    QuantizationGates(
        max_int8_perplexity_cost=0.02,
        max_int4_perplexity_cost=0.20,
        max_int8_accuracy_drop=1.0,
        max_int4_accuracy_drop=1.0,
    ),
    SizeGates(max_int8_file_ratio=0.95, max_int4_file_ratio=0.90),  # most of so small a model is its embedding
)


def demo() -> Recipe:
    """A small chat model from real text, on two cores in a quarter of an hour."""
    return Recipe()


def tiny() -> Recipe:
    """Every stage in its smallest form, to try the whole chain in minutes."""
    return Recipe(
        ingest=IngestConfig(
            max_domain_bytes={"api": 500_000, "doc": 300_000, "code": 150_000, "review": 300_000, "manual": 150_000}
        ),
        tokenizer=TokenizerConfig(vocab_size=1024, max_train_bytes=500_000),
        pack=PackConfig(max_heldout_bytes=20_000),
        pretrain=PretrainConfig(
            model=_TINY_MODEL,
            train_tokens=60_000,
            sequence_tokens=256,
            rows_per_step=8,
            checkpoint_every_steps=10,
            eval_window_tokens=256,
            eval_stride_tokens=128,
        ),
        sft=SftConfig(num_judged=60, num_judged_before=20, max_new_tokens=8),
        preferences=PreferencesConfig(num_train_prompts=120, num_heldout_prompts=60, max_new_tokens=8),
        reward_model=RewardModelConfig(epochs=1),
        ppo=PpoConfig(
            iterations=2,
            steps_per_epoch=2,
            micro_batch_size=16,
            sampling=Sampling(prompts_per_iteration=16, max_new_tokens=8),
            num_heldout_prompts=40,
        ),
        evaluate=EvaluateConfig(
            benchmarks=(
                Perplexity(window_tokens=256, stride_tokens=128),
                InfillingAccuracy(max_documents=8),
                InstructionAccuracy(),
                MeanReward(max_items=20),
            ),
            max_items_per_task=5,
            max_new_tokens=8,
        ),
        release=ReleaseConfig(gates=_TINY_GATES),
    )


RECIPES: dict[str, Callable[[], Recipe]] = {"demo": demo, "tiny": tiny}
