"""Laws of the evaluate stage."""

import hashlib
import json
from pathlib import Path

import pytest

from infra.artifacts import Instructions, Model, RewardModel, Tokens
from infra.errors import BadSpecError
from infra.stores.local import LocalStore
from stages.contract import StageContext
from stages.evaluate import STAGE, EvaluateConfig, EvaluateInputs
from stages.execution import read_history
from stages.quantize import QuantizeConfig, QuantizeInputs
from stages.quantize import run as quantize
from tests.support.tiny_release import write_instructions, write_model, write_reward_model, write_tokens

CONFIG = EvaluateConfig(max_items_per_task=3, max_new_tokens=6)


def context(tmp_path: Path, name: str) -> StageContext:
    ctx = StageContext(LocalStore(tmp_path / "store"), tmp_path / name, declared_metrics=STAGE.metrics)
    ctx.scratch.mkdir(parents=True)
    return ctx


def inputs(tmp_path: Path) -> EvaluateInputs:
    store = LocalStore(tmp_path / "store")
    return EvaluateInputs(
        model=store.put(write_model(tmp_path / "model"), Model),
        tokens=store.put(write_tokens(tmp_path / "tokens"), Tokens),
        instructions=store.put(write_instructions(tmp_path / "instructions"), Instructions),
        reward_model=store.put(write_reward_model(tmp_path / "reward"), RewardModel),
    )


def test_the_same_model_gives_the_same_bytes_and_speed_stays_outside(tmp_path: Path):
    given, first, second = inputs(tmp_path), context(tmp_path, "a"), context(tmp_path, "b")
    made = STAGE.run(CONFIG, given, first).evaluation
    assert STAGE.run(CONFIG, given, second).evaluation == made
    directory = first.store.get(made)
    about = json.loads((directory / "evaluation.json").read_text())
    logged = {point.name: point.value for point in read_history(first.metrics_path)}
    assert logged.pop("eval/tokens_per_s") > 0
    assert about["metrics"] == logged
    template = (first.store.get(given.model) / "chat_template.jinja").read_bytes()
    assert about["template_sha256"] == hashlib.sha256(template).hexdigest()
    assert about["model"] == given.model.digest
    items = json.loads((directory / "items.json").read_text())
    assert set(items) == {"document_bits", "is_correct", "answer", "reward"}
    samples = json.loads((directory / "samples.json").read_text())
    assert [s["task"] for s in samples] == ["arithmetic/zh"] * 2 + ["heading/en"] * 2
    assert all(items["answer"][s["id"]] == s["answer"] for s in samples)


def test_a_quantized_model_is_measured_under_the_same_names(tmp_path: Path):
    given, ctx = inputs(tmp_path), context(tmp_path, "a")
    quantizing = StageContext(ctx.store, tmp_path / "q")
    quantizing.scratch.mkdir(parents=True)
    packed = quantize(QuantizeConfig(), QuantizeInputs(model=given.model), quantizing).model
    names = []
    for name, model in (("full", given.model), ("packed", packed)):
        ctx = context(tmp_path, name)
        STAGE.run(CONFIG, given.model_copy(update={"model": model}), ctx)
        names.append({point.name for point in read_history(ctx.metrics_path)})
    assert names[0] == names[1]


def test_a_reward_model_of_another_tokenizer_is_refused(tmp_path: Path):
    given, ctx = inputs(tmp_path), context(tmp_path, "a")
    other = tmp_path / "reward"
    text = (other / "tokenizer.json").read_text()
    (other / "tokenizer.json").write_text(text + " ")
    changed = given.model_copy(update={"reward_model": ctx.store.put(other, RewardModel)})
    with pytest.raises(BadSpecError, match=r"reward_model:[0-9a-f]+: want the tokenizer of model:"):
        STAGE.run(CONFIG, changed, ctx)


def test_the_inputs_take_a_full_or_a_quantized_model_and_nothing_else():
    ref = {"digest": "0" * 64, "num_bytes": 1}
    others = {name: {"kind": name, **ref} for name in ("tokens", "instructions")}
    for kind in ("model", "quantized_model"):
        assert EvaluateInputs.model_validate({"model": {"kind": kind, **ref}, **others}).model.kind == kind
    with pytest.raises(ValueError, match="does not match any of the expected tags"):
        EvaluateInputs.model_validate({"model": {"kind": "tokens", **ref}, **others})
