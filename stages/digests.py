"""What a stage's result depends on besides config and inputs: our code and the environment it runs in.

The code digest covers the syntax trees, docstrings and comments left out, of the modules of ours that a stage imports,
transitively, also inside functions; the plug-ins named in its config; and the files that those modules name by a string
relative to their own folder (templates, native sources). Package `__init__` files hold docstrings and registries of
names only (tests/architecture checks it) and do not count.
"""

import ast
import hashlib
import json
import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from pydantic import BaseModel

OUR_PACKAGES = ("flows", "stages", "models", "kernels", "infra")
SOURCE_ROOT = Path(__file__).parent.parent
_MAX_NAME_CHARS = 200


def code_digest(modules: tuple[str, ...], root: Path = SOURCE_ROOT) -> str:
    """SHA-256 over the import closure of `modules` (dotted names of ours below `root`)."""
    parts: list[str] = []
    for name in sorted(import_closure(modules, root)):
        path = _module_path(name, root)
        facts = _read(path)
        parts += [name, facts.dump]
        for data_path in _named_files(facts, path.parent):
            parts += [data_path.relative_to(root).as_posix(), hashlib.sha256(data_path.read_bytes()).hexdigest()]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def import_closure(modules: tuple[str, ...], root: Path = SOURCE_ROOT) -> frozenset[str]:
    """Every module of ours that these modules import, transitively, themselves included; packages left out."""
    seen: set[str] = set()
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        imports = _read(_module_path(name, root)).imports
        waiting += [ours for found in imports if (ours := _resolve(found, root))]
    return frozenset(seen)


def plugin_modules(config: BaseModel) -> tuple[str, ...]:
    """The modules of every plug-in object inside a config."""
    return tuple(sorted({type(value).__module__ for value in _walk(config) if _is_plugin(value)}))


def environment(modules: tuple[str, ...], threads: int, root: Path = SOURCE_ROOT) -> dict[str, str]:
    """The pins of the distributions that these modules import, with their dependencies, and what changes numbers."""
    distributions = _with_dependencies(frozenset(_external_distributions(import_closure(modules, root), root)))
    pins = {name: metadata.version(name) for name in sorted(distributions)}
    pins["python"] = platform.python_version()
    pins["machine"] = platform.machine()
    if "torch" in distributions:
        pins |= {"device": "cpu", "threads": str(threads), "world_size": "1", "instruction_set": _instruction_set()}
    return pins


@dataclass(frozen=True)
class ModuleFacts:
    """What counts of one source file."""

    imports: tuple[str, ...]
    strings: frozenset[str]
    dump: str


def _read(path: Path) -> ModuleFacts:
    status = path.stat()
    return _parse(path, status.st_mtime_ns, status.st_size)


@cache
def _parse(path: Path, _mtime_ns: int, _num_bytes: int) -> ModuleFacts:
    """Parsed once for all stages of a lifecycle, and again after an edit."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imports = tuple(_imported_names(tree))
    bare = _without_docstrings(tree)
    strings = {n.value for n in ast.walk(bare) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    return ModuleFacts(imports, frozenset(strings), ast.dump(bare))


def _walk_run_code(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node but those under `if TYPE_CHECKING:`, which no run ever executes."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            waiting += node.orelse
        else:
            waiting += ast.iter_child_nodes(node)


def _module_path(name: str, root: Path) -> Path:
    return (root / name.replace(".", "/")).with_suffix(".py")


def _resolve(name: str, root: Path) -> str | None:
    """`models.glm.GlmConfig` -> `models.glm`; None for what is not a module file of ours."""
    parts = name.split(".")
    if parts[0] not in OUR_PACKAGES:
        return None
    while parts and not _module_path(".".join(parts), root).is_file():
        parts.pop()
    return ".".join(parts) or None


def _imported_names(tree: ast.AST) -> Iterator[str]:
    for node in _walk_run_code(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        first = node.body[0] if node.body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            node.body = node.body[1:]
    return tree


def _named_files(facts: ModuleFacts, folder: Path) -> list[Path]:
    plausible = [n for n in facts.strings if "." in n and len(n) < _MAX_NAME_CHARS and "\n" not in n and "\0" not in n]
    paths = {folder / name for name in plausible if not name.startswith((".", "/"))}
    return sorted(p for p in paths if p.suffix != ".py" and p.is_file())


def _walk(value: Any) -> Iterator[Any]:
    yield value
    if isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _walk(getattr(value, name))
    elif isinstance(value, dict):
        for item in value.values():
            yield from _walk(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _walk(item)


def _is_plugin(value: Any) -> bool:
    return isinstance(value, BaseModel) and any(base.__module__ == "stages.plugins" for base in type(value).__mro__)


def _external_distributions(modules: frozenset[str], root: Path) -> Iterator[str]:
    for name in modules:
        for imported in _read(_module_path(name, root)).imports:
            top = imported.split(".")[0]
            if top not in OUR_PACKAGES and top not in sys.stdlib_module_names:
                yield from _distributions_of(top)


@cache
def _packages() -> dict[str, list[str]]:
    return {name: list(distributions) for name, distributions in metadata.packages_distributions().items()}


@cache
def _distributions_of(import_name: str) -> tuple[str, ...]:
    try:
        return (_normal(metadata.distribution(import_name).name),)
    except metadata.PackageNotFoundError:
        return tuple(sorted({_normal(name) for name in _packages().get(import_name, [])}))


def _normal(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


@cache
def _with_dependencies(names: frozenset[str]) -> frozenset[str]:
    seen: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        try:
            requires = metadata.requires(name) or []
        except metadata.PackageNotFoundError:  # an optional dependency that is not installed
            continue
        seen.add(name)
        needed = (Requirement(text) for text in requires)
        waiting += [_normal(r.name) for r in needed if r.marker is None or r.marker.evaluate({"extra": ""})]
    return frozenset(seen)


def _instruction_set() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    flags = set(cpuinfo.read_text().split()) if cpuinfo.is_file() else set()
    return next((name for name in ("avx512f", "avx2") if name in flags), "portable")
