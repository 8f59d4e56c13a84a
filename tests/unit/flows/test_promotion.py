"""Promotion: once, over the model that was beaten, and undone where the served model is wrong."""

import threading
from pathlib import Path

import pytest

from flows.promotion import promote_winner
from infra.artifacts import ArtifactRef
from infra.lineage import Lineage


def ref(letter: str) -> ArtifactRef:
    return ArtifactRef(kind="model", digest=letter * 64, num_bytes=1)


class Aliases:
    """The registry's aliases, in memory, with the races of a real one."""

    def __init__(self, champion: str | None) -> None:
        self.history = [champion]

    def resolve(self, alias: str) -> ArtifactRef | None:
        assert alias == "champion"
        return ref(self.history[-1]) if self.history[-1] else None

    def promote_digest(self, digest: str) -> ArtifactRef:
        self.history.append(digest[0])
        return ref(digest[0])

    def withdraw(self) -> None:
        self.history.append(self.history[-2])


@pytest.fixture
def lineage(tmp_path: Path) -> Lineage:
    return Lineage(f"sqlite:///{tmp_path}/lineage.db")


def promote(lineage: Lineage, aliases: Aliases, beaten: str | None, problem: str = "") -> str:
    done = promote_winner(ref("b"), ref(beaten) if beaten else None, aliases, lineage, lambda: problem)
    return done.outcome


@pytest.mark.parametrize("beaten", [None, "a"])
def test_the_winner_takes_the_place_of_the_one_it_beat(lineage: Lineage, beaten: str | None):
    aliases = Aliases(beaten)
    assert promote(lineage, aliases, beaten) == "promoted"
    assert aliases.history == [beaten, "b"]


@pytest.mark.parametrize("beaten", [None, "a"])
def test_a_model_that_fails_live_leaves_the_place_as_it_was(lineage: Lineage, beaten: str | None):
    aliases = Aliases(beaten)
    assert promote(lineage, aliases, beaten, "live check: want answers, got none") == "rolled_back"
    assert aliases.history == [beaten, "b", beaten]


@pytest.mark.parametrize("champion", [None, "c"])
def test_a_champion_that_was_not_compared_is_not_replaced(lineage: Lineage, champion: str | None):
    aliases = Aliases(champion)
    assert promote(lineage, aliases, "a") == "superseded"
    assert aliases.history == [champion]


def test_of_two_at_once_one_promotes(lineage: Lineage):
    aliases, outcomes = Aliases("a"), []
    threads = [threading.Thread(target=lambda: outcomes.append(promote(lineage, aliases, "a"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["already_promoted"] * 7 + ["promoted"]
    assert aliases.history == ["a", "b"]
