"""Laws of turning Python files into API pages and code."""

import ast
import gc

import pytest

from stages.python_source import MAX_CODE_CHARS, MIN_CODE_CHARS, read_python

DOC = "Say in some detail what this is good for, so that a reader learns how to call it. " * 2
MODULE = f'''"""{DOC}"""
import os


@decorated
def first(a, b: int = 2, *rest, key=None, **others):
    """{DOC}"""
    return [a, b, rest, key, others, "a string that makes it long enough to be a document of its own"]


class Second:
    """{DOC}"""

    def method(self, x):
        """{DOC}"""
        return x

    def undocumented(self):
        return 1
'''


def code_of(source: str) -> list[str]:
    return [p.text for p in read_python(source, "m") if p.domain == "code"]


def test_a_module_gives_pages_of_its_docstrings_with_signatures():
    pages = [p for p in read_python(MODULE, "pkg.mod") if p.domain == "api"]
    assert [p.meta["symbol"] for p in pages] == ["pkg.mod", "pkg.mod.first", "pkg.mod.Second"]
    assert pages[1].text.startswith("pkg.mod.first(a, b: int=2, *rest, key=None, **others)\n\nSay in some detail")
    assert "Second.method(self, x)" in pages[2].text
    assert "undocumented" not in pages[2].text


def test_code_is_whole_definitions_that_parse_again():
    pieces = code_of(MODULE)
    assert [ast.parse(piece).body[0].name for piece in pieces] == ["first", "Second"]
    assert pieces[0].startswith("@decorated\ndef first")
    assert all(piece in MODULE for piece in pieces)


@pytest.mark.parametrize("separator", ["\x0c", "\x0b", "\x1c", "\x85", "\u2028"])
def test_only_pythons_own_line_ends_count_as_lines(separator):
    source = f'x = """{separator}"""\n' + MODULE
    assert code_of(source) == code_of(MODULE)


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_line_ends_of_other_systems_give_the_same_documents(end):
    assert list(read_python(MODULE.replace("\n", end), "m")) == list(read_python(MODULE, "m"))


@pytest.mark.parametrize("source", ["def f(:\n", "print 'python 2'\n", "x = '\0'", "(" * 5_000 + ")" * 5_000, ""])
def test_a_file_that_does_not_parse_gives_nothing(source):
    assert list(read_python(source, "m")) == []


def test_other_peoples_warnings_are_not_shown(recwarn):
    list(read_python("x = '\\d'\n" + MODULE, "m"))
    assert not recwarn.list


@pytest.mark.parametrize("source", [MODULE, "def f(:"])
def test_garbage_collection_is_as_it_was(source):
    list(read_python(source, "m"))
    assert gc.isenabled()


def test_code_that_is_too_short_or_too_long_is_left_out():
    short, long = "def f():\n    return 1\n", "def f():\n" + "    x = 1\n" * (MAX_CODE_CHARS // 8)
    assert len(short) < MIN_CODE_CHARS
    assert code_of(short + long) == []
