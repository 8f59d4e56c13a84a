"""What one lifecycle run has to tell the tracker, on disk, until it has been delivered.

`<folder>/<lifecycle id>.jsonl` holds one operation a line, appended by the run's process, which keeps the file locked
while it lives; `<lifecycle id>.state.json` says how far it was delivered and which tracker run each of ours became.
Times are in the operations, so delivering one twice gives the same rows.
"""

import fcntl
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

Operation = dict[str, Any]


class DeliveryState(BaseModel):
    """How far a journal was delivered."""

    model_config = ConfigDict(extra="forbid")
    offset: int = 0
    runs: dict[str, str] = {}  # our run name -> the tracker's run id
    open_runs: list[str] = []
    num_rejected: int = 0
    problem: str = ""


class JournalWriter:
    """The run's side: append operations. A full disk or a lost folder is remembered in `problem`, never raised."""

    def __init__(self, path: Path) -> None:
        self.problem = ""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a", encoding="utf-8")
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def append(self, operation: Operation) -> None:
        """Write one operation; it is safe from a crash of this process when this returns."""
        try:
            self._file.write(json.dumps(operation) + "\n")
            self._file.flush()
        except OSError as error:
            self.problem = f"{self._file.name}: {error.strerror}"

    def close(self) -> None:
        """Release the file; nothing is appended any more."""
        self._file.close()


class JournalReader:
    """The delivery's side: what is still to be delivered."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.state_path = path.with_suffix(".state.json")
        text = self.state_path.read_text() if self.state_path.is_file() else "{}"
        self.state = DeliveryState.model_validate_json(text)

    def pending(self) -> Iterator[tuple[Operation, int]]:
        """Undelivered operations, each with the offset that follows it."""
        with self.path.open("rb") as file:
            file.seek(self.state.offset)
            offset = self.state.offset
            for line in file:
                if not line.endswith(b"\n"):  # being written, or cut off by a crash
                    return
                offset += len(line)
                yield json.loads(line), offset

    def save(self) -> None:
        """Write the state."""
        partial = self.state_path.with_suffix(".partial")
        partial.write_text(self.state.model_dump_json())
        partial.replace(self.state_path)

    def num_pending(self) -> int:
        """How many operations are still to be delivered."""
        return sum(1 for _ in self.pending())

    def remove(self) -> None:
        """Everything was delivered and the run is over."""
        self.path.unlink()
        self.state_path.unlink(missing_ok=True)
        self.path.with_suffix(".lock").unlink(missing_ok=True)

    def is_abandoned(self) -> bool:
        """True when the process that wrote it has ended."""
        with self.path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True
