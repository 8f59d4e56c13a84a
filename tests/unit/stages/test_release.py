"""Laws of the release stage."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infra.artifacts import DedupedCorpus, Evaluation, Instructions, Model, QuantizedModel, RewardModel, Tokens
from infra.errors import BadSpecError
from infra.stores.local import LocalStore
from stages.contract import StageContext
from stages.evaluation_file import EvaluatedModel, write_evaluation
from stages.evidence import MODEL_NAMES
from stages.execution import read_history
from stages.gates.quantization import QuantizationGates
from stages.release import STAGE, Evaluations, ReleaseConfig, ReleaseInputs
from tests.support.evaluated_models import all_evaluated
from tests.support.tiny_release import (
    write_corpus,
    write_instructions,
    write_model,
    write_reward_model,
    write_tokens,
)


def context(tmp_path: Path, name: str) -> StageContext:
    ctx = StageContext(LocalStore(tmp_path / "store"), tmp_path / name, declared_metrics=STAGE.metrics)
    ctx.scratch.mkdir(parents=True)
    return ctx


def put_evaluation(store: LocalStore, directory: Path, model: EvaluatedModel, ref: Model | QuantizedModel | None):
    if ref is not None:
        about = model.about.model_copy(update={"model": ref.digest, "kind": ref.kind})
        model = replace(model, about=about)
    write_evaluation(directory, model)
    return store.put(directory, Evaluation)


@pytest.fixture
def given(tmp_path: Path) -> ReleaseInputs:
    store = LocalStore(tmp_path / "store")
    model = store.put(write_model(tmp_path / "model"), Model)
    packed = {
        name: store.put(write_model(tmp_path / name, seed, num_hidden_layers=1, expert_ffn_size=32), QuantizedModel)
        for seed, name in enumerate(("int8", "int4"), start=5)
    }
    refs: dict[str, Any] = {"ppo": model, **packed}
    evaluations = {
        name: put_evaluation(store, tmp_path / "evaluations" / name, evaluated, refs.get(name))
        for name, evaluated in all_evaluated().items()
    }
    reward = write_reward_model(tmp_path / "reward")
    return ReleaseInputs(
        model=model,
        **packed,
        reward_model=store.put(reward, RewardModel),
        corpus=store.put(write_corpus(tmp_path / "corpus"), DedupedCorpus),
        tokens=store.put(write_tokens(tmp_path / "tokens"), Tokens),
        instructions=store.put(write_instructions(tmp_path / "instructions"), Instructions),
        evaluations=Evaluations(**evaluations),
    )


def metrics_of(ctx: StageContext) -> dict[str, float]:
    return {point.name: point.value for point in read_history(ctx.metrics_path)}


def test_a_model_that_passes_is_released_with_its_card_and_every_figure(tmp_path: Path, given: ReleaseInputs):
    ctx = context(tmp_path, "a")
    directory = ctx.store.get(STAGE.run(ReleaseConfig(), given, ctx).release)
    gates = json.loads((directory / "gates.json").read_text())
    assert (gates["passed"], gates["reasons"]) == (True, [])
    figures = json.loads((directory / "metrics.json").read_text())
    assert set(figures) == {*MODEL_NAMES, "reward_model"}
    table = json.loads((directory / "samples.json").read_text())
    assert table["columns"][3:] == list(MODEL_NAMES) and table["data"] == [
        ["heading/en", "What?", "yes", *("yes (right)" for _ in MODEL_NAMES)]
    ]
    card = (directory / "README.md").read_text()
    assert given.model.digest[:12] in card
    assert "| MIT | 3 |" in card
    assert "**Release gates: passed.**" in card
    logged = metrics_of(ctx)
    assert (logged["release/passed"], logged["release/gates_failed"]) == (1, 0)
    assert logged["release/gate_is_maximum/int4_perplexity_cost"] == 1
    assert logged["release/gate_is_maximum/sft_accuracy_gain"] == 0
    assert logged["release/agreement/int8"] == pytest.approx(0.6)


def test_a_failed_gate_makes_a_release_that_says_why(tmp_path: Path, given: ReleaseInputs):
    ctx = context(tmp_path, "a")
    config = ReleaseConfig(gates=(QuantizationGates(max_int4_perplexity_cost=0.001),))
    directory = ctx.store.get(STAGE.run(config, given, ctx).release)
    gates = json.loads((directory / "gates.json").read_text())
    assert gates["passed"] is False
    assert gates["reasons"][0].startswith("int4_perplexity_cost failed: want at most 0.001, got 0.030")
    assert metrics_of(ctx)["release/gate_passed/int4_perplexity_cost"] == 0
    assert "This model is a candidate, not a champion." in (directory / "README.md").read_text()


def test_the_same_inputs_give_the_same_bytes(tmp_path: Path, given: ReleaseInputs):
    first = STAGE.run(ReleaseConfig(), given, context(tmp_path, "a"))
    assert STAGE.run(ReleaseConfig(), given, context(tmp_path, "b")) == first


def test_the_evaluation_of_another_model_is_refused(tmp_path: Path, given: ReleaseInputs):
    swapped = given.evaluations.model_copy(update={"int8": given.evaluations.int4})
    with pytest.raises(BadSpecError, match=r"evaluations.int8: want the evaluation of quantized_model:[0-9a-f]+, got"):
        STAGE.run(ReleaseConfig(), given.model_copy(update={"evaluations": swapped}), context(tmp_path, "a"))


def test_a_reward_model_without_its_accuracy_is_refused(tmp_path: Path, given: ReleaseInputs):
    ctx = context(tmp_path, "a")
    (tmp_path / "reward" / "evaluation.json").unlink()
    silent = ctx.store.put(tmp_path / "reward", RewardModel)
    with pytest.raises(BadSpecError, match=r"reward model: want evaluation\.json with its held-out accuracy"):
        STAGE.run(ReleaseConfig(), given.model_copy(update={"reward_model": silent}), ctx)
