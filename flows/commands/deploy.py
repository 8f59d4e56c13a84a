"""`glmflow deploy`: make the platform's deployments and schedules those of prefect.yaml; what left the file goes."""

import argparse
import asyncio
import os
import sys

from flows.prefect_api import check_password, platform_api_url, prefect_environment, use_api
from infra.errors import BadSpecError
from infra.settings import go_offline, read_settings


def run(args: argparse.Namespace) -> int:
    """Register the file's deployments and remove the others that came from it."""
    go_offline()
    settings = read_settings()
    url = os.environ.get("PREFECT_API_URL", "") or platform_api_url(settings)
    if not url:
        raise BadSpecError(f"deploy: want a platform that runs on {settings.root}, got none; `glmflow up` starts it")
    os.environ.update(prefect_environment(settings))
    use_api(url)
    check_password(url, settings)
    from flows.deploy import DEPLOY_FILE, deploy_file

    report = asyncio.run(deploy_file(args.file or DEPLOY_FILE, settings))
    sys.stdout.write("\n".join(report.lines()) + "\n")
    return 0
