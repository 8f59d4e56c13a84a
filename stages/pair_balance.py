"""Choosing pairs so that a cheap rule cannot tell the better answer: not its length, not how often it is right.

Without it a reward model learns that the answer which the policy overuses is bad, wherever it is given, and PPO then
overuses another one.
"""

import random
from collections.abc import Sequence


def balanced_by_length(length_gains: Sequence[int], rng: random.Random) -> list[int]:
    """Positions to keep, ascending: as many with gain +d as with -d for every d, and all with gain 0."""
    kept = [position for position, gain in enumerate(length_gains) if gain == 0]
    for size in sorted({abs(gain) for gain in length_gains} - {0}):
        longer = [position for position, gain in enumerate(length_gains) if gain == size]
        shorter = [position for position, gain in enumerate(length_gains) if gain == -size]
        count = min(len(longer), len(shorter))
        kept += rng.sample(longer, count) + rng.sample(shorter, count)
    return sorted(kept)


def balanced_by_label(edges: Sequence[tuple[str, str]]) -> list[int]:
    """Positions of the (rejected, chosen) pairs to keep, ascending: every label wins as often as it loses.

    The pairs are the edges of a graph; the kept ones are edge-disjoint cycles, found by walking until a label comes
    again and cutting the cycle out. A walk that cannot go on drops its last edge. The result cannot be extended.
    """
    waiting: dict[str, list[int]] = {}
    for position in reversed(range(len(edges))):
        waiting.setdefault(edges[position][0], []).append(position)
    kept: list[int] = []
    for start in sorted(waiting):
        walk: list[int] = []  # edges from `start` to where the walk is
        place_of = {start: 0}
        here = start
        while True:
            if waiting.get(here):
                walk.append(waiting[here].pop())
                here = edges[walk[-1]][1]
                if here in place_of:
                    cycle = walk[place_of[here] :]
                    for position in cycle[:-1]:
                        del place_of[edges[position][1]]
                    kept += cycle
                    del walk[place_of[here] :]
                else:
                    place_of[here] = len(walk)
            elif walk:
                del place_of[here]
                here = edges[walk.pop()][0]
            else:
                break
    return sorted(kept)
