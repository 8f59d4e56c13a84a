"""Laws of the language filter."""

import pytest

from stages.filters.language import LanguageFilter
from tests.support.corpora import document


@pytest.mark.parametrize("lang", ["en", "zh", "code"])
def test_the_wanted_languages_pass(lang):
    assert LanguageFilter().reject_reason(document("x", lang=lang)) is None


@pytest.mark.parametrize("lang", ["de", "und", ""])
def test_any_other_is_rejected(lang):
    assert LanguageFilter().reject_reason(document("x", lang=lang)) == "language_not_wanted"


def test_the_config_says_which_are_wanted():
    assert LanguageFilter(languages=("de",)).reject_reason(document("x", lang="de")) is None
