"""Laws of the facts on a model card."""

import hashlib
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from safetensors.torch import save_file

from stages.card_facts import count_by_task, data_facts, model_facts


def write_corpus(directory: Path) -> None:
    rows = [
        ("pip:numpy/a.py", "BSD", "code", "code", "abc"),
        ("pip:numpy/b.py", "BSD", "code", "code", "de"),
        ("deb:manpages-zh/ls.1", "GPL", "zh", "manual", "\u4f60\u597d"),
    ]
    names = ("source", "license", "lang", "domain", "text")
    for index, part in enumerate((rows[:2], rows[2:])):
        columns = {name: [row[place] for row in part] for place, name in enumerate(names)}
        pq.write_table(pa.table(columns), directory / f"part-{index:05}.parquet")


def test_documents_and_utf8_bytes_are_counted_by_every_column(tmp_path: Path):
    write_corpus(tmp_path)
    facts = data_facts(tmp_path)
    assert (facts.num_documents, facts.num_bytes) == (3, 11)
    assert [(s.label, s.num_documents, s.num_bytes) for s in facts.licenses] == [("GPL", 1, 6), ("BSD", 2, 5)]
    assert [s.label for s in facts.sources] == ["deb:manpages-zh", "pip:numpy"]
    for shares in (facts.licenses, facts.languages, facts.domains, facts.sources):
        assert sum(s.num_documents for s in shares) == 3
        assert sum(s.num_bytes for s in shares) == 11


def test_the_header_of_a_weight_file_is_told_without_loading_it(tmp_path: Path):
    weights = {"a": torch.zeros(2, 3), "b": torch.zeros(4, dtype=torch.int8)}
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    (tmp_path / "config.json").write_text(json.dumps({"hidden_size": 3}))
    facts = model_facts("x", tmp_path, "d" * 64, 7)
    data = (tmp_path / "model.safetensors").read_bytes()
    assert (facts.num_tensors, facts.num_elements, facts.dtypes) == (2, 10, ("F32", "I8"))
    assert (facts.weights_bytes, facts.weights_sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert facts.config == {"hidden_size": 3}


def test_instructions_are_counted_by_task_and_language():
    lines = [json.dumps({"task": task, "lang": lang}) for task, lang in (("b", "en"), ("a", "zh"), ("b", "en"))]
    assert count_by_task(lines) == (("a", "zh", 1), ("b", "en", 2))
