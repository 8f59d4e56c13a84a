"""Laws of the returns-value task."""

import pytest

from stages.tasks.returns_value import ReturnsValueTask, functions_in
from tests.support.corpora import document

PADDING = "def yes_one():\n    return 1\n\ndef no_one():\n    pass\n"


def answer_of(code: str) -> str | None:
    """The answer for the first function of `code`; the padding gives each answer a partner."""
    first = functions_in(document(code, domain="code"))[0].name
    items = ReturnsValueTask().build([document(code, domain="code"), document(PADDING, domain="code")])
    answers = [item.check.answer for item in items if f"def {first}(" in item.messages[0].content]
    return answers[0] if answers else None


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        ("return x", "yes"),
        ("return 0", "yes"),
        ("return", "no"),
        ("return None", "no"),
        ("pass", "no"),
        ("if x:\n        return x\n    return None", "yes"),
        ("if x:\n        return None\n    return x", "yes"),
        ("for y in x:\n        with y:\n            return y", "yes"),
        ("def inner():\n        return 1\n    inner()", "no"),
        ("x(lambda: 1)", "no"),
        ("class C:\n        def m(self):\n            return 1", "no"),
        ("yield x", None),
    ],
)
def test_a_function_returns_a_value_when_one_of_its_own_returns_has_one(body, answer):
    assert answer_of(f"def outer(x):\n    {body}\n") == answer


def test_docstring_decorators_and_annotation_do_not_give_it_away():
    code = '@cache\ndef outer(x) -> int:\n    """Returns a number."""\n    return x\n'
    items = ReturnsValueTask().build([document(code + "\ndef no():\n    pass\n", domain="code")])
    assert next(iter(items)).messages[0].content == "def outer(x):\n    return x\n\nDoes this function return a value?"


def test_both_answers_are_equally_frequent():
    code = "".join(f"def f{i}():\n    return {i}\n\n" for i in range(9)) + "def g():\n    pass\n"
    answers = [item.check.answer for item in ReturnsValueTask().build([document(code, domain="code")])]
    assert sorted(answers) == ["no", "yes"]


@pytest.mark.parametrize("text", ["def f(:", "x = '\0'", "(" * 5_000, "x = '\\d'"])
def test_code_that_does_not_parse_has_no_functions_and_shows_no_warning(text, recwarn):
    assert functions_in(document(text, domain="code")) == []
    assert not recwarn.list


def test_only_code_is_asked_about():
    assert functions_in(document(PADDING, domain="doc")) == []
