import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from stages.pair_balance import balanced_by_label, balanced_by_length


def test_longer_and_shorter_are_equally_frequent_at_every_difference():
    gains = [0, 1, 1, -1, 2, -3, -3, 3, -1, 1]
    kept = [gains[position] for position in balanced_by_length(gains, random.Random(0))]
    assert sorted(kept) == [-3, -1, -1, 0, 1, 1, 3]


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("abcd")).filter(lambda e: e[0] != e[1]), max_size=30)
)
def test_every_label_wins_as_often_as_it_loses_and_no_cycle_is_left_out(edges):
    kept = balanced_by_label(edges)
    assert kept == sorted(set(kept))
    assert Counter(edges[i][0] for i in kept) == Counter(edges[i][1] for i in kept)
    left = [edge for i, edge in enumerate(edges) if i not in kept]
    while left:  # peeling off labels without a win or without a loss ends with nothing unless there is a cycle
        losers, winners = {edge[0] for edge in left}, {edge[1] for edge in left}
        peeled = [edge for edge in left if edge[0] in winners and edge[1] in losers]
        assert len(peeled) < len(left)
        left = peeled


def test_two_labels_keep_as_many_pairs_of_each_direction():
    edges = [("yes", "no")] * 5 + [("no", "yes")] * 2
    assert Counter(edges[i] for i in balanced_by_label(edges)) == Counter({("yes", "no"): 2, ("no", "yes"): 2})
