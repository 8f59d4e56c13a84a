"""Everything a stage writes is passed on once, in order, whatever it was cut into."""

import json
from pathlib import Path

from flows.follow import GrowingFile, StageFollower, tail
from infra.lineage import MetricPoint


class Recorder:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.points: list[MetricPoint] = []
        self.states: list[tuple[float, float, str]] = []

    def line(self, text: str) -> None:
        self.lines.append(text)

    def metrics(self, points) -> None:
        self.points += points

    def progress(self, done: float, total: float, unit: str) -> None:
        self.states.append((done, total, unit))


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_lines_are_the_same_however_the_writes_were_cut(tmp_path: Path):
    data = "eins\nzwei\n\u4e09\nvier\n".encode()
    for cut in range(1, len(data)):
        path = tmp_path / f"log{cut}"
        growing, lines = GrowingFile(path, skip_present=True), []
        for part in (data[:cut], data[cut:]):
            append(path, part)
            lines += growing.lines()
        assert lines == ["eins", "zwei", "\u4e09", "vier"]


def test_a_line_shows_what_a_terminal_would_show(tmp_path: Path):
    path = tmp_path / "log"
    growing = GrowingFile(path, skip_present=True)
    append(path, b"10%\r50%\r100%\r\nplain\r\n\xff\n")
    assert list(growing.lines()) == ["100%", "plain", "\ufffd"]


def test_an_unfinished_line_waits_for_its_end_or_for_the_last_call(tmp_path: Path):
    path = tmp_path / "log"
    growing = GrowingFile(path, skip_present=True)
    append(path, b"half")
    assert list(growing.lines()) == []
    assert list(growing.lines(is_last_call=True)) == ["half"]


def test_a_replaced_file_is_read_from_its_start(tmp_path: Path):
    path = tmp_path / "metrics"
    append(path, b"old\n")
    growing = GrowingFile(path, skip_present=True)
    other = tmp_path / "other"
    append(other, b"new\n")
    other.replace(path)
    assert list(growing.lines()) == ["new"]


def test_a_follower_tells_lines_metrics_and_progress_once(tmp_path: Path):
    recorder = Recorder()
    follower = StageFollower(tmp_path, tmp_path / "stage.log", recorder, is_resumed=False)
    append(tmp_path / "stage.log", b"hello\n")
    append(tmp_path / "metrics.jsonl", b'{"name": "a/b", "value": 1.5, "step": 3}\n{"name": "a/b", "val')
    (tmp_path / "progress.json").write_text(json.dumps({"done": 1, "total": 2, "unit": "files"}))
    follower.poll()
    follower.poll(is_last_call=True)
    assert recorder.lines == ["hello"]
    assert recorder.points == [MetricPoint(name="a/b", value=1.5, step=3)]
    assert recorder.states == [(1, 2, "files")]


def test_a_resumed_stage_tells_its_earlier_metrics_too_and_a_fresh_one_does_not(tmp_path: Path):
    append(tmp_path / "metrics.jsonl", b'{"name": "a/b", "value": 1, "step": 0}\n')
    told = []
    for is_resumed in (True, False):
        recorder = Recorder()
        StageFollower(tmp_path, tmp_path / "stage.log", recorder, is_resumed=is_resumed).poll()
        told.append(len(recorder.points))
    assert told == [1, 0]


def test_the_tail_is_the_last_lines_that_say_something(tmp_path: Path):
    path = tmp_path / "log"
    append(path, b"".join(b"line %d\n\n" % number for number in range(50)))
    assert tail(path, 2) == ["line 48", "line 49"]
    assert tail(tmp_path / "none", 2) == []
