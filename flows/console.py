"""What a person sees while a lifecycle runs: bars with rate and time left on a terminal, plain lines elsewhere."""

import os
import sys
import time
from collections.abc import Callable
from typing import Protocol, TextIO

from rich.console import Console as RichConsole
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from flows.headline import short_duration, short_number

PLAIN_INTERVAL_S = 15.0
PAGE_CHARS = 200
WARNING = "warning: "  # how a line of a stage's log begins that everybody should see
MAX_WARNINGS = 20  # shown of one stage


class Console(Protocol):
    """Who shows the course of a lifecycle run."""

    def note(self, text: str) -> None:
        """One sentence beside the stages."""

    def begin(self, label: str, position: int, num_stages: int) -> None:
        """A stage's process starts."""

    def line(self, text: str) -> None:
        """One line of the stage's log."""

    def progress(self, done: float, total: float, unit: str) -> None:
        """How far the stage is."""

    def end(self, label: str, position: int, num_stages: int, text: str) -> None:
        """The stage has ended; `text` says how."""

    def close(self) -> None:
        """Nothing more will come."""


class Pace:
    """Rate and time left of one stage, from its progress."""

    def __init__(self) -> None:
        self._first: tuple[float, float] | None = None

    def describe(self, done: float, total: float, unit: str) -> str:
        """`1,200/5,000 documents, 80/s, 48 s left`."""
        now = time.monotonic()
        first_at, first_done = self._first = self._first or (now, done)
        text = f"{short_number(done)}/{short_number(total)} {unit}"
        if done <= first_done or now <= first_at:
            return text
        per_s = (done - first_done) / (now - first_at)
        return f"{text}, {short_number(per_s)}/s, {short_duration((total - done) / per_s)} left"


class ShownLines:
    """Which lines of a stage's log are shown: all where that was asked for, else its first warnings."""

    def __init__(self, *, shows_log: bool) -> None:
        self._shows_log = shows_log
        self._num_warnings = 0

    def begin(self) -> None:
        """Another stage."""
        self._num_warnings = 0

    def shown(self, text: str) -> str | None:
        """The line as it is shown, or None."""
        if self._shows_log:
            return text
        if not text.startswith(WARNING):
            return None
        self._num_warnings += 1
        if self._num_warnings > MAX_WARNINGS:
            return None
        return text if self._num_warnings < MAX_WARNINGS else f"{text} (any further warnings stand in the stage's log)"


class PlainConsole:
    """Plain lines, the progress every quarter of a minute."""

    _indent = "    "

    def __init__(self, stream: TextIO | None = None, *, shows_log: bool = False) -> None:
        self._stream = stream or sys.stdout
        self._lines = ShownLines(shows_log=shows_log)
        self._label, self._pace, self._shown_at = "", Pace(), 0.0

    def note(self, text: str) -> None:
        print(text, file=self._stream, flush=True)

    def begin(self, label: str, position: int, num_stages: int) -> None:
        self._start(label)
        self._lines.begin()
        self.note(f"[{position:2}/{num_stages}] {label} ...")

    def _start(self, label: str) -> None:
        self._label, self._pace, self._shown_at = label, Pace(), time.monotonic()

    def line(self, text: str) -> None:
        if (shown := self._lines.shown(text)) is not None:
            self.note(f"{self._indent}{self._label}: {shown}")

    def progress(self, done: float, total: float, unit: str) -> None:
        text = self._pace.describe(done, total, unit)
        if time.monotonic() - self._shown_at >= PLAIN_INTERVAL_S:
            self._shown_at = time.monotonic()
            self.note(f"{self._indent}{self._label}: {text}")

    def end(self, label: str, position: int, num_stages: int, text: str) -> None:
        self.note(f"[{position:2}/{num_stages}] {label}: {text}")

    def close(self) -> None:
        return


class BarConsole:
    """A bar for the stage that runs, a line for each that has ended."""

    def __init__(self, *, shows_log: bool = False) -> None:
        self._lines = ShownLines(shows_log=shows_log)
        self._rich = RichConsole(highlight=False)
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TextColumn("{task.fields[pace]}"),
            TimeElapsedColumn(),
            console=self._rich,
            transient=True,
            refresh_per_second=4,  # the cores are the stage's
        )
        self._bar: TaskID | None = None
        self._pace = Pace()
        self._bars.start()

    def note(self, text: str) -> None:
        self._rich.print(text, markup=False, soft_wrap=True)

    def begin(self, label: str, position: int, num_stages: int) -> None:
        self._remove_bar()
        self._lines.begin()
        self._pace = Pace()
        self._bar = self._bars.add_task(f"[{position:2}/{num_stages}] {label}".replace("[", "\\["), total=None, pace="")

    def line(self, text: str) -> None:
        if (shown := self._lines.shown(text)) is not None:
            self.note(f"    {shown}")

    def progress(self, done: float, total: float, unit: str) -> None:
        if self._bar is not None:
            self._bars.update(self._bar, completed=done, total=total, pace=self._pace.describe(done, total, unit))

    def end(self, label: str, position: int, num_stages: int, text: str) -> None:
        self._remove_bar()
        self.note(f"[{position:2}/{num_stages}] {label}: {text}")

    def _remove_bar(self) -> None:
        if self._bar is not None:
            self._bars.remove_task(self._bar)
            self._bar = None

    def close(self) -> None:
        self._remove_bar()
        self._bars.stop()


class LogConsole(PlainConsole):
    """Lines into a log that others keep: Prefect's, for a run of its worker. A stage's own lines get there anyway."""

    _indent = ""

    def __init__(self, log: Callable[[str], None]) -> None:
        super().__init__()
        self._log = log

    def note(self, text: str) -> None:
        self._log(text)

    def begin(self, label: str, position: int, num_stages: int) -> None:
        self._start(label)

    def line(self, text: str) -> None:
        return


def page() -> RichConsole:
    """For tables and trees: as wide as the terminal, and wide where nobody wraps lines."""
    is_fixed = sys.stdout.isatty() or "COLUMNS" in os.environ
    return RichConsole(highlight=False, width=None if is_fixed else PAGE_CHARS)


def open_console(*, is_json: bool, shows_log: bool) -> Console:
    """Bars on a terminal, lines elsewhere; with --json the standard output belongs to the document."""
    if is_json:
        return PlainConsole(sys.stderr, shows_log=shows_log)
    return BarConsole(shows_log=shows_log) if sys.stdout.isatty() else PlainConsole(shows_log=shows_log)
