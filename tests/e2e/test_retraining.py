"""Retraining for real: a small corpus, the same again, a better one, a worse one, with `glmflow retrain tiny`."""

import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flows.live_check import LiveCheck, Question
from flows.promotion import promote_winner
from infra.artifacts import ArtifactRef
from infra.decisions import decisions
from infra.lineage import Lineage
from infra.registry import open_registry
from infra.settings import Settings
from infra.stores.opening import open_store
from tests.support.lifecycle_command import glmflow, new_home, start
from tests.support.topics import paragraphs, write_topics

pytestmark = pytest.mark.nightly
NUM_FEW = 200  # of about 800: the better corpus is more than three times larger
# So few documents decide something only if many of them are held out.
MORE_HELD_OUT = ("--set", "pack.heldout_ratio=0.4", "--set", "instructions.heldout_ratio=0.4",
                 "--set", "pack.max_heldout_bytes=60000")  # fmt: skip
TIMEOUT_S = 1800


@dataclass
class Nights:
    """What came of each night, in their order."""

    settings: Settings
    first: dict[str, Any]
    same: dict[str, Any]
    num_stage_runs: list[int]
    drifted: tuple[int, str]
    at_once: list[dict[str, Any]]
    worse: dict[str, Any]

    def aliases(self) -> dict[str, str | None]:
        registry = open_registry(self.settings)
        found = {name: registry.resolve(name) for name in ("champion", "candidate", "previous")}
        return {name: ref.digest if ref else None for name, ref in found.items()}


def scrambled(text: str, rng: random.Random) -> str:
    """The letters of every word, and the words, in another order: as long as before, and no language."""
    words = text.split()
    rng.shuffle(words)
    return " ".join("".join(rng.sample(word, len(word))) for word in words)


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Nights:
    root, rng = tmp_path_factory.mktemp("retraining"), random.Random(0)
    home, settings = new_home(root / "home"), Settings(home=root / "home")
    texts = paragraphs()
    rng.shuffle(texts)
    few, many = write_topics(root / "few", texts[:NUM_FEW]), write_topics(root / "many", texts)
    worse = write_topics(root / "worse", [scrambled(text, rng) for text in texts])

    def retrain(folder: Path, *more: str) -> dict[str, Any]:
        code, out, err = glmflow(home, "retrain", "tiny", "--json", "--input", str(folder), *MORE_HELD_OUT, *more)
        assert code == 0, err
        return json.loads(out)

    first, num_stage_runs = retrain(few), [num_runs(settings)]
    same = retrain(few)
    num_stage_runs.append(num_runs(settings))
    code, _, err = glmflow(home, "retrain", "tiny", "--json", "--input", str(many), *MORE_HELD_OUT)
    words = ("retrain", "tiny", "--json", "--input", str(many), *MORE_HELD_OUT, "--accept-drift")
    processes = [start(home, *words) for _ in range(2)]
    said = [process.communicate(timeout=TIMEOUT_S) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said
    at_once = [json.loads(out) for out, _ in said]
    return Nights(settings, first, same, num_stage_runs, (code, err), at_once, retrain(worse, "--accept-drift"))


def num_runs(settings: Settings) -> int:
    lineage = Lineage(settings.resolved_lineage_url())
    with lineage.engine.connect() as connection:
        return connection.exec_driver_sql("select count(*) from stage_runs").scalar_one()


def test_the_first_model_that_passes_its_gates_is_the_champion(nights: Nights):
    assert (nights.first["outcome"], nights.first["champion"]) == ("promoted", "")


def test_unchanged_data_does_nothing_and_says_so(nights: Nights):
    assert nights.same["outcome"] == "nothing_new"
    assert nights.same["reason"].startswith("The documents are those of the champion model:")
    assert nights.num_stage_runs[0] == nights.num_stage_runs[1] > 0


def test_a_corpus_that_suddenly_changed_stops_the_run_for_a_person(nights: Nights):
    code, said = nights.drifted
    assert code == 2 and "size_ratio" in said and "--accept-drift" in said and "Traceback" not in said


def test_better_data_promotes_and_two_at_once_promote_once(nights: Nights):
    assert sorted(night["outcome"] for night in nights.at_once) == ["already_promoted", "promoted"]
    decision = nights.at_once[0]["decision"]
    bits = next(one for one in decision["comparisons"] if one["metric"] == "bits_per_byte")
    assert decision["verdict"] == "won" and bits["challenger"] < bits["champion"] and bits["p_value"] < 0.025
    assert decision["num_documents_left_out"] == 0  # they were kept out of the challenger's training
    aliases = nights.aliases()
    assert aliases["champion"] == nights.at_once[0]["challenger"] == nights.at_once[1]["challenger"]
    assert aliases["previous"] == nights.first["challenger"]


def test_worse_data_does_not_promote(nights: Nights):
    assert (nights.worse["outcome"], nights.worse["decision"]["verdict"]) == ("kept", "lost")
    aliases = nights.aliases()
    assert aliases["candidate"] == nights.worse["challenger"] != aliases["champion"]


def test_every_night_left_its_decision(nights: Nights):
    rows = decisions(Lineage(nights.settings.resolved_lineage_url()))
    assert [row.outcome for row in reversed(rows[:3])][:2].count("promoted") == 1
    assert [row.outcome for row in rows[3:]] == ["drifted", "nothing_new", "promoted"]
    compared = [row.frozen["corpus"]["digest"] for row in rows if row.frozen]
    assert len(compared) == 3 and len(set(compared)) == 1


def test_rollback_restores_and_a_model_that_fails_live_is_rolled_back(nights: Nights):
    settings, before = nights.settings, nights.aliases()
    for _ in range(2):
        code, out, _ = glmflow(settings.home, "rollback")
        assert code == 0
    assert nights.aliases() == before and before["champion"][:12] in out
    registry, lineage = open_registry(settings), Lineage(settings.resolved_lineage_url())
    champion, candidate = registry.resolve("champion"), registry.resolve("candidate")
    question = Question([{"role": "user", "content": "What is 1 + 1?"}], "an answer that it does not give")
    check = LiveCheck([question] * 3, 4)
    done = promote_winner(
        candidate, champion, registry, lineage, lambda: check.problem(served(settings, candidate), settings)
    )
    assert done.outcome == "rolled_back" and "got 3 of 3 others" in done.reason
    assert nights.aliases()["champion"] == before["champion"]


def served(settings: Settings, model: ArtifactRef) -> Path:
    return open_store(settings).get(model)
