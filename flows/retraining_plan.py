"""The plan of a retraining: the recipe's own, with a look at the corpus in its middle and the comparison at its end.

From outside come, under the label `champion`, its model, corpora and tokenizer, and under `frozen` the corpus and the
instructions whose held-out items both models are compared on. The frozen corpus is packed with each model's tokenizer;
which documents are held out depends on their ids only.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from flows.champion import Champion, FrozenSets
from flows.plan import Step, Wire, until
from flows.recipes import Recipe
from infra.errors import BadSpecError
from stages.benchmarks.instructions import InstructionAccuracy
from stages.benchmarks.perplexity import Perplexity
from stages.contract import json_of

CHAMPION, FROZEN = "champion", "frozen"
DRIFT, CHALLENGE = "drift", "challenge"
EVALUATION_OF_CHALLENGER = "evaluate_frozen_challenger"
# What both models are compared on is not trained on.
_SPARING, _SPARED = ("pack", "instructions"), {"frozen": f"{FROZEN}.corpus"}
_COMPARED = (Perplexity, InstructionAccuracy)


def data_steps(recipe: Recipe, champion: Champion | None) -> tuple[Step, ...]:
    """Up to the deduplicated corpus, and how far it is from the champion's."""
    steps = until(recipe.steps(), "dedup")
    if champion is None:
        return steps
    wires = {
        "corpus": "dedup.corpus",
        "clean": "clean.corpus",
        "champion_corpus": f"{CHAMPION}.corpus",
        "champion_clean": f"{CHAMPION}.clean",
    }
    return (*steps, Step(DRIFT, "drift", recipe.drift, wires))


def training_steps(recipe: Recipe, frozen: FrozenSets | None) -> tuple[Step, ...]:
    """From the corpus to the challenger's release, and the comparison with the champion."""
    steps = recipe.steps()
    rest = steps[len(until(steps, "dedup")) :]
    if frozen is None:
        return rest
    spared = tuple(replace(s, wires={**s.wires, **_SPARED}) if s.stage in _SPARING else s for s in rest)
    return (*spared, *_comparison(recipe, frozen))


def _comparison(recipe: Recipe, frozen: FrozenSets) -> tuple[Step, ...]:
    models = {"champion": f"{CHAMPION}.model", "challenger": "ppo.model"}
    tokenizers = {"champion": f"{CHAMPION}.tokenizer", "challenger": "tokenizer.tokenizer"}
    compared = tuple(benchmark for benchmark in recipe.evaluate.benchmarks if isinstance(benchmark, _COMPARED))
    if len(compared) < len(_COMPARED):
        raise BadSpecError(
            "evaluate.benchmarks: want perplexity and instructions among them, which decide about a challenger, got "
            f"{', '.join(type(benchmark).__name__ for benchmark in recipe.evaluate.benchmarks)}; add what is missing"
        )
    evaluate = recipe.evaluate.model_copy(update={"benchmarks": compared})
    corpus, instructions = f"{FROZEN}.corpus", f"{FROZEN}.instructions"
    steps: list[Step] = []
    for name, model in models.items():
        packed = f"pack_frozen_{name}"
        measured = {"model": model, "tokens": f"{packed}.tokens", "instructions": instructions}
        steps += [
            Step(packed, "pack", frozen.pack, {"corpus": corpus, "tokenizer": tokenizers[name]}),
            Step(f"evaluate_frozen_{name}", "evaluate", evaluate, measured),
        ]
    wires: dict[str, Wire] = {
        **models,
        "release": "release.release",
        "evaluations": {name: f"evaluate_frozen_{name}.evaluation" for name in models},
        "frozen_corpus": corpus,
        "frozen_instructions": instructions,
        "corpus": "dedup.corpus",
        "tokens": "pack.tokens",
    }
    return (*steps, Step(CHALLENGE, "challenge", recipe.challenge, wires))


def outside(champion: Champion | None, frozen: FrozenSets | None) -> dict[str, Mapping[str, Any]]:
    """What the plan is wired to besides the sources."""
    if champion is None or frozen is None:
        return {}
    fields = ("model", "corpus", "clean", "tokenizer")
    return {
        CHAMPION: {name: json_of(getattr(champion, name)) for name in fields},
        FROZEN: {"corpus": json_of(frozen.corpus), "instructions": json_of(frozen.instructions)},
    }
