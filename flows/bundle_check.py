"""Is every file of this bundle the one that was packed? `python3 check.py`, before anything is installed.

Needs nothing but Python, because it runs where nothing is installed yet.
"""

import hashlib
import json
import sys
from pathlib import Path

MANIFEST = "manifest.json"
FOLDERS = ("wheels", "images", "models")  # nothing may stand in them that was not packed
EXIT_WHOLE, EXIT_DAMAGED = 0, 2


def _sha256(path: Path) -> str:
    """SHA-256 of a file's bytes, lower-case hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def problems(folder: Path) -> list[str]:
    """What is not as it was packed, a line each."""
    wanted: dict[str, str] = json.loads((folder / MANIFEST).read_text())["files"]
    found = {
        path.relative_to(folder).as_posix() for name in FOLDERS for path in (folder / name).rglob("*") if path.is_file()
    }
    said = [f"{path}: was not packed" for path in sorted(found - wanted.keys())]
    for path, digest in wanted.items():
        if not (folder / path).is_file():
            said.append(f"{path}: is missing")
        elif _sha256(folder / path) != digest:
            said.append(f"{path}: want SHA-256 {digest[:12]}..., got other bytes")
    return said


def main(folder: Path) -> int:
    """Say what is wrong, if anything; returns the exit code."""
    try:
        said = problems(folder)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        said = [f"{MANIFEST}: want a bundle's list of files, got {type(error).__name__}: {error}"]
    for line in said:
        sys.stderr.write(f"{line}; copy the bundle again and do not install this one\n")
    return EXIT_DAMAGED if said else EXIT_WHOLE


if __name__ == "__main__":
    raise SystemExit(main(Path(__file__).resolve().parent))
