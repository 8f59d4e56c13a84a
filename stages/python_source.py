"""Python files to documents: API pages made of docstrings, and functions and classes as code. Nothing is imported."""

import ast
import gc
import textwrap
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

MIN_DOCSTRING_CHARS = 120
MIN_CODE_CHARS = 200
MAX_CODE_CHARS = 4_000

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Passage:
    """A piece of a file, before it becomes a document."""

    domain: str
    text: str
    meta: dict[str, str]


def read_python(source: str, module: str) -> Iterator[Passage]:
    """API pages and code of one module, in file order. A file that does not parse yields nothing."""
    source = source.replace("\r\n", "\n").replace("\r", "\n")
    was_collecting = gc.isenabled()
    gc.disable()  # a tree has no cycles, and looking for them takes two fifths of the time
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of other people's code: invalid escapes and the like
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    finally:
        if was_collecting:
            gc.enable()
    lines = source.split("\n")  # not splitlines(): a form feed ends no line of Python
    if page := _docstring(tree):
        yield Passage("api", f"{module}\n\n{page}", {"symbol": module, "module": module})
    for node in tree.body:
        if isinstance(node, Definition):
            yield from _definition(node, lines, module)


def _definition(node: Definition, lines: list[str], module: str) -> Iterator[Passage]:
    symbol = f"{module}.{node.name}"
    pages = [f"{symbol}{_signature(node)}\n\n{text}"] if (text := _docstring(node)) else []
    if isinstance(node, ast.ClassDef):
        for child in node.body:
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and (text := _docstring(child)):
                pages.append(f"{node.name}.{child.name}{_signature(child)}\n\n{text}")
    if pages:
        yield Passage("api", "\n\n\n".join(pages), {"symbol": symbol, "module": module})
    first = min([node.lineno, *(d.lineno for d in node.decorator_list)]) - 1
    code = textwrap.dedent("\n".join(lines[first : node.end_lineno]))
    if MIN_CODE_CHARS <= len(code) <= MAX_CODE_CHARS:
        yield Passage("code", code, {"symbol": symbol, "module": module})


def _signature(node: Definition) -> str:
    return "" if isinstance(node, ast.ClassDef) else f"({ast.unparse(node.args)})"


def _docstring(node: ast.Module | Definition) -> str:
    text = ast.get_docstring(node) or ""
    return text if len(text) >= MIN_DOCSTRING_CHARS else ""
