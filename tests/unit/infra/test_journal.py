"""A journal gives back what was written, from where the delivery had come to."""

from pathlib import Path

from infra.journal import JournalReader, JournalWriter


def test_operations_come_back_in_order_and_only_once(tmp_path: Path):
    path = tmp_path / "run.jsonl"
    writer = JournalWriter(path)
    for number in range(4):
        writer.append({"op": "x", "number": number})
    reader = JournalReader(path)
    pending = list(reader.pending())
    assert [operation["number"] for operation, _ in pending] == [0, 1, 2, 3]
    reader.state.offset = pending[1][1]
    reader.save()
    assert [operation["number"] for operation, _ in JournalReader(path).pending()] == [2, 3]
    assert JournalReader(path).num_pending() == 2


def test_a_line_that_was_cut_off_by_a_crash_is_not_delivered(tmp_path: Path):
    path = tmp_path / "run.jsonl"
    JournalWriter(path).append({"op": "x"})
    with path.open("a") as file:
        file.write('{"op": "ha')
    assert [operation for operation, _ in JournalReader(path).pending()] == [{"op": "x"}]


def test_a_journal_is_abandoned_when_its_writer_has_gone(tmp_path: Path):
    path = tmp_path / "run.jsonl"
    writer = JournalWriter(path)
    assert not JournalReader(path).is_abandoned()
    writer.close()
    assert JournalReader(path).is_abandoned()


def test_a_full_disk_is_a_remark_and_no_error(tmp_path: Path):
    writer = JournalWriter(Path("/dev/full"))
    writer.append({"op": "x"})
    assert "No space left on device" in writer.problem


def test_nothing_remains_of_a_delivered_journal(tmp_path: Path):
    path = tmp_path / "run.jsonl"
    JournalWriter(path).append({"op": "x"})
    reader = JournalReader(path)
    reader.save()
    reader.remove()
    assert list(tmp_path.iterdir()) == []
