"""Aliases follow the gates: who passes becomes the champion, who was it becomes the previous one."""

import subprocess
import sys
from pathlib import Path

import pytest

from infra.errors import BadSpecError
from infra.registry import MODEL_NAME, ModelRegistry, connect, resolve
from infra.settings import Settings

ROOT = Path(__file__).parents[3]


@pytest.fixture
def registry(tracking_uri: str, tmp_path: Path) -> ModelRegistry:
    client = connect(tracking_uri)
    experiment_id = client.create_experiment("glmflow", artifact_location=(tmp_path / "files").as_uri())
    return ModelRegistry(client, experiment_id)


def release(registry: ModelRegistry, letter: str, *, is_approved: bool, **more: bool) -> None:
    models = [
        {"name": "model", "kind": "model", "digest": letter * 64, "num_bytes": 9, "params": {"bits": "32"}},
        {"name": "int4", "kind": "quantized_model", "digest": "9" * 64, "num_bytes": 2, "params": {"bits": "4"}},
    ]
    run_id = registry._client.create_run(registry._experiment_id).info.run_id
    fields = {"models": models, "released": letter * 64, "is_approved": is_approved, **more}
    registry.register(fields, run_id, f"life-{letter}")


def aliases(registry: ModelRegistry) -> dict[str, str | None]:
    found = {name: registry.resolve(name) for name in ("champion", "candidate", "previous")}
    return {name: ref.digest[0] if ref else None for name, ref in found.items()}


def test_promotion_moves_the_champion_to_previous_and_a_failed_gate_moves_nothing(registry: ModelRegistry):
    assert aliases(registry) == {"champion": None, "candidate": None, "previous": None}
    release(registry, "a", is_approved=False)
    assert aliases(registry) == {"champion": None, "candidate": "a", "previous": None}
    release(registry, "b", is_approved=True)
    assert aliases(registry) == {"champion": "b", "candidate": "b", "previous": None}
    release(registry, "c", is_approved=True)
    assert aliases(registry) == {"champion": "c", "candidate": "c", "previous": "b"}
    release(registry, "d", is_approved=False)
    assert aliases(registry) == {"champion": "c", "candidate": "d", "previous": "b"}


def test_registering_the_same_bytes_again_makes_no_second_version_and_keeps_previous(registry: ModelRegistry):
    for letter in ("a", "b", "b"):
        release(registry, letter, is_approved=True)
    assert aliases(registry) == {"champion": "b", "candidate": "b", "previous": "a"}
    versions = registry._client.search_model_versions(f"name = '{MODEL_NAME}'")
    assert len(versions) == 2
    assert {v.tags["glmflow.gates"] for v in versions} == {"passed"}
    logged = registry._client.search_logged_models([registry._experiment_id])
    assert sorted(model.tags["glmflow.digest"][0] for model in logged) == ["9", "a", "b"]


def test_an_alias_of_nothing_is_refused_with_what_to_do(tracking_uri: str, tmp_path: Path):
    for settings in (Settings(home=tmp_path / "new"), Settings(home=tmp_path, tracking_uri=tracking_uri)):
        with pytest.raises(BadSpecError, match=r"want a registered model, got none.*; `glmflow run`"):
            resolve("champion", settings)


def test_promotion_by_hand_wants_one_model_that_passed_its_gates(registry: ModelRegistry):
    release(registry, "a", is_approved=True)
    release(registry, "b", is_approved=False)
    with pytest.raises(BadSpecError, match="model bbbbbbbbbbbb: want one that passed its gates, got one that failed"):
        registry.promote_digest("bb")
    with pytest.raises(BadSpecError, match="model 'c': want one registered model, got 0 of 2"):
        registry.promote_digest("c")
    assert aliases(registry) == {"champion": "a", "candidate": "b", "previous": None}
    assert registry.promote_digest("bb", ignores_gates=True).digest == "b" * 64
    assert aliases(registry) == {"champion": "b", "candidate": "b", "previous": "a"}


def test_a_rollback_undoes_a_promotion_and_a_second_one_undoes_the_first(registry: ModelRegistry):
    release(registry, "a", is_approved=True)
    with pytest.raises(BadSpecError, match="rollback: want a previous champion, got none"):
        registry.rollback()
    release(registry, "b", is_approved=True)
    assert registry.rollback().digest == "a" * 64
    assert aliases(registry) == {"champion": "a", "candidate": "b", "previous": "b"}
    registry.rollback()
    assert aliases(registry) == {"champion": "b", "candidate": "b", "previous": "a"}


FIRST = "import sys; from infra.registry import connect; print(len(connect(sys.argv[1]).search_experiments()))"


@pytest.mark.nightly
def test_several_first_clients_of_a_new_database_make_its_tables_once(postgres_database: str):
    command = [sys.executable, "-c", FIRST, postgres_database]
    clients = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) for _ in range(2)]
    assert [client.communicate(timeout=120)[0] for client in clients] == ["1\n"] * 2


def test_a_candidate_of_a_retraining_is_not_promoted_by_being_registered(registry: ModelRegistry):
    release(registry, "a", is_approved=True)
    release(registry, "b", is_approved=True, promotes=False)
    assert aliases(registry) == {"champion": "a", "candidate": "b", "previous": None}


def test_withdrawing_undoes_the_first_promotion_too(registry: ModelRegistry):
    release(registry, "a", is_approved=True)
    registry.withdraw()
    assert aliases(registry) == {"champion": None, "candidate": "a", "previous": None}
    for letter in ("a", "b"):
        release(registry, letter, is_approved=True)
    registry.withdraw()
    assert aliases(registry)["champion"] == "a"


def test_a_decision_stands_on_the_page_of_its_model(registry: ModelRegistry):
    release(registry, "a", is_approved=True)
    release(registry, "b", is_approved=True)
    registry.describe("b" * 64, "kept: no better", {"glmflow.decision": "kept"})
    found = {v.tags["glmflow.digest"][0]: v for v in registry._client.search_model_versions(f"name = '{MODEL_NAME}'")}
    assert (found["b"].description, found["b"].tags["glmflow.decision"]) == ("kept: no better", "kept")
    assert "glmflow.decision" not in found["a"].tags
