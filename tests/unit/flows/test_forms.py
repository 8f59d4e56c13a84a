"""The form offers what a recipe has, in the words of the stages, and an empty field changes nothing."""

from typing import get_args

import jsonschema
import pytest
from pydantic import BaseModel, ValidationError

from flows import forms
from flows.forms import Alignment, Documents, Form, Pretraining, RecipeName, Until, changes, filled_in
from flows.recipes import RECIPES, demo
from infra.errors import BadSpecError

BOXES = (Documents, Pretraining, Alignment)


def choices(annotated: object) -> list[str]:
    return list(get_args(get_args(annotated)[0]))


def test_the_choices_are_the_recipes_and_the_steps_of_their_plans():
    assert choices(RecipeName) == list(RECIPES)
    for recipe in RECIPES.values():
        assert choices(Until) == [step.label for step in recipe().steps()]


def test_an_empty_form_is_the_recipe():
    assert changes(*(box() for box in BOXES)) == []
    assert filled_in("demo", []) == demo()


def test_a_field_that_is_filled_in_reaches_its_stage():
    lines = changes(Documents(min_jaccard=0.5), Pretraining(train_tokens=7_000, learning_rate=0.02), Alignment())
    assert lines == [
        "dedup.min_jaccard=0.5",
        "pretrain.train_tokens=7000",
        "pretrain.optimization.learning_rate=0.02",
    ]
    recipe = filled_in("tiny", [*lines, "tokenizer.vocab_size=512"])
    assert recipe.pretrain.train_tokens == 7_000 and recipe.pretrain.optimization.learning_rate == 0.02
    assert recipe.dedup.min_jaccard == 0.5 and recipe.tokenizer.vocab_size == 512


@pytest.mark.parametrize("box", BOXES)
def test_every_field_says_what_it_means_in_the_words_of_its_stage(box: type[Form]):
    for name, field in box.model_fields.items():
        assert field.description, name
        path = forms._path(field)
        if path:
            holder: BaseModel = demo()
            *parents, last = path.split(".")
            for parent in parents:
                holder = getattr(holder, parent)
            assert field.description.startswith(type(holder).model_fields[last].description)


def test_what_belongs_together_is_checked_together():
    message = r"settings: pretrain: rows_per_micro_batch: want a divisor of rows_per_step \(7\), got 8; change one"
    with pytest.raises(BadSpecError, match=message):
        filled_in("demo", ["pretrain.rows_per_step=7"])
    with pytest.raises(BadSpecError, match=r"settings pretrain.stepz=1: pretrain has no 'stepz'"):
        filled_in("demo", ["pretrain.stepz=1"])


@pytest.mark.parametrize("values", [{"source_folder": "relative"}, {"min_jaccard": 2}, {"min_jakkard": 0.5}])
def test_a_wrong_value_and_a_misspelt_field_are_refused(values: dict[str, object]):
    with pytest.raises(ValidationError):
        Documents.model_validate(values)


def test_a_refusal_of_the_schema_names_the_bound():
    checker = jsonschema.Draft202012Validator(Pretraining.model_json_schema())
    assert [e.message for e in checker.iter_errors({"learning_rate": 5})] == ["5 is greater than the maximum of 1"]
    assert not list(checker.iter_errors({"learning_rate": None, "train_tokens": 5}))
    assert "minimum of 0" in next(checker.iter_errors({"train_tokens": 0})).message
