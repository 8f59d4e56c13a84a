"""What enters the code and environment digests, and what does not: on a small source tree of our own."""

from importlib import metadata
from pathlib import Path
from typing import Literal

import pytest
from pydantic import Field

from stages import STAGE_NAMES, digests
from stages.contract import StageModel
from stages.digests import code_digest, environment, import_closure, plugin_modules
from stages.plugins import Plugin

FILES = {
    "stages/__init__.py": '"""Names."""\nNAMES = ("a", "b")\n',
    "stages/a.py": '"""Stage a."""\nfrom models import helper\n\n\ndef run():\n    """Do."""\n    return helper.f()\n',
    "stages/b.py": '"""Stage b."""\nimport json\n',
    "models/__init__.py": '"""Models."""\n',
    "models/helper.py": '"""Help."""\ndef f():\n    import numpy\n    from kernels.op import SOURCE\n    return 1\n',
    "kernels/__init__.py": '"""Kernels."""\n',
    "kernels/op.py": '"""Op."""\nSOURCE = "csrc/op.cpp"\nTEMPLATE = "card.jinja"\n',
    "kernels/csrc/op.cpp": "int f() { return 1; }\n",
    "kernels/card.jinja": "hello\n",
    "stages/plug.py": '"""A plug-in."""\nX = 1\n',
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def edit(root: Path, name: str, old: str, new: str) -> None:
    text = (root / name).read_text()
    assert old in text
    (root / name).write_text(text.replace(old, new))


def test_the_closure_follows_imports_inside_functions_and_leaves_other_stages_out(root: Path):
    assert import_closure(("stages.a",), root) == {"stages.a", "models.helper", "kernels.op"}


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("models/helper.py", "return 1", "return 2"),
        ("kernels/csrc/op.cpp", "return 1", "return 2"),
        ("kernels/card.jinja", "hello", "goodbye"),
        ("stages/a.py", "helper.f()", "helper.f"),
    ],
)
def test_a_changed_helper_native_source_or_template_changes_only_the_stages_that_use_it(root, name, old, new):
    before = code_digest(("stages.a",), root), code_digest(("stages.b",), root)
    edit(root, name, old, new)
    assert code_digest(("stages.a",), root) != before[0]
    assert code_digest(("stages.b",), root) == before[1]


def test_what_is_imported_for_type_checkers_only_does_not_count(root: Path):
    guarded = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from models.helper import f\n"
    (root / "stages/b.py").write_text(guarded)
    assert import_closure(("stages.b",), root) == {"stages.b"}


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("models/helper.py", "return 1", "# why\n    return 1"),
        ("models/helper.py", '"""Help."""', '"""Help, explained."""'),
        ("stages/a.py", "\n\n\ndef", "\n\n\n\n\ndef"),
        ("stages/__init__.py", '"b")', '"b", "c")'),
    ],
)
def test_a_changed_comment_docstring_layout_or_registry_changes_nothing(root, name, old, new):
    before = code_digest(("stages.a",), root)
    edit(root, name, old, new)
    assert code_digest(("stages.a",), root) == before


def test_a_plugin_counts_when_the_config_names_it(root: Path):
    without, with_plugin = code_digest(("stages.a",), root), code_digest(("stages.a", "stages.plug"), root)
    edit(root, "stages/plug.py", "1", "2")
    assert code_digest(("stages.a",), root) == without
    assert code_digest(("stages.a", "stages.plug"), root) != with_plugin


class Member(Plugin):
    kind: Literal["member"] = "member"


class HoldsPlugins(StageModel):
    nested: dict[str, tuple[Member, ...]] = Field(default={})


def test_plugins_are_found_anywhere_in_a_config():
    assert plugin_modules(HoldsPlugins()) == ()
    assert plugin_modules(HoldsPlugins(nested={"x": (Member(),)})) == (__name__,)


def test_the_environment_holds_the_pins_of_imported_distributions_and_their_dependencies_only(root: Path, monkeypatch):
    pins = environment(("stages.a",), 2, root)
    assert pins["numpy"] == metadata.version("numpy")
    assert "sqlalchemy" not in pins
    assert "numpy" not in environment(("stages.b",), 2, root)
    real = metadata.version
    monkeypatch.setattr(digests.metadata, "version", lambda name: "9.9" if name == "numpy" else real(name))
    assert environment(("stages.a",), 2, root) == pins | {"numpy": "9.9"}


def test_threads_count_only_where_torch_computes(root: Path):
    assert environment(("stages.b",), 1, root) == environment(("stages.b",), 2, root)
    edit(root, "models/helper.py", "import numpy", "import torch")
    assert environment(("stages.a",), 1, root) != environment(("stages.a",), 2, root)


@pytest.mark.parametrize("name", STAGE_NAMES)
def test_no_stage_depends_on_where_artifacts_are_kept(name: str):
    closure = import_closure((f"stages.{name}",))
    assert {module for module in closure if module.startswith("infra.stores")} == {"infra.stores.base"}
    assert "boto3" not in environment((f"stages.{name}",), threads=1)
