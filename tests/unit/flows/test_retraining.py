"""What follows from a verdict. (That models are trained and compared for real: tests/e2e/test_retraining.py.)"""

from pathlib import Path

import pytest

from flows import champion, retraining
from flows.launch import StageResult
from flows.recipes import tiny
from flows.retraining import Retraining, RetrainRequest
from flows.summary import Summary
from infra.artifacts import ArtifactRef, Decision, SourceManifest
from infra.decisions import decisions
from infra.errors import RetryableError
from infra.lineage import Lineage
from infra.settings import Settings
from infra.stores.local import LocalStore
from stages.decision_file import DECISION_NAME, DecisionFile
from tests.support import championed
from tests.support.championed import record, record_champion, ref

CHALLENGER = ref("model", "b")


class Registry:
    """The registry's aliases, in memory."""

    def __init__(self) -> None:
        self.champion: ArtifactRef | None = championed.MODEL
        self.said: dict[str, str] = {}

    def resolve(self, _alias: str) -> ArtifactRef | None:
        return self.champion

    def promote_digest(self, digest: str) -> None:
        self.champion = ref("model", digest[0])

    def withdraw(self) -> None:
        self.champion = championed.MODEL

    def describe(self, _digest: str, _text: str, tags: dict[str, str]) -> None:
        self.said = tags


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    registry = Registry()
    monkeypatch.setattr(champion, "champion_model", lambda _settings: registry.champion)
    monkeypatch.setattr(retraining, "open_registry", lambda _settings: registry)
    return registry


class Night:
    """One retraining around artifacts of a few bytes."""

    def __init__(self, home: Path, sources: str = "f", **options: bool) -> None:
        self.settings = Settings(home=home)
        self.store = LocalStore(self.settings.store_dir)
        self.lineage = Lineage(self.settings.resolved_lineage_url())
        if self.lineage.find_maker(championed.CORPUS.digest) is None:
            record_champion(self.lineage)
        request = RetrainRequest("tiny", tiny(), 0, {}, 0.0, **options)
        manifest = SourceManifest(digest=sources * 64, num_bytes=1)
        self.retraining = Retraining(request, manifest, self.settings, self.store, self.lineage)

    def conclude(self, verdict: str, *notes: str):
        """As if every stage had run and come to this verdict."""
        folder = self.settings.root / f"decision-{verdict}"
        folder.mkdir(parents=True, exist_ok=True)
        decision = DecisionFile(
            champion="a" * 64, challenger="b" * 64, verdict=verdict, reason="Because.", alpha=0.05, comparisons=(),
            failed_gates=(), num_documents_left_out=0, num_instructions_left_out=0,
        )  # fmt: skip
        (folder / DECISION_NAME).write_text(decision.model_dump_json())
        made = {"decision": self.store.put(folder, Decision)}
        self.retraining._results = [
            StageResult(label, label, "k", False, 1, 1, found)
            for label, found in (
                ("release", record("release", {"model": CHALLENGER}, {"release": championed.RELEASE})),
                ("challenge", record("challenge", {}, made)),
            )
        ]
        summary = Summary.model_construct(lifecycle="life", gates_passed=True, failed_gates=[], notes=list(notes))
        return self.retraining.conclude(summary)

    def live(self, monkeypatch: pytest.MonkeyPatch, problem: str) -> None:
        """What the live check will find."""

        class Check:
            def problem(self, _directory: Path, _settings: Settings) -> str:
                return problem

        monkeypatch.setattr(self.retraining, "_live_check", Check)
        monkeypatch.setattr(
            self.store,
            "get",
            lambda found: self.settings.store_dir if found == CHALLENGER else LocalStore.get(self.store, found),
        )


def test_the_champions_own_documents_are_nothing_new_unless_it_is_forced(registry: Registry, tmp_path: Path):
    row = Night(tmp_path, sources=championed.SOURCES[0]).retraining.settled()
    assert (row.outcome, row.reason) == ("nothing_new", "The documents are those of the champion model:aaaaaaaaaaaa.")
    assert Night(tmp_path, sources=championed.SOURCES[0], is_forced=True).retraining.settled() is None
    assert Night(tmp_path).retraining.settled() is None


@pytest.mark.parametrize("verdict", ["lost", "undecided", "gates_failed", "unchanged"])
def test_whoever_does_not_win_changes_nothing_and_is_not_tried_again(registry: Registry, tmp_path: Path, verdict: str):
    row = Night(tmp_path).conclude(verdict)
    assert (row.outcome, row.reason, row.lifecycle_id) == ("kept", "Because.", "life")
    assert registry.champion == championed.MODEL and registry.said["glmflow.verdict"] == verdict
    assert "decided on before" in Night(tmp_path).retraining.settled().reason
    assert row.frozen["corpus"]["digest"] == championed.CORPUS.digest


def test_a_winner_is_promoted_and_its_documents_are_not_tried_again(registry, tmp_path: Path, monkeypatch):
    night = Night(tmp_path)
    night.live(monkeypatch, "")
    row = night.conclude("won")
    assert (row.outcome, row.reason) == ("promoted", "Because. model:bbbbbbbbbbbb is the champion.")
    assert registry.champion.digest == CHALLENGER.digest
    assert [one.outcome for one in decisions(night.lineage)] == ["promoted"]


def test_a_winner_that_fails_live_is_rolled_back(registry: Registry, tmp_path: Path, monkeypatch):
    night = Night(tmp_path)
    night.live(monkeypatch, "live check: want answers, got none")
    row = night.conclude("won")
    assert (row.outcome, registry.champion) == ("rolled_back", championed.MODEL)
    assert row.reason.endswith("Promoted and rolled back; live check: want answers, got none.")


def test_nothing_is_decided_while_the_release_is_not_registered(registry: Registry, tmp_path: Path):
    night = Night(tmp_path)
    with pytest.raises(RetryableError, match="want its release registered, got tracking: 3 entries"):
        night.conclude("won", "tracking: 3 entries could not be delivered")
    assert decisions(night.lineage) == () and registry.champion == championed.MODEL


def test_the_run_that_trains_promotes_nothing(registry: Registry, tmp_path: Path):
    request = Night(tmp_path).retraining.run_request
    assert request.promotes is False and request.steps[-1].label == "challenge"
