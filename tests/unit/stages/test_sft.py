"""Laws of the sft stage."""

import pytest

from infra.artifacts import Instructions
from infra.errors import BadSpecError
from infra.stores.local import LocalStore
from models.export import load_model
from stages.records import write_records
from stages.sft import STAGE, SftConfig, SftInputs
from tests.support.tiny_alignment import context, metrics, store_instructions, store_model
from tests.support.tiny_release import instructions

CONFIG = SftConfig(batch_size=4, epochs=(3,), learning_rate=0.02, embedding_learning_rate=0.02, max_new_tokens=4)


def test_training_lowers_the_loss_and_the_same_call_gives_the_same_bytes(tmp_path):
    inputs = SftInputs(model=store_model(tmp_path), instructions=store_instructions(tmp_path))
    first, second = context(tmp_path, "a", STAGE), context(tmp_path, "b", STAGE)
    made = STAGE.run(CONFIG, inputs, first).model
    assert STAGE.run(CONFIG, inputs, second).model == made
    assert made != inputs.model
    found = metrics(first)
    curve = [line for line in first.metrics_path.read_text().splitlines() if '"sft/loss"' in line]
    assert len(curve) == 3
    assert found["sft/examples"] == 20
    assert {
        "sft/accuracy/heading/en",
        "sft/accuracy/arithmetic/zh",
        STAGE.headline.before,
        STAGE.headline.after,
    } <= set(found)
    load_model(first.store.get(made))


def test_examples_that_are_too_long_are_dropped_and_counted(tmp_path):
    inputs = SftInputs(model=store_model(tmp_path), instructions=store_instructions(tmp_path))
    ctx = context(tmp_path, "a", STAGE)
    with pytest.raises(BadSpecError, match=r"sft: dataset yields 0 steps: rows=0, batch=4, dropped=.*20"):
        STAGE.run(CONFIG.model_copy(update={"max_tokens": 5}), inputs, ctx)
    assert metrics(ctx)["sft/examples_dropped/longer_than_max_tokens"] == 20


def test_no_held_out_instruction_is_refused(tmp_path):
    write_records(tmp_path / "instructions" / "train.jsonl", instructions(4, "train"))
    write_records(tmp_path / "instructions" / "heldout.jsonl", [])
    ref = LocalStore(tmp_path / "store").put(tmp_path / "instructions", Instructions)
    with pytest.raises(BadSpecError, match="want held-out instructions to judge, got none"):
        STAGE.run(CONFIG, SftInputs(model=store_model(tmp_path), instructions=ref), context(tmp_path, "a", STAGE))
