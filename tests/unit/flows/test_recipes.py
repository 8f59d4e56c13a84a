"""Every published recipe is whole: its wires fit, its settings can be changed."""

import typing
from types import UnionType
from typing import Any, Union

import pytest

from flows.plan import SOURCES, Step
from flows.recipes import RECIPES
from infra.artifacts import SourceManifest
from infra.errors import BadSpecError
from stages import STAGE_NAMES, load_stage

ALL = pytest.mark.parametrize("name", RECIPES)


def accepted(annotation: Any) -> set[type]:
    """The artifact types that an input takes."""
    if typing.get_origin(annotation) in (Union, UnionType):
        return set(typing.get_args(annotation))
    return {annotation}


def type_of(wire: str, steps: tuple[Step, ...]) -> Any:
    label, field = wire.split(".")
    if label == SOURCES:
        return SourceManifest
    stage = next(step.stage for step in steps if step.label == label)
    return load_stage(stage).outputs.model_fields[field].annotation


@ALL
def test_every_input_is_wired_to_an_output_of_an_earlier_step_of_its_type(name: str):
    steps = RECIPES[name]().steps()
    for position, step in enumerate(steps):
        fields = load_stage(step.stage).inputs.model_fields
        wanted = set(fields) - {"frozen"}  # a retraining gives it
        assert set(step.wires) == wanted, step.label
        for field, wire in step.wires.items():
            if isinstance(wire, str):
                assert type_of(wire, steps[:position]) in accepted(fields[field].annotation), f"{step.label}.{field}"
                continue
            members = fields[field].annotation.model_fields
            assert set(wire) == set(members), f"{step.label}.{field}"
            for member, inner in wire.items():
                assert type_of(inner, steps[:position]) in accepted(members[member].annotation)


@ALL
def test_labels_are_unique_and_stages_are_known(name: str):
    labels = [step.label for step in RECIPES[name]().steps()]
    assert len(set(labels)) == len(labels)
    assert {step.stage for step in RECIPES[name]().steps()} <= set(STAGE_NAMES)


@ALL
def test_every_config_is_the_config_of_its_stage(name: str):
    for step in RECIPES[name]().steps():
        assert type(step.config) is load_stage(step.stage).config


@ALL
def test_a_setting_is_changed_in_its_stage_only(name: str):
    before, after = RECIPES[name](), RECIPES[name]().changed(["pack.max_heldout_bytes=25"])
    assert after.pack.max_heldout_bytes == 25
    assert after.model_copy(update={"pack": before.pack}) == before


@ALL
def test_every_stage_holds_out_the_same_documents(name: str):
    both = ["pack.heldout_ratio=0.25", "instructions.heldout_ratio=0.25"]
    assert RECIPES[name]().changed(both).instructions.heldout_ratio == 0.25
    unchanged = RECIPES[name]().instructions.heldout_ratio
    expected = rf"--set: instructions.heldout_ratio: want that of pack \(0.25\), got {unchanged};"
    with pytest.raises(BadSpecError, match=expected):
        RECIPES[name]().changed(both[:1])


def test_recipes_differ():
    assert len({recipe().model_dump_json() for recipe in RECIPES.values()}) == len(RECIPES)
