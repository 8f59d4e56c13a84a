"""`glmflow status`: what of the platform runs, where and since when. Exit code 1 when something does not."""

import argparse
import sys

from rich.table import Table

from flows.console import page
from flows.headline import short_bytes
from flows.platform import Platform, ServiceStatus
from infra.settings import read_settings

STATES_UP = ("running",)


def run(args: argparse.Namespace) -> int:
    """Print one line a service."""
    services = Platform(read_settings()).status()
    table = Table()
    for name in ("service", "state", "address", "since (UTC)", "process", "memory"):
        table.add_column(name, no_wrap=True)
    for service in services:
        table.add_row(*_cells(service))
    page().print(table)
    is_up = all(service.state in STATES_UP for service in services)
    if not is_up:
        sys.stderr.write("glmflow: not everything runs; `glmflow up` starts what is missing\n")
    return 0 if is_up else 1


def _cells(service: ServiceStatus) -> list[str]:
    since = f"{service.since:%Y-%m-%d %H:%M:%S}" if service.since else ""
    memory = short_bytes(service.rss_bytes) if service.rss_bytes else ""
    return [service.name, service.state, service.url, since, str(service.pid or ""), memory]
