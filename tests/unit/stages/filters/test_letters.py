"""Laws of the letters filter."""

import pytest

from stages.filters.letters import LettersFilter
from tests.support.corpora import CHINESE, CODE, ENGLISH, document


@pytest.mark.parametrize("text", [ENGLISH, CHINESE, CODE.format(1), "ab 12", "文 1"])
def test_text_that_is_half_letters_passes(text):
    assert LettersFilter().reject_reason(document(text)) is None


@pytest.mark.parametrize("text", ["ab 123", "1 2 3", "+---+---+", "0x7f 0x80 0x81"])
def test_numbers_and_drawings_are_rejected(text):
    assert LettersFilter().reject_reason(document(text)) == "fewer_than_min_letters"


def test_space_does_not_count():
    spread = " \n\t".join("ab12")
    assert LettersFilter().reject_reason(document(spread)) is None
