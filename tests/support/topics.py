"""Real English text that comes with Python: the paragraphs of its help topics, as documents."""

import json
from pathlib import Path
from pydoc_data.topics import topics

MIN_PARAGRAPH_CHARS = 200


def write_topics(folder: Path) -> None:
    """One file of JSON lines, about 300 kB."""
    folder.mkdir(parents=True)
    paragraphs = [text.strip() for topic in topics.values() for text in topic.split("\n\n")]
    rows = [
        {"text": text, "license": "PSF-2.0", "source": "pydoc"}
        for text in paragraphs
        if len(text) >= MIN_PARAGRAPH_CHARS
    ]
    (folder / "topics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
