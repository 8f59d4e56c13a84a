"""One self-contained modelling file out of the modules that `models.glm` stands on.

The import closure of `models/glm.py` inside our packages is written in dependency order, imports of ours left out and
the external ones merged at the top. There is no second copy of the model in the repository: the file is made when a
model is saved. Comments, docstrings, `__all__` and calls at module level (registration with Auto classes) stay behind.

Not covered: own imports other than `from package.module import name`; they are refused.
"""

import ast
from pathlib import Path

MODELING_NAME = "modeling_glmflow"
_OWN_PACKAGES = ("kernels", "models")
_ROOT = Path(__file__).resolve().parent.parent
_HEADER = '''"""GLM, generated when this model was saved. Load with trust_remote_code=True; do not edit."""

'''


def modeling_source(entry: str = "models.glm") -> str:
    """The file's text; the same sources give the same text."""
    modules = _closure(entry)
    external: set[str] = set()
    bodies: list[str] = []
    owner_of: dict[str, str] = {}
    for name in modules:
        tree = ast.parse(_path(name).read_text(encoding="utf-8"))
        external |= _external_imports(tree)
        for defined in _defined_names(tree):
            if owner_of.setdefault(defined, name) != name:
                raise ValueError(
                    f"{name}.{defined}: want top-level names that differ over all bundled modules, got one that "
                    f"{owner_of[defined]} defines too; rename one of them"
                )
        bodies.append(_body(tree))
    return _HEADER + "\n".join(sorted(external)) + "\n\n\n" + "\n\n\n".join(body for body in bodies if body) + "\n"


def _path(module: str) -> Path:
    return _ROOT / Path(*module.split(".")).with_suffix(".py")


def _closure(entry: str) -> list[str]:
    """The modules in dependency order: everything a module imports stands before it."""
    done: list[str] = []

    def visit(module: str) -> None:
        if module in done:
            return
        for imported in _own_imports(module, ast.parse(_path(module).read_text(encoding="utf-8"))):
            visit(imported)
        done.append(module)

    visit(entry)
    return done


def _own_imports(module: str, tree: ast.Module) -> list[str]:
    found: list[str] = []
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom))
    for node in imports:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        own = [name for name in names if name.split(".")[0] in _OWN_PACKAGES]
        if not own:
            continue
        is_plain = isinstance(node, ast.ImportFrom) and "." in own[0] and all(a.asname is None for a in node.names)
        if not is_plain or node not in tree.body:
            raise ValueError(
                f"{module} line {node.lineno}: want `from package.module import name` at the top level, got "
                f"{ast.unparse(node)!r}; the bundled file has no modules of ours"
            )
        found += own
    return found


def _external_imports(tree: ast.Module) -> set[str]:
    """One line per imported name, so that lines of several modules merge."""
    lines: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Import):
            lines |= {ast.unparse(ast.Import([alias])) for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] not in _OWN_PACKAGES:
            lines |= {ast.unparse(ast.ImportFrom(node.module, [alias], node.level)) for alias in node.names}
    return lines


def _defined_names(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names - {"__all__"}


def _body(tree: ast.Module) -> str:
    """The definitions without comments and docstrings: what the stage's key leaves out must not change bytes either."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef | ast.FunctionDef):
            continue
        if ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    kept = [node for node in tree.body if not _stays_behind(node)]
    return "\n\n\n".join(ast.unparse(node) for node in kept)


def _stays_behind(node: ast.stmt) -> bool:
    is_all = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    return isinstance(node, ast.Import | ast.ImportFrom | ast.Expr) or is_all
