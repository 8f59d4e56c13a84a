"""Round to nearest: every weight to the closest step of its scale. Needs no data."""

from typing import Any, Literal

from pydantic import Field

from stages.quantizers.base import Quantizer


class RoundToNearest(Quantizer):
    """INT8 with a scale for each row, or INT4 with a scale for each group of input columns."""

    kind: Literal["rtn"] = "rtn"
    group_size: int = Field(default=64, ge=2, le=1024, multiple_of=2, description="input columns a scale in INT4")

    def quantize(self, model: Any) -> None:
        """Pack in place."""
        from models.quantized import quantize_model

        quantize_model(model, bits=self.bits, group_size=self.group_size)
