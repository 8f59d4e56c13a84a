"""Laws of near-duplicate search, against an exact all-pairs join."""

import random
import re
from itertools import combinations

import pytest

from stages.minhash import MAX_BUCKET_PAIRWISE, find_near_duplicates, jaccard, shingle_sets

WORDS = [f"word{i}" for i in range(400)]
HAN = [chr(0x4E00 + i) for i in range(400)]


def naive_shingles(text: str) -> set[tuple[str, ...]]:
    """The definition, on tokens instead of hashes."""
    tokens = re.findall(r"[\u4e00-\u9fff]|[^\W\u4e00-\u9fff]+", text.lower())
    return {tuple(tokens[i : i + 5]) for i in range(len(tokens) - 4)}


def naive_jaccard(a: str, b: str) -> float:
    x, y = naive_shingles(a), naive_shingles(b)
    return len(x & y) / len(x | y) if x | y else 0.0


def corpus(seed: int, alphabet: list[str], joint: str) -> list[str]:
    """Originals with copies that differ in a few places, so that similarities spread over 0.3 to 1."""
    rng = random.Random(seed)
    texts = []
    for _ in range(30):
        tokens = rng.choices(alphabet, k=rng.randint(30, 120))
        texts.append(joint.join(tokens))
        for _ in range(rng.randint(0, 4)):
            copy = list(tokens)
            for _ in range(rng.randint(0, 5)):
                copy[rng.randrange(len(copy))] = rng.choice(alphabet)
            texts.append(joint.join(copy))
    rng.shuffle(texts)
    return texts


@pytest.mark.parametrize(("alphabet", "joint"), [(WORDS, " "), (HAN, "")], ids=["english", "chinese"])
@pytest.mark.parametrize("seed", range(3))
def test_every_removed_text_has_a_kept_twin_and_no_two_kept_texts_are_near(seed, alphabet, joint):
    texts = corpus(seed, alphabet, joint)
    removed = find_near_duplicates(texts).twin_of
    assert removed
    for i, twin in removed.items():
        assert twin not in removed
        assert naive_jaccard(texts[i], texts[twin]) >= 0.8
    kept = [t for i, t in enumerate(texts) if i not in removed]
    missed = [(a, b) for a, b in combinations(kept, 2) if naive_jaccard(a, b) >= 0.9]
    assert missed == []


@pytest.mark.parametrize(("alphabet", "joint"), [(WORDS, " "), (HAN, "")], ids=["english", "chinese"])
def test_jaccard_of_hashes_equals_jaccard_of_tokens(alphabet, joint):
    texts = corpus(9, alphabet, joint)[:40]
    sets = shingle_sets(texts)
    for (a, x), (b, y) in combinations(zip(texts, sets, strict=True), 2):
        assert jaccard(x, y) == pytest.approx(naive_jaccard(a, b), abs=1e-12)


def test_texts_too_short_for_a_shingle_never_collapse_into_one():
    assert find_near_duplicates(["a b", "c d", "", "a b", "。。。"]).twin_of == {}


def test_the_result_does_not_depend_on_what_else_is_in_the_corpus():
    texts = corpus(1, WORDS, " ")
    alone = find_near_duplicates(texts).twin_of
    with_others = find_near_duplicates(texts + corpus(2, HAN, "")).twin_of
    assert {i: t for i, t in with_others.items() if i < len(texts)} == alone


def test_a_large_bucket_is_capped_reported_and_still_resolved():
    texts = ["the same boilerplate text with a few words " * 3] * (3 * MAX_BUCKET_PAIRWISE)
    found = find_near_duplicates(texts)
    assert found.num_capped_buckets > 0
    assert len(found.twin_of) == len(texts) - 1
