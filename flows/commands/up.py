"""`glmflow up`: Prefect, MLflow, metrics and a worker on this machine, with the deployments of prefect.yaml."""

import argparse
import asyncio
import sys
import time

from flows.headline import short_duration
from flows.platform import Platform
from infra.settings import go_offline, read_settings


def run(args: argparse.Namespace) -> int:
    """Start what does not run yet; print the addresses."""
    go_offline()
    platform, started_at_s = Platform(read_settings()), time.monotonic()
    started = platform.up(lambda: _prepare(platform))
    took = short_duration(time.monotonic() - started_at_s)
    said = f"started {', '.join(started)} in {took}" if started else "everything was running"
    lines = [
        f"{said}; `glmflow status` shows it, `glmflow down` ends it",
        f"run and schedule:  {platform.api_url.removesuffix('/api')}/deployments",
        f"compare:           {platform.mlflow_url}",
        f"Prometheus:        {platform.metrics_url}",
        f"logs:              {platform.settings.platform_dir}",
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def _prepare(platform: Platform) -> None:
    """Prefect reads its environment when it is imported: not before the platform has set it."""
    from flows.deploy import prepare

    asyncio.run(prepare(platform.settings))
