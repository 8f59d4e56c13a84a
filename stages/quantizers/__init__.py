"""Quantizers. To add one: write `stages/quantizers/<kind>.py`, then list its kind here."""

from typing import TYPE_CHECKING

from stages.plugins import plugin_union
from stages.quantizers.base import Quantizer

QUANTIZER_KINDS = ("rtn",)

if TYPE_CHECKING:
    AnyQuantizer = Quantizer
else:
    AnyQuantizer = plugin_union(__name__, QUANTIZER_KINDS, Quantizer)
