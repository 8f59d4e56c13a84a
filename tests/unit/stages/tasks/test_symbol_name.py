"""Laws of the symbol-name task."""

from stages.tasks.symbol_name import SymbolNameTask
from tests.support.corpora import document


def test_the_answer_is_the_name_and_stands_in_the_question():
    code = "class C:\n    def method(self, x=1):\n        pass\n\nasync def wait_for(y):\n    pass\n"
    items = list(SymbolNameTask().build([document(code, domain="code")]))
    assert sorted(item.check.answer for item in items) == ["method", "wait_for"]
    for item in items:
        assert f"def {item.check.answer}(" in item.messages[0].content
        assert item.check.kind == "exact"


def test_special_methods_and_long_names_are_left_out():
    code = f"def __init__(self):\n    pass\n\ndef {'x' * 25}():\n    pass\n"
    assert list(SymbolNameTask().build([document(code, domain="code")])) == []
