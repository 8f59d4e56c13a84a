"""`glmflow stage` is the container's entry point under another name."""

import argparse
from pathlib import Path

import pytest

import stages.__main__ as entry
from flows.commands.stage import run


def test_the_exit_code_and_the_arguments_are_passed_on(monkeypatch: pytest.MonkeyPatch):
    given: list[list[str]] = []
    monkeypatch.setattr(entry, "main", lambda argv: given.append(argv) or 2)
    assert run(argparse.Namespace(name="clean", spec=Path("s.json"))) == 2
    assert given == [["clean", "--spec", "s.json"]]
