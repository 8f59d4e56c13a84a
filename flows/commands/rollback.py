"""`glmflow rollback`: the previous champion becomes the champion again."""

import argparse

from flows.console import page
from infra.registry import open_registry
from infra.settings import go_offline, read_settings


def run(_args: argparse.Namespace) -> int:
    """Roll back, and say what is the champion now."""
    go_offline()
    champion = open_registry(read_settings()).rollback()
    page().print(f"champion is {champion.short}; `glmflow rollback` again undoes this", markup=False)
    return 0
