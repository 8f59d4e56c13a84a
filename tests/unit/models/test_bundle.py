import ast
from pathlib import Path

import pytest

from models import bundle
from models.bundle import modeling_source


def _write(root: Path, files: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, source in files.items():
        path = root / f"{name.replace('.', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
    monkeypatch.setattr(bundle, "_ROOT", root)


def test_the_modelling_file_imports_nothing_of_ours_and_defines_the_classes() -> None:
    tree = ast.parse(modeling_source())
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not any(module and module.split(".")[0] in {"models", "kernels"} for module in imported)
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    assert {"GlmConfig", "GlmBackbone", "GlmForCausalLM", "GlmForSequenceClassification"} <= classes
    assert modeling_source() == modeling_source()


def test_modules_stand_after_what_they_import_and_imports_merge(tmp_path: Path, monkeypatch) -> None:
    files = {
        "models.top": '"""Doc."""\nimport torch\nfrom math import e, pi\nfrom models.low import one\n\ntwo = one + 1\n',
        "models.low": '"""Doc."""\nimport torch\nfrom math import pi\n__all__ = ["one"]\n# why\none = 1\nprint(one)\n',
    }
    _write(tmp_path, files, monkeypatch)
    body = modeling_source("models.top").split('"""\n\n', 1)[1]
    assert body == "from math import e\nfrom math import pi\nimport torch\n\n\none = 1\n\n\ntwo = one + 1\n"


def test_comments_and_docstrings_do_not_reach_the_file(tmp_path: Path, monkeypatch) -> None:
    plain = "def f(x):\n    return x\n\n\nclass A:\n    y: int = 1\n"
    explained = 'def f(x):\n    """Why."""\n    return x  # because\n\n\nclass A:\n    """What."""\n\n    y: int = 1\n'
    _write(tmp_path / "a", {"models.top": plain}, monkeypatch)
    expected = modeling_source("models.top")
    _write(tmp_path / "b", {"models.top": explained}, monkeypatch)
    assert modeling_source("models.top") == expected


def test_a_name_that_two_modules_define_is_refused(tmp_path: Path, monkeypatch) -> None:
    _write(
        tmp_path,
        {"models.top": "from models.low import a\nb = 1\n", "models.low": "a = b = 2\nb: int = 3\n"},
        monkeypatch,
    )
    with pytest.raises(ValueError, match=r"models\.top\.b: want top-level names that differ"):
        modeling_source("models.top")


@pytest.mark.parametrize(
    "source",
    [
        "import models.low\n",
        "from models import low\n",
        "from models.low import a as b\n",
        "def f():\n    from models.low import a\n",
    ],
)
def test_imports_of_ours_that_cannot_be_flattened_are_refused(source: str, tmp_path: Path, monkeypatch) -> None:
    _write(tmp_path, {"models.top": source, "models.low": "a = 1\n"}, monkeypatch)
    with pytest.raises(ValueError, match=r"models\.top line \d: want `from package\.module import name`"):
        modeling_source("models.top")
