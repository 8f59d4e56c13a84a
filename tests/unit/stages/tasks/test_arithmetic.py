"""Laws of the arithmetic task."""

import re

from stages.answers import is_correct
from stages.tasks.arithmetic import ArithmeticTask

ITEMS = list(ArithmeticTask(max_number=6).build([]))


def test_every_answer_is_the_result_of_the_question():
    for item in ITEMS:
        a, sign, b = re.search(r"(\d+) ([+-]) (\d+)", item.messages[0].content).groups()
        result = int(a) + int(b) if sign == "+" else int(a) - int(b)
        assert is_correct(item.check, str(result))
        assert not is_correct(item.check, str(result + 1))
        assert result >= 0


def test_each_question_is_asked_once_in_each_language():
    questions = [(item.lang, item.messages[0].content) for item in ITEMS]
    assert len(set(questions)) == len(questions) == 2 * (7 * 7 + 7 * 8 // 2)
    assert len({item.id for item in ITEMS}) == len(ITEMS)


def test_no_document_is_needed():
    assert {item.doc_id for item in ITEMS} == {""}
