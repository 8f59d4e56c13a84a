"""Record the golden files again: `python -m tests.golden.record` prints every value that changed."""

import json
import sys
import tempfile
from pathlib import Path

from tests.golden.chain import run_chain

FOLDER = Path(__file__).parent


def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        for name, now in run_chain(Path(home)).items():
            path = FOLDER / f"{name}.json"
            before = json.loads(path.read_text()) if path.is_file() else {}
            for part in ("outputs", "metrics"):
                for field in sorted(now[part].keys() | before.get(part, {}).keys()):
                    old, new = before.get(part, {}).get(field), now[part].get(field)
                    if old != new:
                        sys.stdout.write(f"{name} {part} {field}: {old} -> {new}\n")
            path.write_text(json.dumps(now, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
