"""Instruction tasks. To add one: write `stages/tasks/<kind>.py`, then list its kind here."""

from typing import TYPE_CHECKING

from stages.plugins import plugin_union
from stages.tasks.base import InstructionTask

TASK_KINDS = (
    "arithmetic",
    "heading",
    "language",
    "library",
    "manual",
    "returns_value",
    "sentiment",
    "symbol_name",
)

if TYPE_CHECKING:
    AnyTask = InstructionTask
else:
    AnyTask = plugin_union(__name__, TASK_KINDS, InstructionTask)
