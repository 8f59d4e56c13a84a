"""A plug-in family is its files."""

import sys
import types
from typing import Literal

import pytest
from pydantic import TypeAdapter, ValidationError

from stages.plugins import Plugin, plugin_union


class Shape(Plugin):
    pass


def member(name: str, kind: str) -> types.ModuleType:
    module = types.ModuleType(f"family.{name}")
    module.Member = type(
        "Member", (Shape,), {"__module__": module.__name__, "__annotations__": {"kind": Literal[kind]}, "kind": kind}
    )
    return module


def test_a_member_is_chosen_by_its_kind_and_an_unknown_kind_names_the_known_ones(monkeypatch):
    for name in ("round", "square"):
        monkeypatch.setitem(sys.modules, f"family.{name}", member(name, name))
    adapter = TypeAdapter(plugin_union("family", ("round", "square"), Shape))
    assert adapter.validate_python({"kind": "round"}).kind == "round"
    with pytest.raises(ValidationError, match="'round', 'square'"):
        adapter.validate_python({"kind": "oval"})


def test_a_file_that_holds_another_kind_than_its_name_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "family.round", member("round", "square"))
    with pytest.raises(TypeError, match=r"family/round.py: want exactly one Shape with kind 'round'"):
        plugin_union("family", ("round",), Shape)
