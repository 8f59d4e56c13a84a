from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from models.weights_file import write_safetensors

TENSORS = {
    "b.small": torch.arange(3.0),
    "a.matrix": torch.randn(7, 16),
    "c.half": torch.randn(32, 2).half(),
    "d.packed": torch.arange(-64, 64, dtype=torch.int8).view(2, 64).T,
    "e.brain": torch.randn(32).bfloat16(),
    "f.scalar": torch.tensor(2.5),
}


def test_what_is_written_is_what_the_safetensors_reader_reads(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "w.safetensors", TENSORS)
    loaded = load_file(tmp_path / "w.safetensors")
    assert loaded.keys() == TENSORS.keys()
    assert all(loaded[name].dtype == t.dtype and loaded[name].equal(t) for name, t in TENSORS.items())
    with safe_open(tmp_path / "w.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt"}


def test_tensors_of_whole_lines_start_at_aligned_addresses(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "w.safetensors", TENSORS)
    with safe_open(tmp_path / "w.safetensors", "pt") as file:
        addresses = {name: file.get_tensor(name).data_ptr() for name in TENSORS}
    assert all(addresses[name] % 64 == 0 for name in TENSORS if TENSORS[name].nbytes % 64 == 0)


def test_the_order_of_the_tensors_does_not_change_the_bytes(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "one", TENSORS)
    write_safetensors(tmp_path / "two", dict(reversed(TENSORS.items())))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_types_that_no_weight_has_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"x: want one of .*'F32'.*, got torch\.complex64"):
        write_safetensors(tmp_path / "w", {"x": torch.zeros(1, dtype=torch.complex64)})
