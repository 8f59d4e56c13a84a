"""A plan feeds each step from the outputs of steps above it."""

import pytest

from flows.plan import Step, until, wired
from infra.errors import BadSpecError
from stages.contract import StageModel

STEPS = tuple(
    Step(label, stage, StageModel(), {})
    for label, stage in (
        ("clean", "clean"),
        ("quantize_int8", "quantize"),
        ("quantize_int4", "quantize"),
        ("end", "end"),
    )
)


@pytest.mark.parametrize(("name", "last"), [("clean", 1), ("quantize", 3), ("quantize_int8", 2), (None, 4)])
def test_until_ends_after_the_last_step_of_a_stage_or_at_a_label(name: str | None, last: int):
    assert until(STEPS, name) == STEPS[:last]


def test_until_names_the_steps_that_there_are():
    with pytest.raises(BadSpecError, match="want one of clean, quantize_int8, quantize_int4, end, got 'cleen'"):
        until(STEPS, "cleen")


def test_wires_take_single_outputs_and_named_groups_of_them():
    made = {"a": {"x": 1}, "b": {"y": 2}}
    step = Step("c", "c", StageModel(), {"one": "a.x", "many": {"first": "a.x", "second": "b.y"}})
    assert wired(step, made) == {"one": 1, "many": {"first": 1, "second": 2}}
