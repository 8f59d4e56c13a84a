"""`glmflow doctor`: what is installed, what is missing, what to do. Exit code 1 when something needed is missing."""

import argparse
import sys

from flows.doctor import examine
from infra.settings import read_settings


def run(args: argparse.Namespace) -> int:
    """Print one line a finding."""
    findings = examine(read_settings())
    for finding in findings:
        sys.stdout.write(f"{finding.level:8}{finding.subject:14} {finding.text}\n")
    return int(any(finding.level == "missing" for finding in findings))
