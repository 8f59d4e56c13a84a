"""--set changes exactly one field, typed, or says what there is."""

from typing import Literal

import pytest
from pydantic import BaseModel, Field, model_validator

from flows.overrides import apply
from infra.errors import BadSpecError


class Filter(BaseModel):
    kind: Literal["length"] = "length"
    min_words: int = 3


class Optimizer(BaseModel):
    lr: float = Field(default=0.1, gt=0)
    betas: tuple[float, float] = (0.9, 0.99)


class Pretrain(BaseModel):
    optimizer: Optimizer = Optimizer()
    steps: int = 10
    rows: int = 4
    name: str = "x"
    domains: dict[str, int] = {"api": 1}
    tags: tuple[str, ...] = ()
    limit: int | None = None
    filters: tuple[Filter, ...] = (Filter(), Filter())
    is_fast: bool = False

    @model_validator(mode="after")
    def _fits(self) -> "Pretrain":
        if self.steps % self.rows not in (0, 2):
            raise ValueError("rows: want a divisor of steps")
        return self


LENGTH = Filter().model_dump()


class Recipe(BaseModel):
    pretrain: Pretrain = Pretrain()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pretrain.steps=20", {"steps": 20}),
        ("pretrain.optimizer.lr=1e-3", {"optimizer": {"lr": 0.001, "betas": (0.9, 0.99)}}),
        ("pretrain.optimizer.betas=0.8,0.95", {"optimizer": {"lr": 0.1, "betas": (0.8, 0.95)}}),
        ("pretrain.optimizer.betas=[0.8, 0.95]", {"optimizer": {"lr": 0.1, "betas": (0.8, 0.95)}}),
        ("pretrain.name=12", {"name": "12"}),
        ("pretrain.name=a,b", {"name": "a,b"}),
        ("pretrain.name=a=b", {"name": "a=b"}),
        ("pretrain.tags=only", {"tags": ("only",)}),
        ("pretrain.tags=a,b", {"tags": ("a", "b")}),
        ("pretrain.domains.api=5", {"domains": {"api": 5}}),
        ('pretrain.domains={"doc": 7}', {"domains": {"doc": 7}}),
        ("pretrain.limit=null", {"limit": None}),
        ("pretrain.limit=3", {"limit": 3}),
        ("pretrain.is_fast=true", {"is_fast": True}),
        ("pretrain.filters.1.min_words=9", {"filters": (LENGTH, LENGTH | {"min_words": 9})}),
    ],
)  # fmt: skip
def test_one_field_changes_and_the_others_stay(text: str, expected: dict[str, object]):
    changed = apply(Recipe(), [text]).pretrain.model_dump()
    assert changed == Pretrain().model_dump() | expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pretrain.stepz=1", r"pretrain has no 'stepz'; want one of optimizer, steps, rows, name"),
        ("train.steps=1", r"recipe has no 'train'; want one of pretrain"),
        ("pretrain.optimizer.lr=fast", r"--set pretrain.optimizer.lr=fast: .*number.*got 'fast'"),
        ("pretrain.optimizer.lr=-1", r"greater than 0, got '-1'"),
        ("pretrain.filters.7.min_words=1", r"pretrain.filters has no '7'; want one of 0, 1"),
        ("pretrain.filters.0.kind=other", r"has no 'kind'"),
        ("pretrain.domains.web=1", r"pretrain.domains has no 'web'; want one of api"),
        ("pretrain.rows=7", r"pretrain: .*rows: want a divisor of steps"),
        ("steps=1", r"want stage.field=value, got 'steps=1'"),
        ("pretrain.steps", r"want stage.field=value"),
    ],
)
def test_what_is_wrong_is_named_with_what_would_be_right(text: str, message: str):
    with pytest.raises(BadSpecError, match=message):
        apply(Recipe(), [text])


def test_changes_that_only_fit_together_are_accepted_together():
    assert apply(Recipe(), ["pretrain.rows=7", "pretrain.steps=21"]).pretrain.rows == 7
