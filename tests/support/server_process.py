"""A server around a scripted engine in a process of its own."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
CODE = """
import sys
from infra.server.app import create_app
from infra.server.process import bind, serve, url_of
from infra.server.protocol import Access
from tests.support.scripted_engine import ScriptedEngine
listener = bind("127.0.0.1", 0)
engine = ScriptedEngine(sys.argv[1], is_endless=sys.argv[2] == "endless", delay_s=0.01)
engine.max_context_tokens = int(sys.argv[3])
access = Access(sys.argv[4], int(sys.argv[5]))
serve(create_app(engine, access), listener, lambda: print(url_of(listener), flush=True))
print(engine.num_sampled, flush=True)
"""


@contextmanager
def scripted_server(
    reply: str = "abc",
    *,
    is_endless: bool = False,
    max_context_tokens: int = 100_000,
    key: str = "",
    max_body_bytes: int = 2**20,
) -> Iterator[tuple[subprocess.Popen, str]]:
    """The process and its URL; after its end it has printed how many tokens were sampled."""
    arguments = [reply, "endless" if is_endless else "once", str(max_context_tokens), key, str(max_body_bytes)]
    command = [sys.executable, "-c", CODE, *arguments]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()
