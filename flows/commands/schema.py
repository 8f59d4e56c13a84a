"""`glmflow schema`: every config field of a stage with its meaning, range and default."""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from rich.table import Table

from flows.console import page
from infra.errors import BadSpecError
from stages import STAGE_NAMES, load_stage

_BOUNDS = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}


def run(args: argparse.Namespace) -> int:
    """Print the fields as a table, or the JSON schemas."""
    if args.stage not in STAGE_NAMES:
        raise BadSpecError(f"stage {args.stage!r}: want one of {', '.join(STAGE_NAMES)}")
    stage = load_stage(args.stage)
    config, inputs = stage.config.model_json_schema(), stage.inputs.model_json_schema()
    if args.json:
        sys.stdout.write(json.dumps({"config": config, "inputs": inputs}, indent=2) + "\n")
        return 0
    table = Table(title=f"{stage.name} <- {', '.join(inputs.get('properties', {}))}", title_justify="left")
    for name in ("field", "type", "default", "meaning"):
        table.add_column(name, overflow="fold")
    for row in field_rows(config, config.get("$defs", {})):
        table.add_row(*row)
    page().print(table)
    return 0


def field_rows(
    schema: Mapping[str, Any], definitions: Mapping[str, Any], prefix: str = ""
) -> Iterator[tuple[str, str, str, str]]:
    """(field, type and range, default, meaning) of every field; nested configs with dotted names."""
    for name, field in schema.get("properties", {}).items():
        nested = _definition(field, definitions)
        if nested is not None and "properties" in nested:
            yield from field_rows(nested, definitions, f"{prefix}{name}.")
            continue
        default = "(required)" if "default" not in field else json.dumps(field["default"])
        yield prefix + name, _type_text(field, definitions), default, field.get("description", "")


def _definition(field: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any] | None:
    reference = field.get("$ref")
    found: Mapping[str, Any] | None = definitions[reference.rsplit("/", 1)[-1]] if reference else None
    return found


def _type_text(field: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    options = field.get("anyOf") or field.get("oneOf")
    if options:
        return " | ".join(_type_text(option, definitions) for option in options)
    if "const" in field:
        return json.dumps(field["const"])
    if "enum" in field:
        return " | ".join(json.dumps(value) for value in field["enum"])
    nested = _definition(field, definitions)
    if nested is not None:
        kind = nested.get("properties", {}).get("kind", {}).get("const")
        return str(kind or nested.get("title", "object"))
    if field.get("type") == "array":
        return f"list of {_type_text(field.get('items', {}), definitions)}"
    bounds = " ".join(f"{sign}{field[bound]}" for bound, sign in _BOUNDS.items() if bound in field)
    return f"{field.get('type', 'any')} {bounds}".strip()
