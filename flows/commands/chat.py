"""`glmflow chat`: talk to a model in the terminal."""

import argparse
import sys
from contextlib import closing

from flows.chat import chat_loop
from flows.find import find_model
from flows.server_child import ServerChild
from infra.settings import read_settings


def run(args: argparse.Namespace) -> int:
    """Load the model in a server process of its own, and chat until the input ends."""
    settings = read_settings()
    with closing(ServerChild(find_model(args.model, settings), settings)) as server:
        chat_loop(server.url(), input, _write, api_key=server.api_key)
    return 0


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
