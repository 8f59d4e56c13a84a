import pytest

from models.supervised_rows import curriculum_batches, labelled_row
from models.tokenizer import ChatTemplate, load_tokenizer
from tests.support.tiny_release import write_tokenizer


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    return ChatTemplate(load_tokenizer(write_tokenizer(tmp_path_factory.mktemp("t") / "tokenizer")))


def test_loss_counts_on_the_first_answer_token_to_the_end_token_and_nowhere_else(template):
    letters = {letter: template.encode_text(letter)[0] for letter in "abc"}
    newline = template.encode_text("\n")[0]
    special = template.token_id
    row = labelled_row(
        template,
        [
            {"role": "system", "content": "a"},
            {"role": "user", "content": "b"},
            {"role": "assistant", "content": "c"},
        ],
    )
    assert row["input_ids"] == [
        special("[gMASK]"), special("<sop>"),
        special("<|system|>"), newline, letters["a"],
        special("<|user|>"), newline, letters["b"],
        special("<|assistant|>"), newline, letters["c"], special("<|endoftext|>"),
    ]  # fmt: skip
    assert row["labels"] == [*[-100] * 10, letters["c"], special("<|endoftext|>")]


def test_a_conversation_without_an_answer_has_no_label(template):
    assert set(labelled_row(template, [{"role": "user", "content": "b"}])["labels"]) == {-100}


def test_every_row_comes_once_an_epoch_and_phases_stay_in_order():
    phases, lengths = [1, 0, 0, 1, 0, 1, 0], [3, 9, 2, 4, 7, 1, 5]
    batches = curriculum_batches(phases, lengths, batch_size=2, epochs=(2,), seed=0)
    order = [row for batch in batches for row in batch]
    assert sorted(order) == sorted([*range(7)] * 2)
    assert [phases[row] for row in order] == [0] * 8 + [1] * 6
    assert all(len({phases[row] for row in batch}) == 1 for batch in batches)


def test_batches_hold_rows_of_similar_length():
    lengths = [index * 37 % 64 for index in range(64)]
    batches = curriculum_batches([0] * 64, lengths, batch_size=8, epochs=(1,), seed=0)
    assert all(max(lengths[row] for row in batch) - min(lengths[row] for row in batch) < 8 for batch in batches)


def test_the_order_depends_on_the_seed_alone():
    def order(seed):
        return curriculum_batches([0] * 20, [1] * 20, batch_size=3, epochs=(1,), seed=seed)

    assert order(1) == order(1)
    assert order(1) != order(2)
    assert curriculum_batches([], [], batch_size=3, epochs=(1,), seed=0) == []


def test_later_phases_repeat_their_share_of_the_earlier_ones():
    phases = [0] * 8 + [1] * 4
    batches = curriculum_batches(phases, [1] * 12, batch_size=4, epochs=(1, 3), seed=0, replay_ratio=0.5)
    order = [row for batch in batches for row in batch]
    assert sorted(order[:8]) == [*range(8)]
    for start in (8, 16, 24):
        one_pass = order[start : start + 8]
        assert len(set(one_pass)) == 8
        assert {8, 9, 10, 11} <= set(one_pass)
