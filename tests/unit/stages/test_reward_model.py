"""Laws of the reward_model stage."""

import json

import pytest
from safetensors.torch import load_file, save_file

from infra.artifacts import Preferences
from infra.errors import BadSpecError
from infra.stores.local import LocalStore
from models.export import load_reward_model
from models.preference_training import pair_row
from models.scores import score
from models.tokenizer import ChatTemplate, load_tokenizer
from stages.records import write_records
from stages.reward_model import (
    STAGE,
    RewardModelConfig,
    RewardModelInputs,
    length_baseline_accuracy,
    share_of_wins,
)
from tests.support.tiny_alignment import context, metrics, pair, store_model, store_preferences

CONFIG = RewardModelConfig(batch_size=8, epochs=4, learning_rate=0.02, embedding_learning_rate=0.02)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("reward")
    inputs = RewardModelInputs(model=store_model(root), preferences=store_preferences(root))
    ctx = context(root, "a", STAGE)
    return root, inputs, ctx, STAGE.run(CONFIG, inputs, ctx).reward_model


def test_a_word_that_always_wins_is_learnt_where_length_says_nothing(made):
    _, _, ctx, ref = made
    found = metrics(ctx)
    assert found["reward_model/accuracy"] >= 0.9
    assert found["reward_model/length_baseline_accuracy"] == 0.5
    assert found["reward_model/margin"] > 0
    evaluation = json.loads((ctx.store.get(ref) / "evaluation.json").read_text())
    assert evaluation["accuracy"] == found["reward_model/accuracy"]


def test_what_is_loaded_scores_the_pairs_as_what_was_trained(made):
    _, _, ctx, ref = made
    directory = ctx.store.get(ref)
    template, model = ChatTemplate(load_tokenizer(directory)), load_reward_model(directory)
    rows = [
        pair_row(template, one.messages, one.chosen, one.rejected)
        for one in (pair(i, f"good {i}", f"dull {i}") for i in range(10))
    ]
    scores = score(model, [row[name] for row in rows for name in ("chosen_ids", "rejected_ids")], batch_size=64)
    margins = [a - b for a, b in zip(scores[::2], scores[1::2], strict=True)]
    assert sum(margins) / 10 == pytest.approx(metrics(ctx)["reward_model/margin"], abs=1e-6)


def test_a_head_that_was_not_trained_is_never_made_up(made, tmp_path):
    _, _, ctx, ref = made
    (tmp_path / "config.json").write_bytes((ctx.store.get(ref) / "config.json").read_bytes())
    weights = load_file(ctx.store.get(ref) / "model.safetensors")
    save_file(
        {name: value for name, value in weights.items() if name != "score.weight"}, tmp_path / "model.safetensors"
    )
    with pytest.raises(ValueError, match=r"missing \['score.weight'\]"):
        load_reward_model(tmp_path)


def test_the_same_call_gives_the_same_bytes(made):
    root, inputs, _, ref = made
    assert STAGE.run(CONFIG, inputs, context(root, "b", STAGE)).reward_model == ref


def test_no_usable_pair_is_refused(made, tmp_path):
    root, inputs, _, _ = made
    write_records(tmp_path / "p" / "train.jsonl", [pair(0, "same", "same")])
    write_records(tmp_path / "p" / "heldout.jsonl", [pair(0, "a", "b")])
    bad = inputs.model_copy(update={"preferences": LocalStore(root / "store").put(tmp_path / "p", Preferences)})
    with pytest.raises(BadSpecError, match="dataset yields 0 steps: rows=0 of 1 train pairs, batch=8"):
        STAGE.run(CONFIG, bad, context(root, "c", STAGE))


def test_a_tie_is_half_a_win_and_the_baseline_takes_the_better_rule():
    assert share_of_wins([1.0, 0.0, -2.0, 3.0]) == 0.625
    rows = [{"chosen_ids": [1] * c, "rejected_ids": [1] * r} for c, r in ((1, 2), (1, 3), (2, 1), (2, 2))]
    assert length_baseline_accuracy(rows) == 0.625
