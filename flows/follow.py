"""Follow what a stage's process writes into its work directory: log lines, metric points, progress."""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from infra.lineage import MetricPoint

_READ_BYTES = 1 << 20


class Watcher(Protocol):
    """Who is told what a running stage says."""

    def line(self, text: str) -> None:
        """One line of the stage's log."""

    def metrics(self, points: Sequence[MetricPoint]) -> None:
        """New metric points."""

    def progress(self, done: float, total: float, unit: str) -> None:
        """How far the stage is."""


class GrowingFile:
    """A text file that another process appends to, and may replace by a new one."""

    def __init__(self, path: Path, *, skip_present: bool) -> None:
        self.path = path
        self._inode, self._offset = self._stat() if skip_present else (0, 0)
        self._rest = b""

    def _stat(self) -> tuple[int, int]:
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return 0, 0
        return status.st_ino, status.st_size

    def lines(self, *, is_last_call: bool = False) -> Iterator[str]:
        """The complete lines that came since the last call; at the last call also the unfinished one."""
        inode, size = self._stat()
        if inode != self._inode or size < self._offset:
            self._inode, self._offset, self._rest = inode, 0, b""
        while self._offset < size:
            with self.path.open("rb") as file:
                file.seek(self._offset)
                chunk = file.read(_READ_BYTES)
            if not chunk:
                break
            self._offset += len(chunk)
            *complete, self._rest = (self._rest + chunk).split(b"\n")
            yield from map(_printable, complete)
        if is_last_call and self._rest:
            yield _printable(self._rest)
            self._rest = b""


def _printable(line: bytes) -> str:
    """What a terminal would show of the line: the text after the last carriage return (progress bars of libraries)."""
    return line.rstrip(b"\r").rsplit(b"\r", 1)[-1].decode("utf-8", errors="replace").rstrip()


class StageFollower:
    """Tells a watcher what happens in one work directory."""

    def __init__(self, workdir: Path, log_path: Path, watcher: Watcher, *, is_resumed: bool) -> None:
        self._log = GrowingFile(log_path, skip_present=True)
        # A resumed stage keeps its metrics file; otherwise what lies there is of an earlier, finished run.
        self._metrics = GrowingFile(workdir / "metrics.jsonl", skip_present=not is_resumed)
        self._progress_path = workdir / "progress.json"
        self._progress_seen = self._progress_text()
        self._watcher = watcher

    def poll(self, *, is_last_call: bool = False) -> None:
        """Pass on everything new."""
        for line in self._log.lines(is_last_call=is_last_call):
            self._watcher.line(line)
        points = [point for line in self._metrics.lines() if (point := _point(line))]
        if points:
            self._watcher.metrics(points)
        text = self._progress_text()
        if text and text != self._progress_seen:
            self._progress_seen = text
            state = json.loads(text)
            self._watcher.progress(float(state["done"]), float(state["total"]), str(state["unit"]))

    def _progress_text(self) -> str:
        try:
            return self._progress_path.read_text()
        except FileNotFoundError:
            return ""


def _point(line: str) -> MetricPoint | None:
    try:
        return MetricPoint.model_validate_json(line)
    except ValueError:  # a killed process may leave half a line; the step is logged again after the resume
        return None


def tail(path: Path, num_lines: int) -> list[str]:
    """The last non-empty lines of a log."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 64 * 1024))
            lines = [_printable(line) for line in file.read().split(b"\n")]
    except FileNotFoundError:
        return []
    return [line for line in lines if line][-num_lines:]
