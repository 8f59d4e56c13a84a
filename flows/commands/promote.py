"""`glmflow promote`: make a released model the champion, by hand."""

import argparse

from flows.console import page
from infra.registry import ALIASES, open_registry, resolve
from infra.settings import go_offline, read_settings


def run(args: argparse.Namespace) -> int:
    """Promote, and say what is the champion now."""
    go_offline()
    settings = read_settings()
    digest = resolve(args.ref, settings).digest if args.ref in ALIASES else args.ref.split(":")[-1]
    champion = open_registry(settings).promote_digest(digest, ignores_gates=args.even_if_gates_failed)
    page().print(f"champion is {champion.short}; `glmflow rollback` undoes this", markup=False)
    return 0
