"""Evaluations of five models with known figures: every gate passes, by a known margin."""

from stages.evaluation_file import EvaluatedModel, EvaluationFile
from stages.gates import MODEL_NAMES
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
