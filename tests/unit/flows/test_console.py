"""Plain lines say the same as bars, only less often."""

import io

import pytest

from flows import console
from flows.console import BarConsole, LogConsole, Pace, PlainConsole, open_console


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch):
    class Clock:
        now = 100.0

        def monotonic(self) -> float:
            return self.now

    fake = Clock()
    monkeypatch.setattr(console, "time", fake)
    return fake


def test_the_pace_is_the_rate_since_the_first_sight_and_the_time_left(clock):
    pace = Pace()
    assert pace.describe(100, 1000, "files") == "100/1,000 files"
    clock.now += 10
    assert pace.describe(300, 1000, "files") == "300/1,000 files, 20/s, 35 s left"


def test_plain_lines_come_at_the_start_every_quarter_minute_and_at_the_end(clock):
    stream = io.StringIO()
    plain = PlainConsole(stream)
    plain.begin("dedup", 3, 19)
    for _ in range(32):
        clock.now += 1
        plain.progress(1, 2, "passes")
        plain.line("a log line")
    plain.end("dedup", 3, 19, "32 s, documents 5 -> 4")
    plain.close()
    lines = stream.getvalue().splitlines()
    assert lines[0] == "[ 3/19] dedup ..." and lines[-1] == "[ 3/19] dedup: 32 s, documents 5 -> 4"
    assert lines[1:-1] == ["    dedup: 1/2 passes"] * 2


def test_the_log_is_shown_when_it_is_asked_for():
    stream = io.StringIO()
    plain = PlainConsole(stream, shows_log=True)
    plain.begin("dedup", 1, 1)
    plain.line("pass 2")
    assert "    dedup: pass 2\n" in stream.getvalue()


def test_a_stages_first_warnings_are_always_shown():
    stream = io.StringIO()
    plain = PlainConsole(stream)
    for _ in range(2):
        plain.begin("ingest", 1, 1)
        for i in range(console.MAX_WARNINGS + 5):
            plain.line("a line of the log")
            plain.line(f"warning: {i}.txt: skipped")
    shown = [line for line in stream.getvalue().splitlines() if "warning: " in line]
    assert len(shown) == 2 * console.MAX_WARNINGS
    assert shown[0] == "    ingest: warning: 0.txt: skipped"
    assert shown[-1].endswith("(any further warnings stand in the stage's log)")
    assert "a line of the log" not in stream.getvalue()


def test_bars_show_warnings_too(capsys: pytest.CaptureFixture[str]):
    bars = BarConsole()
    bars.begin("ingest", 1, 1)
    bars.line("warning: [x].txt: skipped")
    bars.close()
    assert "warning: [x].txt: skipped" in capsys.readouterr().out


def test_bars_end_as_one_line_a_stage(capsys: pytest.CaptureFixture[str]):
    bars = BarConsole()
    bars.begin("dedup [x]", 1, 2)
    bars.progress(1, 2, "passes")
    bars.end("dedup [x]", 1, 2, "took long")
    bars.close()
    assert "[ 1/2] dedup [x]: took long" in capsys.readouterr().out


def test_json_keeps_the_standard_output_for_the_document(capsys: pytest.CaptureFixture[str]):
    opened = open_console(is_json=True, shows_log=False)
    opened.note("hello")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "hello\n")
    assert isinstance(open_console(is_json=False, shows_log=False), PlainConsole)  # no terminal here


def test_a_log_gets_the_stages_and_now_and_then_their_progress(monkeypatch: pytest.MonkeyPatch):
    said: list[str] = []
    console = LogConsole(said.append)
    console.begin("clean", 1, 2)
    console.progress(1, 10, "documents")
    assert said == []
    monkeypatch.setattr("flows.console.PLAIN_INTERVAL_S", 0.0)
    console.progress(5, 10, "documents")
    console.line("a stage's own line")
    console.end("clean", 1, 2, "3 s")
    console.close()
    assert said[0].startswith("clean: 5/10 documents") and said[1:] == ["[ 1/2] clean: 3 s"]
