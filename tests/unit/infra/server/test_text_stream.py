"""Laws of turning tokens into text piece by piece."""

import random

import pytest

from infra.server.text_stream import TextStream


def decode(token_ids):
    return bytes(token_ids).decode(errors="replace")


def stream(data: bytes, stops=()) -> list[str]:
    text_stream = TextStream(decode, stops)
    pieces = []
    for token in data:
        pieces.append(text_stream.push(token))
        if text_stream.is_stopped:
            break
    return [*pieces, text_stream.finish()]


def expected(text: str, stops) -> str:
    cuts = [text.find(stop) for stop in stops if stop in text]
    return text[: min(cuts)] if cuts else text


def test_no_piece_holds_half_a_character():
    pieces = stream("a\u00e9\u4f60\U0001f600b".encode())
    assert [p for p in pieces if p] == ["a", "\u00e9", "\u4f60", "\U0001f600", "b"]


@pytest.mark.parametrize("seed", range(200))
def test_joined_pieces_are_the_decoded_text_cut_before_the_first_stop_string(seed: int):
    rng = random.Random(seed)
    alphabet = ["a", "b", "\u00e9", "\u4f60", "\ufffd"]
    text = "".join(rng.choices(alphabet, k=rng.randint(0, 30)))
    stops = ["".join(rng.choices(alphabet, k=rng.randint(1, 4))) for _ in range(rng.randint(0, 3))]
    assert "".join(stream(text.encode(), stops)) == expected(text, stops)


@pytest.mark.parametrize("seed", range(100))
def test_joined_pieces_of_any_bytes_are_the_bytes_decoded_at_once(seed: int):
    data = random.Random(seed).randbytes(40)
    assert "".join(stream(data)) == decode(data)


def test_text_that_may_begin_a_stop_string_is_held_back_until_it_is_decided():
    assert stream(b"xab", ["abc"]) == ["x", "", "", "ab"]
    assert stream(b"xabz", ["abc"])[:4] == ["x", "", "", "abz"]


def test_nothing_follows_a_stop_string():
    text_stream = TextStream(decode, ["!"])
    assert text_stream.push(ord("!")) == ""
    assert text_stream.is_stopped
    assert text_stream.finish() == ""


def test_a_character_that_never_completes_is_given_at_the_end():
    assert "".join(stream("\u4f60".encode()[:2])) == "\ufffd"
