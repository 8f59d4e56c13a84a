"""The lifecycle's form: what people change most, each field described and bounded by the stage's own config.

An empty field leaves the recipe's own value; everything else can be changed with a line of `settings`.
"""

import json
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt
from pydantic.fields import FieldInfo

from flows.recipes import RECIPES, Recipe

RecipeName = Annotated[
    Literal["demo", "tiny"], Field(description="demo: a small chat model; tiny: the whole chain in minutes")
]
Seed = Annotated[int, Field(ge=0, lt=2**31, description="seed of everything random")]
Label = Annotated[str, Field(pattern=r"^[\w-]{1,60}$", description="name of this call in MLflow and in the run's page")]
Until = Annotated[
    Literal[
        "ingest", "clean", "dedup", "tokenizer", "pack", "pretrain", "instructions", "sft", "preferences",
        "reward_model", "ppo", "quantize_int8", "quantize_int4", "evaluate_base", "evaluate_sft", "evaluate_ppo",
        "evaluate_int8", "evaluate_int4", "release",
    ],
    Field(description="the last stage to run"),
]  # fmt: skip
_BOUNDS = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
SettingLine = Annotated[str, Field(pattern=r"^\w+(\.\w+)+=.*$", max_length=500)]
SettingLines = Annotated[
    list[SettingLine],
    Field(max_length=50, description="any other field, as stage.field=value (`glmflow schema STAGE` lists them)"),
]


@dataclass(frozen=True)
class _Setting:
    """Which field of a recipe a form field sets; shapes its schema so that a refusal names the bound.

    The bounds of an optional number stand inside `anyOf`, where a validator only says that nothing fits.
    """

    path: str

    def __call__(self, schema: dict[str, Any]) -> None:
        schema["sets"] = self.path
        for option in schema.get("anyOf", ()):
            schema |= {name: option.pop(name) for name in _BOUNDS if name in option}


def setting(path: str) -> Any:
    """An optional form field for `stage.field` of a recipe, with that field's description."""
    *parents, name = path.split(".")
    start: type[BaseModel] = Recipe
    described = reduce(_nested, parents, start).model_fields[name].description
    return Field(default=None, description=f"{described}; empty: the recipe's own", json_schema_extra=_Setting(path))


def _nested(model: type[BaseModel], name: str) -> type[BaseModel]:
    annotation: Any = model.model_fields[name].annotation
    return annotation  # type: ignore[no-any-return]


class Form(BaseModel):
    """A box of the form; a misspelt field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Documents(Form):
    """What the model is made from."""

    source_folder: str = Field(
        default="",
        max_length=4096,
        pattern="^(/.*)?$",
        description="absolute path, on the platform's machine, of a folder or a file with your documents; "
        "empty: the demonstration corpus",
    )
    min_jaccard: Annotated[float, Field(gt=0, le=1)] | None = setting("dedup.min_jaccard")
    vocab_size: Annotated[int, Field(ge=266)] | None = setting("tokenizer.vocab_size")

    def paths(self) -> list[Path]:
        """What to read; nothing for the demonstration corpus."""
        return [Path(self.source_folder)] if self.source_folder else []


class Pretraining(Form):
    """The base model."""

    train_tokens: PositiveInt | None = setting("pretrain.train_tokens")
    learning_rate: Annotated[float, Field(gt=0, le=1)] | None = setting("pretrain.optimization.learning_rate")
    hidden_size: PositiveInt | None = setting("pretrain.model.hidden_size")
    num_hidden_layers: PositiveInt | None = setting("pretrain.model.num_hidden_layers")
    num_experts: PositiveInt | None = setting("pretrain.model.num_experts")
    top_k: PositiveInt | None = setting("pretrain.model.top_k")


class Alignment(Form):
    """From the base model to the chat model."""

    sft_learning_rate: PositiveFloat | None = setting("sft.learning_rate")
    ppo_iterations: PositiveInt | None = setting("ppo.iterations")
    ppo_learning_rate: PositiveFloat | None = setting("ppo.learning_rate")
    ppo_kl_coef: Annotated[float, Field(ge=0)] | None = setting("ppo.kl_coef")


class RetrainOptions(Form):
    """What a person decides about a retraining; a schedule leaves all of it off."""

    accept_drift: bool = Field(default=False, description="go on with a corpus unlike the champion's")
    force: bool = Field(default=False, description="train although the documents are not new")
    freeze_again: bool = Field(default=False, description="compare on the present champion's held-out sets from now on")


def changes(*boxes: Form) -> list[str]:
    """The filled-in fields of the boxes, as `stage.field=value`."""
    return [
        f"{path}={json.dumps(value)}"
        for box in boxes
        for name, field in type(box).model_fields.items()
        if (path := _path(field)) and (value := getattr(box, name)) is not None
    ]


def _path(field: FieldInfo) -> str | None:
    return field.json_schema_extra.path if isinstance(field.json_schema_extra, _Setting) else None


def filled_in(recipe_name: str, lines: list[str]) -> Recipe:
    """The recipe with the form's changes. Raises BadSpecError that names every wrong one."""
    return RECIPES[recipe_name]().changed(lines, origin="settings")
