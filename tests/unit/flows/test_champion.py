"""The champion is followed back to its documents, and its frozen sets stay until they are frozen again."""

from pathlib import Path

import pytest

from flows import champion
from flows.champion import FrozenSets, champion_model, find_champion, frozen_sets
from infra.artifacts import ArtifactRef
from infra.decisions import DecisionRow, save_decision
from infra.errors import BadSpecError
from infra.lineage import Lineage, now
from infra.settings import Settings
from tests.support import championed
from tests.support.championed import record_champion, ref


@pytest.fixture
def lineage(tmp_path: Path) -> Lineage:
    return Lineage(f"sqlite:///{tmp_path}/lineage.db")


def become(model: ArtifactRef, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(champion, "champion_model", lambda _settings: model)


def test_an_empty_home_has_no_champion(lineage: Lineage, tmp_path: Path):
    assert champion_model(Settings(home=tmp_path)) is None
    assert find_champion(Settings(home=tmp_path), lineage) is None


def test_it_is_followed_back_to_its_documents(lineage: Lineage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    record_champion(lineage)
    become(championed.MODEL, monkeypatch)
    found = find_champion(Settings(home=tmp_path), lineage)
    assert (found.model, found.corpus, found.clean) == (championed.MODEL, championed.CORPUS, championed.CLEAN)
    assert (found.tokenizer, found.instructions) == (championed.TOKENIZER, championed.INSTRUCTIONS)
    assert (found.sources, found.pack) == (championed.SOURCES, championed.PACK)


def test_one_from_elsewhere_is_refused(lineage: Lineage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    record_champion(lineage)
    become(ref("model", "b"), monkeypatch)
    with pytest.raises(BadSpecError, match="champion model:bbbbbbbbbbbb: want a model whose release is in the lineage"):
        find_champion(Settings(home=tmp_path), lineage)


def test_the_frozen_sets_stay_until_they_are_frozen_again(
    lineage: Lineage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    record_champion(lineage)
    become(championed.MODEL, monkeypatch)
    found = find_champion(Settings(home=tmp_path), lineage)
    own = FrozenSets(championed.CORPUS, championed.INSTRUCTIONS, championed.PACK)
    assert frozen_sets(found, lineage, freezes_again=False) == own
    first = FrozenSets(ref("deduped_corpus", "8"), ref("instructions", "9"), championed.PACK)
    for frozen in (first.as_json(), {}):
        row = DecisionRow(
            decided_at=now(), lifecycle_id="", recipe="tiny", sources="", champion="", challenger="", outcome="kept",
            reason="", decision={}, frozen=frozen,
        )  # fmt: skip
        save_decision(lineage, row)
    assert frozen_sets(found, lineage, freezes_again=False) == first
    assert frozen_sets(found, lineage, freezes_again=True) == own
