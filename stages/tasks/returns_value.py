"""Does a function return a value? Found by parsing it; its docstring and its return annotation are taken out."""

import ast
import warnings
from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import Field

from stages.records import Document, Instruction
from stages.tasks.base import InstructionTask


class ReturnsValueTask(InstructionTask):
    """`yes` or `no`, as many of each."""

    kind: Literal["returns_value"] = "returns_value"
    phase: int = Field(default=1, ge=0, description="curriculum phase: 0 first")
    max_passage_chars: int = Field(default=420, ge=1, description="longest function asked about, in characters")

    def build(self, documents: Sequence[Document]) -> Iterator[Instruction]:
        """One instruction a function short enough to be shown whole, answers in turn."""
        answers: dict[str, list[Instruction]] = {"yes": [], "no": []}
        for document in documents:
            for function in functions_in(document):
                own = list(_own_nodes(function))
                if any(isinstance(node, ast.Yield | ast.YieldFrom) for node in own):
                    continue  # whether a generator returns what it yields is a matter of words
                code = _shown(function)
                if len(code) <= self.max_passage_chars:
                    answer = "yes" if any(map(_returns_value, own)) else "no"
                    question = f"{code}\n\nDoes this function return a value?"
                    answers[answer].append(self.item(document, question, answer, lang="en"))
        for same_rank in zip(*answers.values(), strict=False):
            yield from same_rank


def functions_in(document: Document) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The functions and methods in a document of code; none where it does not parse."""
    if document.domain != "code":
        return []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of other people's code: invalid escapes and the like
            tree = ast.parse(document.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def _shown(function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    function.returns = None
    function.decorator_list = []
    if ast.get_docstring(function) is not None:
        function.body = function.body[1:] or [ast.Pass()]
    return ast.unparse(function)


def _own_nodes(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.AST]:
    """The nodes of its body, without the bodies of functions and classes inside it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            waiting += ast.iter_child_nodes(node)


def _returns_value(node: ast.AST) -> bool:
    """Whether this is a `return` of something but None."""
    if not isinstance(node, ast.Return) or node.value is None:
        return False
    return not (isinstance(node.value, ast.Constant) and node.value.value is None)
