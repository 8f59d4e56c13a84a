"""kill -9 of the orchestrator: the stage follows it at once, and the next run finishes the work."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.support.launched_stage import is_alive

ROOT = Path(__file__).parents[2]
ORCHESTRATOR = """
import sys
from pathlib import Path
from flows.launch import Launcher, StageCall
from flows.stop import StopSwitch
from infra.lineage import Lineage
from infra.settings import Settings
from infra.stores.local import LocalStore
from tests.support import launched_stage

class Printer:
    def line(self, text): print(text, flush=True)
    def metrics(self, points): pass
    def progress(self, *state): pass

launched_stage.install()
settings = Settings(home=Path(sys.argv[1]))
lineage, store = Lineage(settings.resolved_lineage_url()), LocalStore(settings.store_dir)
launcher = Launcher(settings, lineage, store, StopSwitch(), launched_stage.COMMAND)
config = launched_stage.LaunchedConfig(behaviour="save")
call = StageCall("toy", launched_stage.stage(), config, launched_stage.LaunchedInputs())
key, record = launcher.find_finished(call)
print("outputs", launcher.run(call, key, Printer()).outputs, flush=True)
"""


def start(home: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", ORCHESTRATOR, str(home)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def children_of(pid: int) -> list[int]:
    return [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_the_stage_saves_its_state_and_ends_and_a_rerun_goes_on(tmp_path: Path):
    orchestrator = start(tmp_path)
    while orchestrator.stdout.readline().strip() != "waits":
        pass
    (stage,) = children_of(orchestrator.pid)
    os.kill(orchestrator.pid, signal.SIGKILL)
    orchestrator.wait()
    until = time.monotonic() + 20
    while is_alive(stage):
        assert time.monotonic() < until, "the stage outlives its orchestrator"
        time.sleep(0.02)
    again = start(tmp_path)
    said, _ = again.communicate(timeout=60)
    assert again.returncode == 0
    assert "waits" not in said and "raw_corpus" in said
