"""A stage that misbehaves on demand, and the entry point that runs it in a child process like any other.

It borrows the name of a real stage; its key is made of constants, so that tests need no source tree of their own.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from pydantic import Field

import stages.__main__ as entry
from infra.artifacts import RawCorpus, SourceManifest
from infra.errors import BadSpecError, RetryableError
from stages import execution
from stages.contract import Headline, Stage, StageContext, StageModel

COMMAND = (
    sys.executable,
    "-P",
    "-c",
    "from tests.support.launched_stage import main; raise SystemExit(main())",
)
Behaviour = Literal["write", "raise", "refuse", "retry", "kill", "crash", "wait", "save", "ignore", "spawn", "chat"]
NUM_SECONDS = 60


class LaunchedConfig(StageModel):
    text: str = Field(default="hello", description="what to write")
    behaviour: Behaviour = Field(default="write", description="what to do")


class LaunchedInputs(StageModel):
    sources: SourceManifest | None = None


class LaunchedOutputs(StageModel):
    corpus: RawCorpus


def run(config: LaunchedConfig, inputs: LaunchedInputs, ctx: StageContext) -> LaunchedOutputs:
    ctx.log(f"behaves: {config.behaviour}")
    for step in range(3):
        ctx.log_metric("ingest/count", step, step)
    ctx.progress(3, 3, "steps")
    misbehave(config.behaviour, ctx)
    out = ctx.scratch / "corpus"
    out.mkdir()
    (out / "text").write_text(config.text)
    return LaunchedOutputs(corpus=ctx.store.put(out, RawCorpus))


def misbehave(behaviour: Behaviour, ctx: StageContext) -> None:
    if behaviour == "raise":
        raise RuntimeError("the disk is on fire")
    if behaviour == "refuse":
        raise BadSpecError("corpus x: want text, got noise; give it text")
    if behaviour == "retry" and not (ctx.checkpoint_dir / "tried").exists():
        (ctx.checkpoint_dir / "tried").touch()
        raise RetryableError("a file changed while it was read")
    if behaviour in ("kill", "crash"):
        os.kill(os.getpid(), signal.SIGKILL if behaviour == "kill" else signal.SIGSEGV)
    if behaviour == "chat":
        ctx.log("10%\r50%\r100%\r")
    if behaviour == "spawn":  # a worker that leaves the group, and does not care about its parent
        worker = subprocess.Popen(["sleep", str(NUM_SECONDS)], start_new_session=True)
        ctx.log(f"worker {worker.pid}")
    if behaviour in ("wait", "save", "ignore"):
        wait(behaviour, ctx)


def wait(behaviour: Behaviour, ctx: StageContext) -> None:
    """`wait` is interrupted, `save` ends at its checkpoint, `ignore` does not obey at all."""
    if behaviour == "ignore":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    done = ctx.checkpoint_dir / "done"
    if done.exists():
        return
    ctx.log("waits")
    for _ in range(NUM_SECONDS * 100):
        time.sleep(0.01)
        if behaviour == "save" and ctx.stop_requested:
            done.touch()
            ctx.check_stop()


def stage(*, checkpoints: bool = True) -> Stage[Any, Any, Any]:
    return Stage(
        name="ingest",
        config=LaunchedConfig,
        inputs=LaunchedInputs,
        outputs=LaunchedOutputs,
        run=run,
        metrics=("ingest/count",),
        headline=Headline("count", after="ingest/count"),
        checkpoints=checkpoints,
    )


def install(*modules: ModuleType) -> None:
    """Make these modules find this stage under every name, with constant digests."""
    execution.code_digest = lambda modules: "c" * 64
    execution.environment = lambda modules, threads: {}
    for module in modules:
        module.load_stage = lambda name: stage()


def main() -> int:
    install(entry)
    spec = Path(sys.argv[sys.argv.index("--spec") + 1]).read_text()
    entry.load_stage = lambda name: stage(checkpoints='"wait"' not in spec)
    return entry.main()


def is_alive(pid: int) -> bool:
    """False for a process that has ended, reaped or not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
