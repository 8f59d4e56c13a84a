"""`--set stage.field=value`: change single fields of a recipe, checked against its types.

The value is read as JSON when the field takes it so (`0.001`, `true`, `[1, 2]`), else as text, else as a list with
commas. A dot goes down into nested configs, a number into a list (`clean.filters.0.min_words=5`).
"""

import json
from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from infra.errors import BadSpecError
from stages.__main__ import describe

M = TypeVar("M", bound=BaseModel)


def apply(recipe: M, texts: Sequence[str], origin: str = "--set") -> M:
    """The recipe with these changes. Raises BadSpecError that names every wrong one; `origin` is where they stood."""
    values = recipe.model_dump(mode="python")
    for text in texts:
        path, separator, value = text.partition("=")
        if not separator or "." not in path:
            raise BadSpecError(f"{origin}: want stage.field=value, got {text!r}")
        _set(recipe, values, path.strip().split("."), value.strip(), f"{origin} {text}")
    try:
        return type(recipe).model_validate(values)
    except ValidationError as error:
        raise BadSpecError(f"{origin}: {describe(error)}") from error


def _set(model: Any, values: Any, path: list[str], value: str, text: str) -> None:
    """Walk down `model` and its dump `values` side by side, and replace the value at the end of the path."""
    for depth, name in enumerate(path):
        key: Any = int(name) if isinstance(values, list | tuple) and name.isdigit() else name
        known = _known(model)
        if key not in known:
            where = ".".join(path[:depth]) or "recipe"
            raise BadSpecError(f"{text}: {where} has no {name!r}; want one of {', '.join(map(str, known))}")
        if depth == len(path) - 1:
            field = type(model).model_fields[key] if isinstance(model, BaseModel) else None
            values[key] = _parsed(value, field, text)
            return
        if isinstance(values[key], tuple):  # a dump keeps tuples; only a list can be changed
            values[key] = list(values[key])
        model = getattr(model, key) if isinstance(model, BaseModel) else model[key]
        values = values[key]


def _known(model: Any) -> Sequence[Any]:
    if isinstance(model, BaseModel):
        return [name for name, field in type(model).model_fields.items() if not _is_fixed(field)]
    if isinstance(model, dict):
        return list(model)
    return range(len(model)) if isinstance(model, list | tuple) else ()


def _is_fixed(field: FieldInfo) -> bool:
    """`kind: Literal["rtn"]` of a plug-in can have one value only."""
    return (
        field.annotation is not None
        and len(getattr(field.annotation, "__args__", ())) == 1
        and bool(isinstance(field.default, str) and field.annotation.__args__[0] == field.default)
    )


def _parsed(text: str, field: FieldInfo | None, whole: str) -> Any:
    """The first reading of the text that the field takes."""
    readings: list[Any] = [text, text.split(",")]
    try:
        readings.insert(0, json.loads(text))
    except json.JSONDecodeError:
        if "," in text:
            readings.insert(0, [_json_or_text(part.strip()) for part in text.split(",")])
    if field is None:
        return readings[0]
    adapter: TypeAdapter[Any] = TypeAdapter(Annotated[field.annotation, field])  # type: ignore[arg-type]
    errors = []
    for reading in readings:
        try:
            return adapter.validate_python(reading)
        except ValidationError as error:
            errors.append(error)
    raise BadSpecError(f"{whole}: {describe(errors[0]).removeprefix('whole file: ')}") from errors[0]


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
