"""`glmflow serve`: a model behind OpenAI's API. The server takes this process's place, and its signals with it."""

import argparse
import os
import sys

from flows.find import find_model
from flows.server_child import serving_command, serving_environment
from infra.settings import read_settings


def run(args: argparse.Namespace) -> int:
    """Become the server; returns only when that fails."""
    settings = read_settings()
    command = serving_command(find_model(args.model, settings), args.host, args.port, is_without_key=args.without_key)
    sys.stdout.flush()
    os.execve(command[0], command, serving_environment(settings))
