"""Writing safetensors so that every matrix starts at an address that vector units like.

safetensors' own writer aligns tensors to 8 bytes only. Readers map the file into memory, and matrix products pick other
instructions, with another order of summation, for unaligned operands: the same weights would give logits that differ in
the last bit. So tensors whose size is a multiple of 64 bytes come first and the header is padded: all of them start at
a multiple of 64 bytes. The format is that of the safetensors documentation; the reader stays theirs.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

_ALIGNMENT_BYTES = 64
_DTYPE_NAMES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int8: "I8"}


def write_safetensors(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """The same tensors give the same bytes."""
    stored = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    names = sorted(stored, key=lambda name: (stored[name].nbytes % _ALIGNMENT_BYTES != 0, name))
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name in names:
        tensor = stored[name]
        if tensor.dtype not in _DTYPE_NAMES:
            raise ValueError(f"{name}: want one of {sorted(_DTYPE_NAMES.values())}, got {tensor.dtype}; convert it")
        header[name] = {
            "dtype": _DTYPE_NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [offset, offset + tensor.nbytes],
        }
        offset += tensor.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % _ALIGNMENT_BYTES)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for name in names:
            file.write(stored[name].reshape(-1).view(torch.uint8).numpy().tobytes())
