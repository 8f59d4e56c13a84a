"""The README's commands exist. (That they work is shown by tests/e2e.)"""

import re
import shlex
from pathlib import Path

import pytest

from flows.cli import build_parser

ROOT = Path(__file__).parents[2]
TEXT = "\n".join((ROOT / name).read_text() for name in ("README.md", "CONTRIBUTING.md"))
LINES = [line for block in re.findall(r"```\n(.*?)```", TEXT, re.DOTALL) for line in block.splitlines()]
COMMANDS = [line.split("#")[0].strip() for line in LINES]


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.startswith("make ")])
def test_every_make_target_in_the_documents_exists(command: str):
    target = command.split()[1]
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.startswith("glmflow ")])
def test_every_glmflow_command_in_the_documents_parses(command: str):
    build_parser().parse_args(shlex.split(command)[1:])


def test_continuous_integration_calls_the_targets_of_the_documents():
    targets = re.search(r"for target in (.*?); do", (ROOT / ".ci/run").read_text()).group(1).split()
    makefile = (ROOT / "Makefile").read_text()
    assert {"setup", "check", "test", "run", "test-ci"} <= set(targets)
    assert all(re.search(rf"^{t}:", makefile, re.MULTILINE) for t in targets)
