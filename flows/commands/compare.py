"""`glmflow compare`: two runs side by side, stage by stage."""

import argparse

from flows.comparison import compare, find_run
from flows.console import page
from infra.lineage import Lineage
from infra.settings import go_offline, read_settings


def run(args: argparse.Namespace) -> int:
    """Print the table."""
    go_offline()
    settings = read_settings()
    lineage = Lineage(settings.resolved_lineage_url())
    first, second = (find_run(name, lineage) for name in (args.first, args.second))
    page().print(compare(first, second, lineage, shows_all=args.all_metrics))
    return 0
