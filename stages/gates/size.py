"""Whether the packed models are as small as they were made for."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from stages.evidence import Evidence
from stages.gates.base import Gate, GateFamily


class SizeGates(GateFamily):
    """Whole weight files, embedding and norms in full precision included, beside the full-precision file."""

    kind: Literal["size"] = "size"
    max_int8_file_ratio: float = Field(default=0.55, gt=0, description="INT8 weight file / the full-precision one")
    max_int4_file_ratio: float = Field(default=0.45, gt=0, description="INT4 weight file / the full-precision one")

    def judge(self, evidence: Evidence) -> Iterator[Gate]:
        """One for each packed model."""
        for name, limit in (("int8", self.max_int8_file_ratio), ("int4", self.max_int4_file_ratio)):
            yield Gate(
                name=f"{name}_file_size",
                about=f"bytes of the {name.upper()} weight file, share of the full-precision file's",
                value=evidence.weight_bytes[name] / evidence.weight_bytes["ppo"],
                bound="at most",
                threshold=limit,
            )
