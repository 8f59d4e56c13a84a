"""One stage in one process: what its exit code becomes, what is passed on, what is left behind."""

import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from flows.launch import Launcher, StageCall
from flows.stop import StopSwitch
from infra.errors import BadSpecError, RetryableError, StageFailedError, StopRequestedError
from infra.lineage import Lineage, MetricPoint
from infra.settings import Settings
from infra.stores.local import LocalStore
from stages import execution
from tests.support import launched_stage
from tests.support.launched_stage import Behaviour, LaunchedConfig, LaunchedInputs, is_alive


class Recorder:
    def __init__(self, on_line: Callable[[str], None] = lambda text: None) -> None:
        self.lines: list[str] = []
        self.points: list[MetricPoint] = []
        self.states: list[tuple[float, float, str]] = []
        self._on_line = on_line

    def line(self, text: str) -> None:
        self.lines.append(text)
        self._on_line(text)

    def metrics(self, points) -> None:
        self.points += points

    def progress(self, done: float, total: float, unit: str) -> None:
        self.states.append((done, total, unit))


@pytest.fixture
def launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Launcher:
    monkeypatch.setattr(execution, "code_digest", lambda modules: "c" * 64)
    monkeypatch.setattr(execution, "environment", lambda modules, threads: {})
    settings = Settings(home=tmp_path / "home")
    lineage, store = Lineage(settings.resolved_lineage_url()), LocalStore(settings.store_dir)
    return Launcher(settings, lineage, store, StopSwitch(), command=launched_stage.COMMAND)


def call_of(behaviour: Behaviour) -> StageCall:
    return StageCall("toy", launched_stage.stage(), LaunchedConfig(behaviour=behaviour), LaunchedInputs())


def launch(launcher: Launcher, behaviour: Behaviour, recorder: Recorder | None = None):
    call = call_of(behaviour)
    key, _ = launcher.find_finished(call)
    return launcher.run(call, key, recorder or Recorder())


def stop_when_it_waits(text: str) -> None:
    if text == "waits":
        os.kill(os.getpid(), signal.SIGTERM)


def test_a_stage_that_ends_well_gives_its_outputs_and_everything_it_said(launcher: Launcher):
    recorder = Recorder()
    result = launch(launcher, "chat", recorder)
    assert result.outputs["corpus"]["kind"] == "raw_corpus" and not result.is_cached
    assert recorder.lines[:2] == ["behaves: chat", "100%"]
    assert [point.value for point in recorder.points] == [0, 1, 2]
    assert recorder.states == [(3, 3, "steps")]


@pytest.mark.parametrize(
    ("behaviour", "error", "message"),
    [
        ("raise", StageFailedError, r"stage ingest: RuntimeError: the disk is on fire\n  last lines of .*stage\.log"),
        ("refuse", BadSpecError, r"^corpus x: want text, got noise; give it text$"),
        ("retry", RetryableError, r"a file changed while it was read"),
        ("kill", RetryableError, r"killed by SIGKILL, most likely because the machine ran out of memory"),
        ("crash", StageFailedError, r"crashed with SIGSEGV"),
    ],
)
def test_every_way_to_fail_has_its_error_and_its_sentence(launcher: Launcher, behaviour, error, message):
    with pytest.raises(error) as raised:
        launch(launcher, behaviour)
    assert type(raised.value) is error
    assert re.search(message, str(raised.value)), str(raised.value)


@pytest.mark.parametrize("behaviour", ["wait", "save"])
def test_a_stop_ends_the_stage_and_running_it_again_goes_on(launcher: Launcher, behaviour: Behaviour):
    with pytest.raises(StopRequestedError, match="the same command goes on from there"):
        launch(launcher, behaviour, Recorder(stop_when_it_waits))
    if behaviour == "save":
        launcher.stop.signal = None
        assert launch(launcher, "save").outputs


def test_a_stage_that_ignores_the_stop_is_ended_after_the_grace(launcher: Launcher):
    launcher.grace_s = 0.5
    started = time.monotonic()
    with pytest.raises(StopRequestedError):
        launch(launcher, "ignore", Recorder(stop_when_it_waits))
    assert time.monotonic() - started < 15


def test_workers_that_left_the_process_group_are_ended_with_the_stage(launcher: Launcher):
    recorder = Recorder()
    launch(launcher, "spawn", recorder)
    pid = next(int(line.split()[1]) for line in recorder.lines if line.startswith("worker"))
    assert not is_alive(pid)


def test_a_second_interrupt_ends_the_stage_at_once(launcher: Launcher):
    def interrupt_twice(text: str) -> None:
        if text == "waits":
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        launch(launcher, "ignore", Recorder(interrupt_twice))
    assert time.monotonic() - started < 15


def test_what_else_ends_the_launcher_gives_the_stage_time_to_save_its_state(launcher: Launcher):
    def break_off(text: str) -> None:
        if text == "waits":
            raise OSError("the terminal has gone")

    with pytest.raises(OSError, match="the terminal has gone"):
        launch(launcher, "save", Recorder(break_off))
    assert launch(launcher, "save").outputs  # from its saved state: it does not wait again
