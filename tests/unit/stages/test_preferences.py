"""Laws of the preferences stage."""

import json
from collections import Counter

import pytest
from pydantic import ValidationError

from infra.errors import BadSpecError
from stages.answers import is_correct
from stages.preferences import STAGE, PreferencesConfig, PreferencesInputs
from stages.records import Preference, read_records
from tests.support.tiny_alignment import context, metrics, store_instructions, store_model
from tests.support.tiny_release import instructions

CONFIG = PreferencesConfig(max_new_tokens=24, temperatures=(1.5,) * 8, balance_lengths=False, balance_answers=False)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("preferences")
    inputs = PreferencesInputs(model=store_model(root), instructions=store_instructions(root))
    ctx = context(root, "a", STAGE)
    return root, inputs, ctx, STAGE.run(CONFIG, inputs, ctx).preferences


def test_chosen_is_the_checked_answer_and_rejected_a_distinct_wrong_one_of_the_same_split(made):
    _, _, ctx, ref = made
    for split, count in (("train", 20), ("heldout", 12)):
        checks = {one.prompt[0]["content"]: one for one in instructions(count, split)}
        pairs = read_records(ctx.store.get(ref) / f"{split}.jsonl", Preference)
        assert pairs
        for pair in pairs:
            instruction = checks[pair.prompt[0].content]
            assert pair.id.startswith(instruction.id)
            assert pair.chosen == instruction.check.answer
            assert not is_correct(instruction.check, pair.rejected)
        assert len({(pair.prompt, pair.rejected) for pair in pairs}) == len(pairs)


def test_every_sample_is_counted_once(made):
    _, _, ctx, _ = made
    found = metrics(ctx)
    samples = sum(value for name, value in found.items() if name.startswith("preferences/samples/"))
    assert samples == (20 + 12) * 8
    assert found["preferences/samples/wrong"] == found["preferences/pairs"]


def test_the_same_call_gives_the_same_bytes(made):
    root, inputs, _, ref = made
    assert STAGE.run(CONFIG, inputs, context(root, "b", STAGE)).preferences == ref


def test_pairs_of_the_users_file_join_and_their_content_is_part_of_the_config(made, tmp_path):
    root, inputs, _, _ = made
    path = tmp_path / "pairs.jsonl"
    rows = [{"prompt": f"q{i}", "chosen": "yes", "rejected": "no"} for i in range(10)]
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, {"prompt": "q", "chosen": "a", "rejected": ""}]))
    config = PreferencesConfig(**{**CONFIG.model_dump(), "pairs": path})
    ctx = context(root, "c", STAGE)
    directory = ctx.store.get(STAGE.run(config, inputs, ctx).preferences)
    pairs = [p for split in ("train", "heldout") for p in read_records(directory / f"{split}.jsonl", Preference)]
    assert sum(pair.origin == "file" for pair in pairs) == 10
    assert metrics(ctx)["preferences/file/dropped/empty_rejected"] == 1
    path.write_text(json.dumps(rows[0]) + "\n")
    assert PreferencesConfig(pairs=path) != PreferencesConfig(pairs=path, pairs_sha256=config.pairs_sha256)
    with pytest.raises(BadSpecError, match="want the file with sha256"):
        STAGE.run(config, inputs, context(root, "d", STAGE))


def test_no_pair_is_refused_with_what_to_change(made):
    root, inputs, _, _ = made
    with pytest.raises(
        BadSpecError, match=r"want at least one train pair, got 0 .*raise preferences.num_train_prompts"
    ):
        STAGE.run(CONFIG.model_copy(update={"max_new_tokens": 1}), inputs, context(root, "e", STAGE))


def test_with_balance_every_right_answer_of_a_task_wins_as_often_as_it_loses(made):
    root, inputs, _, _ = made
    ctx = context(root, "f", STAGE)
    config = CONFIG.model_copy(update={"balance_answers": True, "temperatures": (1.0,) * 8})
    directory = ctx.store.get(STAGE.run(config, inputs, ctx).preferences)
    for split, count in (("train", 20), ("heldout", 12)):
        right = {(one.task, one.messages[-1].content) for one in instructions(count, split)}
        pairs = read_records(directory / f"{split}.jsonl", Preference)
        closed = [pair for pair in pairs if (pair.task, pair.rejected) in right]
        assert Counter((p.task, p.chosen) for p in closed) == Counter((p.task, p.rejected) for p in closed)


def test_an_unknown_setting_is_refused():
    with pytest.raises(ValidationError, match="pair_file"):
        PreferencesConfig.model_validate({"pair_file": "x"})
