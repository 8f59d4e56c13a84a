"""Real English text that comes with Python: the paragraphs of its help topics, as documents."""

import json
from collections.abc import Iterable
from pathlib import Path
from pydoc_data.topics import topics

MIN_PARAGRAPH_CHARS = 200


def paragraphs() -> list[str]:
    """All of them, about 800."""
    found = [text.strip() for topic in topics.values() for text in topic.split("\n\n")]
    return [text for text in found if len(text) >= MIN_PARAGRAPH_CHARS]


def write_topics(folder: Path, texts: Iterable[str] | None = None) -> Path:
    """One file of JSON lines, about 300 kB when it holds every paragraph."""
    folder.mkdir(parents=True)
    rows = [{"text": text, "license": "PSF-2.0", "source": "pydoc"} for text in texts or paragraphs()]
    (folder / "topics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder
