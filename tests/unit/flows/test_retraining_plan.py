"""The plan of a retraining is wired to what is made before it or given from outside."""

from dataclasses import replace

import pytest

from flows.champion import Champion, FrozenSets
from flows.plan import SOURCES, wired
from flows.recipes import demo
from flows.retraining_plan import data_steps, outside, training_steps
from infra.artifacts import ArtifactRef
from infra.errors import BadSpecError
from stages import load_stage
from stages.benchmarks.reward import MeanReward
from stages.contract import json_of
from stages.pack import PackConfig


def ref(kind: str, letter: str) -> ArtifactRef:
    return ArtifactRef(kind=kind, digest=letter * 64, num_bytes=1)


CHAMPION = Champion(
    model=ref("model", "a"), corpus=ref("deduped_corpus", "b"), clean=ref("clean_corpus", "c"),
    tokenizer=ref("tokenizer", "d"), instructions=ref("instructions", "e"), sources="f" * 64,
    pack=PackConfig(max_heldout_bytes=77),
)  # fmt: skip
FROZEN = FrozenSets(CHAMPION.corpus, CHAMPION.instructions, CHAMPION.pack)


def made_by(step) -> dict:
    """References of the kinds that the stage's outputs have."""
    fields = load_stage(step.stage).outputs.model_fields
    return {name: json_of(ref(field.annotation.model_fields["kind"].default, "9")) for name, field in fields.items()}


def test_every_input_of_every_step_is_there_and_of_its_kind():
    recipe = demo()
    steps = (*data_steps(recipe, CHAMPION), *training_steps(recipe, FROZEN))
    made = {SOURCES: {"manifest": json_of(ref("source_manifest", "0"))}} | outside(CHAMPION, FROZEN)
    for step in steps:
        load_stage(step.stage).inputs.model_validate(wired(step, made))
        made[step.label] = made_by(step)
    labels = [step.label for step in steps]
    assert len(set(labels)) == len(labels) and labels[-1] == "challenge" and labels[3] == "drift"


def test_both_are_measured_alike_on_the_frozen_corpus_packed_as_the_champions():
    steps = {step.label: step for step in training_steps(demo(), FROZEN)}
    champion, challenger = steps["evaluate_frozen_champion"], steps["evaluate_frozen_challenger"]
    assert champion.config == challenger.config
    assert champion.wires["instructions"] == challenger.wires["instructions"] == "frozen.instructions"
    assert steps["pack_frozen_champion"].config == steps["pack_frozen_challenger"].config == CHAMPION.pack
    assert steps["pack_frozen_challenger"].wires == {
        "corpus": "frozen.corpus", "tokenizer": "tokenizer.tokenizer",
    }  # fmt: skip


def test_the_frozen_documents_are_kept_out_of_the_challengers_training():
    steps = {step.label: step for step in training_steps(demo(), FROZEN)}
    assert steps["pack"].wires["frozen"] == steps["instructions"].wires["frozen"] == "frozen.corpus"
    assert "frozen" not in steps["pack_frozen_challenger"].wires


def test_without_a_champion_it_is_the_recipes_own_plan():
    steps = (*data_steps(demo(), None), *training_steps(demo(), None))
    assert steps == demo().steps() and outside(None, None) == {}


def test_benchmarks_that_decide_must_be_there():
    recipe = demo()
    blind = recipe.model_copy(update={"evaluate": recipe.evaluate.model_copy(update={"benchmarks": (MeanReward(),)})})
    with pytest.raises(BadSpecError, match=r"want perplexity and instructions among them.*got MeanReward"):
        training_steps(blind, FROZEN)


def test_frozen_sets_come_back_from_the_lineage_as_they_were():
    assert FrozenSets.from_json(FROZEN.as_json()) == replace(FROZEN)
