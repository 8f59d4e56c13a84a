"""Release gates. To add a family: write `stages/gates/<kind>.py`, then list its kind here."""

from typing import TYPE_CHECKING

from stages.gates.base import GateFamily
from stages.plugins import plugin_union

GATE_KINDS = ("learning", "alignment", "quantization", "size")

if TYPE_CHECKING:
    AnyGates = GateFamily
else:
    AnyGates = plugin_union(__name__, GATE_KINDS, GateFamily)
