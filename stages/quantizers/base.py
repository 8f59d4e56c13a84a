"""What a quantizer is: a frozen config that packs a model's weights in place."""

from abc import abstractmethod
from typing import Any, Literal

from pydantic import Field

from stages.plugins import Plugin


class Quantizer(Plugin):
    """Base of every quantizer."""

    bits: Literal[4, 8] = Field(description="bits of a weight: 8 (one scale a row) or 4 (one scale a group)")

    @abstractmethod
    def quantize(self, model: Any) -> None:
        """Pack the weights of a GlmForCausalLM in place; its configuration says so afterwards."""
