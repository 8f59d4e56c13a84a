"""What the repository promises about its own shape."""

import ast
import importlib
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from stages import STAGE_NAMES

ROOT = Path(__file__).parents[2]
PACKAGES = ("flows", "stages", "models", "kernels", "infra")
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
UNTESTED_BY_NAME = {"__init__", "__main__", "base", "env"}
REGISTRY_NODES = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.If, ast.Expr)

SOURCES = sorted(
    path for package in PACKAGES for path in (ROOT / package).rglob("*.py") if "versions" not in path.parts
)
FAMILIES = sorted(path.parent for path in (ROOT / "stages").glob("*/__init__.py") if "_KINDS = (" in path.read_text())


def functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_files_and_functions_stay_small_and_say_what_they_are(path: Path):
    text = path.read_text()
    assert text.count("\n") <= MAX_FILE_LINES, f"{path}: one file holds one noun, {MAX_FILE_LINES} lines at most"
    assert ast.get_docstring(ast.parse(text)), f"{path}: want a module docstring"
    for function in functions(path):
        length = function.end_lineno - function.lineno + 1
        assert length <= MAX_FUNCTION_LINES, f"{path}:{function.lineno}: {function.name} has {length} lines"


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_exceptions_are_caught_broadly_only_at_the_doors(path: Path):
    doors = {"stages/__main__.py", "infra/server/worker.py", "infra/tracking.py", "flows/cli.py"}
    broad = [
        node.lineno
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or getattr(node.type, "id", "") in {"Exception", "BaseException"})
    ]
    assert not broad or path.relative_to(ROOT).as_posix() in doors, f"{path}: `except Exception` in lines {broad}"


def test_every_source_file_has_its_unit_test_file_and_the_other_way_round():
    wanted = {
        (path.parent / f"test_{path.name}").relative_to(ROOT).as_posix()
        for path in SOURCES
        if path.stem not in UNTESTED_BY_NAME
    }
    found = {p.relative_to(ROOT / "tests/unit").as_posix() for p in (ROOT / "tests/unit").rglob("test_*.py")}
    found -= {path for path in found if Path(path).stem.removeprefix("test_").strip("_") in {"main"}}
    assert found == wanted


def test_every_stage_is_one_file_ending_in_its_stage_object():
    for name in STAGE_NAMES:
        stage = importlib.import_module(f"stages.{name}").STAGE
        assert stage.name == name
        assert all(p.startswith(f"{name}/") or p.split("/")[0] in {"moe", "eval"} for p in stage.metrics), stage.metrics
        assert all("description" in f for f in stage.config.model_json_schema().get("properties", {}).values()), name


@pytest.mark.parametrize("family", FAMILIES, ids=lambda p: p.name)
def test_every_plugin_file_is_registered_and_every_registered_kind_is_a_file(family: Path):
    module = importlib.import_module(f"stages.{family.name}")
    kinds = next(value for name, value in vars(module).items() if name.endswith("_KINDS"))
    assert {p.stem for p in family.glob("*.py")} - {"__init__", "base"} == set(kinds)


def test_package_init_files_hold_names_only():
    """They are left out of the code digest, so they must hold nothing that changes a result."""
    for path in SOURCES:
        if path.name == "__init__.py":
            kinds = [type(n) for n in ast.parse(path.read_text()).body if not isinstance(n, REGISTRY_NODES)]
            allowed = [ast.FunctionDef] if path.parent.name in {"stages", "kernels"} else []
            assert [k for k in kinds if k not in allowed] == [], f"{path}: want a docstring and names"


def test_stage_modules_import_without_torch():
    code = (
        "import sys, stages\n"
        "for name in stages.STAGE_NAMES: stages.load_stage(name)\n"
        "heavy = {'torch', 'transformers', 'trl', 'datasets', 'mlflow', 'prefect'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_no_installed_distribution_owns_our_package_names():
    owners = metadata.packages_distributions()
    clashes = {name: set(owners.get(name, [])) - {"glmflow"} for name in PACKAGES}
    assert not any(clashes.values()), clashes


def test_no_test_is_skipped_without_a_condition():
    for path in (ROOT / "tests").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr == "skip" and path != Path(__file__):
                assert isinstance(node.value, ast.Name) and node.value.id == "pytest", f"{path}:{node.lineno}"
