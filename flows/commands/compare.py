"""`glmflow compare`: two runs side by side, stage by stage, and the way to MLflow's page of them."""

import argparse

from flows.comparison import compare, find_run
from flows.console import page
from flows.platform import Platform
from flows.tracker_pages import TrackerPages
from infra.lineage import Lineage
from infra.settings import go_offline, read_settings

NO_LINK = "in MLflow: no server shows both runs; `glmflow up` starts one"


def run(args: argparse.Namespace) -> int:
    """Print the table."""
    go_offline()
    settings = read_settings()
    lineage = Lineage(settings.resolved_lineage_url())
    first, second = (find_run(name, lineage) for name in (args.first, args.second))
    page().print(compare(first, second, lineage, shows_all=args.all_metrics))
    link = TrackerPages(Platform(settings).mlflow_url, settings.credentials).lifecycles(first.id, second.id)
    page().print(f"in MLflow: {link}" if link else NO_LINK, markup=False, soft_wrap=True)
    return 0
