"""Laws of a model under evaluation."""

from collections import Counter
from pathlib import Path

import pytest

from infra.errors import BadSpecError
from stages.answers import judge
from tests.support.tiny_release import tiny_subject, write_instructions


def test_items_are_the_same_few_of_each_task_whatever_the_order_of_the_file(tmp_path: Path):
    subject = tiny_subject(tmp_path, max_items_per_task=4)
    assert Counter(item.task for item in subject.items) == {"heading": 4, "arithmetic": 4}
    more = tiny_subject(tmp_path / "more", max_items_per_task=4, max_items_of={"heading/en": 6})
    assert Counter(item.task for item in more.items) == {"heading": 6, "arithmetic": 4}
    assert {item.id for item in subject.items} < {item.id for item in more.items}
    path = subject.instructions_dir / "heldout.jsonl"
    path.write_text("".join(f"{line}\n" for line in reversed(path.read_text().splitlines())))
    again = tiny_subject(tmp_path / "again", max_items_per_task=4)
    again.instructions_dir = subject.instructions_dir
    assert [item.id for item in again.items] == [item.id for item in subject.items]


def test_every_item_has_the_answer_that_it_gets_alone(tmp_path: Path):
    subject = tiny_subject(tmp_path, max_items_per_task=3)
    alone = [judge(subject.model, subject.template, [item], max_new_tokens=8)[0] for item in subject.items]
    assert [one.instruction for one in subject.judged] == subject.items
    assert [one.answer for one in subject.judged] == [one.answer for one in alone]
    assert subject.generation_s > 0
    assert all(1 <= one.num_tokens <= 8 for one in subject.judged)


def test_a_prompt_that_leaves_no_room_for_the_answer_is_refused_by_name(tmp_path: Path):
    subject = tiny_subject(tmp_path, max_new_tokens=250)
    with pytest.raises(BadSpecError, match=r"instruction heldout-[0-9]+: want at most 6 prompt tokens"):
        _ = subject.judged


def test_no_held_out_instruction_and_another_vocabulary_are_refused(tmp_path: Path):
    subject = tiny_subject(tmp_path)
    subject.instructions_dir = write_instructions(tmp_path / "none", num_heldout=0)
    with pytest.raises(BadSpecError, match="want at least one held-out item, got 0"):
        _ = subject.items
    subject.model.config.vocab_size = 5
    with pytest.raises(BadSpecError, match="tokens: want at most the model's vocabulary of 5, got"):
        _ = subject.shards
