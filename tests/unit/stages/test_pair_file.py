import json
from collections import Counter

import pytest

from infra.errors import BadSpecError
from stages.pair_file import file_sha256, read_pair_file

GOOD = {"prompt": "q", "chosen": "yes", "rejected": "no"}


def write(tmp_path, *rows):
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_prompt_may_be_a_text_or_turns_and_the_id_follows_from_the_content(tmp_path):
    turns = [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}]
    pairs, dropped = read_pair_file(write(tmp_path, GOOD, {**GOOD, "prompt": turns, "lang": "en", "extra": 1}))
    assert [turn.content for turn in pairs[0].prompt] == ["q"]
    assert [turn.role for turn in pairs[1].prompt] == ["system", "user"]
    assert (pairs[0].origin, pairs[0].task, pairs[1].lang) == ("file", "file", "en")
    assert pairs[0].id != pairs[1].id
    assert not dropped


def test_pairs_that_teach_nothing_are_dropped_and_counted_by_reason(tmp_path):
    rows = ({**GOOD, "rejected": " "}, {**GOOD, "rejected": "yes "}, {**GOOD, "chosen": " "}, GOOD, GOOD)
    pairs, dropped = read_pair_file(write(tmp_path, *rows))
    assert len(pairs) == 1
    assert dropped == Counter(empty_rejected=1, chosen_equals_rejected=1, empty_chosen=1, repeated=1)


def test_a_bad_row_is_named_with_its_file_field_wish_and_value(tmp_path):
    path = write(tmp_path, GOOD, {"prompt": "q", "chosen": 7, "rejected": "no"})
    with pytest.raises(BadSpecError, match=r"pairs.jsonl row 2: want pairrow field 'chosen' .*string.*, got '7'"):
        read_pair_file(path)
    with pytest.raises(BadSpecError, match=r"row 1: want pairrow field 'rejected' \(Field required\)"):
        read_pair_file(write(tmp_path, {"prompt": "q", "chosen": "a"}))


def test_a_missing_file_and_an_unknown_format_are_refused(tmp_path):
    with pytest.raises(BadSpecError, match="want a readable file of pairs"):
        file_sha256(tmp_path / "none.jsonl")
    with pytest.raises(BadSpecError, match=r"want a file of pairs that ends in .jsonl or .parquet, got '.csv'"):
        file_sha256(tmp_path / "none.csv")
