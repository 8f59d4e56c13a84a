"""Near-duplicate documents: MinHash with LSH bands, every candidate pair verified by its exact Jaccard similarity.

A token is one ideograph, kana or hangul syllable, or one run of other word characters, lower-cased; a shingle is
`SHINGLE_TOKENS` tokens in a row. Texts with fewer tokens have no shingles and are never near-duplicates (otherwise they
would all be equal). Two texts that share a band of their sketches are candidates; at Jaccard J that happens with
probability 1 - (1 - J^rows)^bands (Broder 1997; Leskovec et al., Mining of Massive Datasets, 3.4).
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise

import numpy as np
import numpy.typing as npt

SHINGLE_TOKENS = 5
MAX_BUCKET_PAIRWISE = 32  # a larger bucket is compared with pivots and neighbours only, and reported
_NUM_PIVOTS = 8
_SKETCH_CHUNK = 1 << 20
_SEPARATE = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"  # one token each
_TOKEN = re.compile(rf"[{_SEPARATE}]|[^\W{_SEPARATE}]+")

Hashes = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class NearDuplicates:
    """What was found: `twin_of[i]` is the kept text that covers the removed text i."""

    twin_of: dict[int, int]
    num_candidates: int
    num_verified: int
    num_capped_buckets: int


@dataclass
class _Vocabulary:
    """A 64-bit hash a distinct token; hashing each distinct token once is what makes Python fast enough."""

    hashes: dict[str, int] = field(default_factory=dict)

    def of(self, tokens: list[str]) -> Hashes:
        for token in tokens:
            if token not in self.hashes:
                digest = hashlib.blake2b(token.encode("utf-8", "surrogatepass"), digest_size=8).digest()
                self.hashes[token] = int.from_bytes(digest, "little")
        return np.fromiter((self.hashes[t] for t in tokens), dtype=np.uint64, count=len(tokens))


def shingle_sets(texts: Sequence[str]) -> list[Hashes]:
    """The sorted distinct shingle hashes of each text."""
    vocabulary = _Vocabulary()
    weights = _random_odd(SHINGLE_TOKENS, seed=1)
    sets = []
    for text in texts:
        tokens = vocabulary.of(_TOKEN.findall(text.lower()))
        num_shingles = len(tokens) - SHINGLE_TOKENS + 1
        if num_shingles < 1:
            sets.append(np.empty(0, dtype=np.uint64))
            continue
        mixed = np.zeros(num_shingles, dtype=np.uint64)
        for i in range(SHINGLE_TOKENS):
            mixed += _mix(tokens[i : i + num_shingles]) * weights[i]
        sets.append(np.unique(_mix(mixed)))
    return sets


def jaccard(a: Hashes, b: Hashes) -> float:
    """|A and B| / |A or B| of two sorted sets; 0 when both are empty."""
    num_shared = len(np.intersect1d(a, b, assume_unique=True))
    num_all = len(a) + len(b) - num_shared
    return num_shared / num_all if num_all else 0.0


def find_near_duplicates(
    texts: Sequence[str], *, min_jaccard: float = 0.8, num_bands: int = 20, rows_per_band: int = 6
) -> NearDuplicates:
    """Which texts to remove so that no verified pair of near-duplicates is kept twice.

    Greedy in the order of (more shingles first, then position): a text is kept unless a kept text covers it. So every
    removed text has a kept twin with Jaccard >= `min_jaccard`, which a transitive closure does not give.
    """
    sets = shingle_sets(texts)
    candidates, num_capped = _candidate_pairs(sets, num_bands, rows_per_band)
    neighbours: dict[int, list[int]] = {}
    num_verified = 0
    for a, b in sorted(candidates):
        if jaccard(sets[a], sets[b]) >= min_jaccard:
            num_verified += 1
            neighbours.setdefault(a, []).append(b)
            neighbours.setdefault(b, []).append(a)
    twin_of: dict[int, int] = {}
    kept: set[int] = set()
    for i in sorted(neighbours, key=lambda i: (-len(sets[i]), i)):
        covering = [j for j in neighbours[i] if j in kept]
        if covering:
            twin_of[i] = min(covering)
        else:
            kept.add(i)
    return NearDuplicates(twin_of, len(candidates), num_verified, num_capped)


def _candidate_pairs(sets: list[Hashes], num_bands: int, rows_per_band: int) -> tuple[set[tuple[int, int]], int]:
    with_shingles = np.array([i for i, s in enumerate(sets) if len(s)], dtype=np.int64)
    if len(with_shingles) == 0:
        return set(), 0
    sketches = _sketch([sets[i] for i in with_shingles], num_bands * rows_per_band)
    weights = _random_odd(rows_per_band, seed=3)
    pairs: set[tuple[int, int]] = set()
    num_capped = 0
    for band in range(num_bands):
        rows = sketches[:, band * rows_per_band : (band + 1) * rows_per_band]
        keys = _mix((_mix(rows) * weights).sum(axis=1, dtype=np.uint64))
        order = np.argsort(keys, kind="stable")
        edges = np.flatnonzero(np.diff(keys[order])) + 1
        for bucket in np.split(with_shingles[order], edges):
            if len(bucket) > 1:
                num_capped += len(bucket) > MAX_BUCKET_PAIRWISE
                pairs.update(_bucket_pairs(bucket.tolist()))
    return pairs, num_capped


def _bucket_pairs(bucket: list[int]) -> list[tuple[int, int]]:
    if len(bucket) <= MAX_BUCKET_PAIRWISE:
        return list(combinations(bucket, 2))
    pivots = [(pivot, i) for k, pivot in enumerate(bucket[:_NUM_PIVOTS]) for i in bucket[k + 1 :]]
    return pivots + list(pairwise(bucket))


def _sketch(sets: list[Hashes], num_hashes: int) -> Hashes:
    """MinHash sketches [texts, num_hashes]: the least value of each random hash function over each set."""
    multipliers, offsets = _random_odd(num_hashes, seed=5), _random_odd(num_hashes, seed=7)
    sketches = np.empty((len(sets), num_hashes), dtype=np.uint64)
    first = 0
    while first < len(sets):
        last, size = first, 0
        while last < len(sets) and (size == 0 or size + len(sets[last]) <= _SKETCH_CHUNK):
            size += len(sets[last])
            last += 1
        flat = np.concatenate(sets[first:last])
        starts = np.cumsum([0, *(len(s) for s in sets[first : last - 1])])
        for k in range(num_hashes):
            values = (flat * multipliers[k] + offsets[k]) >> np.uint64(32)
            sketches[first:last, k] = np.minimum.reduceat(values, starts)
        first = last
    return sketches


def _mix(x: Hashes) -> Hashes:
    """The finaliser of SplitMix64 (Steele et al. 2014): every input bit changes every output bit."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _random_odd(count: int, seed: int) -> Hashes:
    return np.random.default_rng(seed).integers(0, 2**64, count, dtype=np.uint64) | np.uint64(1)
