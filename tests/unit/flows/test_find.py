"""What a person types is understood or refused with what would have been."""

from pathlib import Path

import pytest

from flows import find
from flows.find import KINDS, find_artifact, find_model
from infra.artifacts import Model, RawCorpus
from infra.errors import ArtifactMissingError, BadSpecError
from infra.settings import Settings
from infra.stores.local import LocalStore


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home")


@pytest.fixture
def model(settings: Settings, tmp_path: Path) -> Model:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    LocalStore(settings.store_dir).put(folder, RawCorpus)
    return LocalStore(settings.store_dir).put(folder, Model)


def test_a_digest_prefix_with_or_without_its_kind_is_the_artifact(settings: Settings, model: Model):
    assert find_artifact(model.short, settings).model_dump() == model.model_dump()
    assert find_artifact(model.digest[:6], settings, ("model",)).model_dump() == model.model_dump()
    assert find_model(model.digest[:4], settings) == LocalStore(settings.store_dir).get(model)


def test_a_model_with_a_changed_byte_is_not_served(settings: Settings, model: Model):
    config = LocalStore(settings.store_dir).get(model) / "config.json"
    config.write_text("[]")  # as long as before
    with pytest.raises(ArtifactMissingError, match=r"has changed bytes; delete .* and re-run its stage"):
        find_model(model.digest[:6], settings)
    config.write_text("")
    with pytest.raises(ArtifactMissingError, match=r"missing config\.json"):
        find_model(model.digest[:6], settings)


def test_a_directory_is_a_model_when_it_looks_like_one(settings: Settings, tmp_path: Path, model: Model):
    assert find_model(str(tmp_path / "model"), settings) == tmp_path / "model"
    with pytest.raises(BadSpecError, match=r"want a Hugging Face model with its config\.json"):
        find_model(str(tmp_path), settings)


def test_an_alias_is_asked_of_the_registry(settings: Settings, model: Model, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(find, "resolve", lambda alias, given: model if alias == "champion" else None)
    assert find_model("champion", settings).name == model.digest


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ab", "4 or more characters of a digest"),
        ("champoin", "want champion, candidate, previous, or 4 or more"),
        ("modle:abcd", "alone or after one of source_manifest:, raw_corpus:"),
        ("abcdef", "want an artifact in .*, got none; `glmflow runs` lists"),
        ("raw_corpus:abcd", "got none"),
    ],
)
def test_what_is_not_understood_says_what_would_be(settings: Settings, text: str, message: str):
    with pytest.raises(BadSpecError, match=message):
        find_artifact(text, settings)


@pytest.mark.parametrize("text", ["../../etc", "../../etc/passwd", "/etc", "model:../..", "..:abcd", "model:*", "****"])
def test_a_name_leads_to_no_other_file(settings: Settings, model: Model, text: str):
    with pytest.raises(BadSpecError, match=r"want (champion, candidate, previous, or|a Hugging Face model)"):
        find_model(text, settings)


def test_two_artifacts_with_one_prefix_are_told_apart_by_kind(settings: Settings, model: Model):
    with pytest.raises(BadSpecError, match="want one artifact, got 2"):
        find_artifact(model.digest[:8], settings)
    assert find_artifact(f"raw_corpus:{model.digest[:8]}", settings).kind == "raw_corpus"


def test_every_kind_of_artifact_is_known():
    assert {"source_manifest", "tokens", "model", "quantized_model", "release"} <= set(KINDS)
