"""`glmflow down`: end the platform of this home; runs of its worker save their state first."""

import argparse
import sys

from flows.platform import Platform
from infra.settings import read_settings


def run(args: argparse.Namespace) -> int:
    """End everything that `glmflow up` started."""
    ended = Platform(read_settings()).down()
    sys.stdout.write(f"ended {', '.join(ended)}\n" if ended else "nothing was running\n")
    return 0
