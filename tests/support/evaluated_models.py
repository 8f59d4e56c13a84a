"""Evaluations of five models with known figures: every gate passes, by a known margin."""

from collections.abc import Mapping
from dataclasses import replace

from stages.evaluation_file import EvaluatedModel, EvaluationFile, Items
from stages.evidence import MODEL_NAMES, Evidence, RewardModelQuality
from stages.release import ReleaseConfig
from stages.samples import Sample

NUM_ITEMS = 300
ACCURACY = {"base": 0.0, "sft": 0.5, "ppo": 0.6, "int8": 0.6, "int4": 0.57}
PERPLEXITY = {"base": 30.0, "sft": 32.0, "ppo": 33.0, "int8": 33.033, "int4": 34.0}
BITS_PER_BYTE = {"base": 1.8, "sft": 1.9, "ppo": 1.9, "int8": 1.9, "int4": 1.95}
REWARD = {"base": -1.0, "sft": 0.0, "ppo": 0.5, "int8": 0.5, "int4": 0.4}


def evaluated(name: str) -> EvaluatedModel:
    """One of the five."""
    num_right = round(ACCURACY[name] * NUM_ITEMS)
    right = {f"i{index:03}": float(index < num_right) for index in range(NUM_ITEMS)}
    reward = {f"i{index:03}": REWARD[name] + index % 3 for index in range(NUM_ITEMS)}
    metrics = {
        "eval/bits_per_byte": BITS_PER_BYTE[name], "eval/unigram_bits_per_byte": 2.4,
        "eval/perplexity": PERPLEXITY[name], "eval/infilling_accuracy": 0.25, "eval/infilling_stderr": 0.01,
        "eval/instruction_accuracy": ACCURACY[name], "eval/instruction_stderr": 0.02, "eval/reward": REWARD[name],
        "eval/reward_stderr": 0.05, "eval/bits_per_byte/lang/en": BITS_PER_BYTE[name],
    }  # fmt: skip
    for task in ("heading/en", "purpose/zh", "arithmetic/en"):
        metrics |= {
            f"eval/instruction_accuracy/{task}": ACCURACY[name], f"eval/instruction_stderr/{task}": 0.02,
            f"eval/instruction_items/{task}": 250.0, f"eval/instruction_constant/{task}": 0.1,
        }  # fmt: skip
    about = EvaluationFile(
        model=f"{MODEL_NAMES.index(name):064x}",
        kind="quantized_model" if name.startswith("int") else "model",
        reward_model="r" * 64,
        tokenizer_sha256="t" * 64,
        template_sha256="c" * 64,
        metrics=metrics,
    )
    answers = {item: "yes" if value else f"no {name}" for item, value in right.items()}
    sample = Sample(id="i000", task="heading/en", prompt="What?", right_answer="yes", answer="yes", is_correct=True)
    return EvaluatedModel(about, {"is_correct": right, "reward": reward, "answer": answers}, (sample,))


def all_evaluated() -> dict[str, EvaluatedModel]:
    """All five, by name."""
    return {name: evaluated(name) for name in MODEL_NAMES}


GOOD_REWARD_MODEL = RewardModelQuality(accuracy=0.7, length_baseline_accuracy=0.55)
WEIGHT_BYTES = {"ppo": 1000, "int8": 500, "int4": 400}


def evidence(
    reward_model: RewardModelQuality = GOOD_REWARD_MODEL,
    weight_bytes: Mapping[str, int] = WEIGHT_BYTES,
    **changed: EvaluatedModel,
) -> Evidence:
    """What the gates judge by, with some of the models changed."""
    return Evidence(all_evaluated() | changed, reward_model, weight_bytes)


def with_metrics(name: str, **changes: float) -> EvaluatedModel:
    """One of the five with some figures changed."""
    model = evaluated(name)
    metrics = model.about.metrics | {f"eval/{metric}": value for metric, value in changes.items()}
    return replace(model, about=model.about.model_copy(update={"metrics": metrics}))


def with_items(name: str, **changes: Items) -> EvaluatedModel:
    """One of the five with other values of some items."""
    model = evaluated(name)
    return replace(model, items={**model.items, **changes})


def failed(given: Evidence) -> set[str]:
    """Names of the gates that fail, of every family with its default limits."""
    return {gate.name for family in ReleaseConfig().gates for gate in family.judge(given) if not gate.passed}
