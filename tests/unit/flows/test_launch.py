"""What the launcher decides without starting anything. (What it does with a real process: tests/integration.)"""

import json
import signal
from pathlib import Path

import pytest

from flows.launch import Launcher, StageCall, _failure, cached_result
from flows.stop import StopSwitch
from infra.errors import BadSpecError, RetryableError, StageFailedError, StopRequestedError
from infra.lineage import Lineage
from infra.settings import Settings
from infra.stores.local import LocalStore
from stages import execution
from tests.support import launched_stage
from tests.support.launched_stage import LaunchedConfig, LaunchedInputs

CALL = StageCall("toy", launched_stage.stage(), LaunchedConfig(), LaunchedInputs())


@pytest.fixture
def launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Launcher:
    monkeypatch.setattr(execution, "code_digest", lambda modules: "c" * 64)
    monkeypatch.setattr(execution, "environment", lambda modules, threads: {})
    settings = Settings(home=tmp_path / "home")
    return Launcher(
        settings, Lineage(settings.resolved_lineage_url()), LocalStore(settings.store_dir), StopSwitch(), command=()
    )


def failure_of(
    tmp_path: Path, code: int, *, message: str = "", is_retryable: bool = False, stop: StopSwitch | None = None
):
    failure = tmp_path / "failure.json"
    if message:
        failure.write_text(json.dumps({"message": message, "is_retryable": is_retryable}))
    log = tmp_path / "stage.log"
    log.write_text("first\nlast\n")
    return _failure(CALL, code, log, failure, 3 << 30, stop=stop or StopSwitch())


@pytest.mark.parametrize(
    ("code", "is_retryable", "error"),
    [
        (1, True, RetryableError),
        (1, False, StageFailedError),
        (2, False, BadSpecError),
        (143, False, StopRequestedError),
        (-signal.SIGTERM, False, StopRequestedError),
        (-signal.SIGKILL, False, RetryableError),
        (-signal.SIGSEGV, False, StageFailedError),
        (77, False, StageFailedError),
    ],
)
def test_the_exit_code_decides_the_error(tmp_path: Path, code: int, is_retryable: bool, error: type[Exception]):
    assert type(failure_of(tmp_path, code, message="why", is_retryable=is_retryable)) is error


def test_a_failure_says_its_sentence_the_log_and_its_last_lines(tmp_path: Path):
    text = str(failure_of(tmp_path, 1, message="stage toy: no space left"))
    assert text.startswith("stage toy: no space left\n  last lines of ")
    assert text.endswith("stage.log:\n    first\n    last")


def test_a_process_that_died_without_a_word_is_said_in_words(tmp_path: Path):
    assert "ran out of memory (it had used up to 3.0 GiB)" in str(failure_of(tmp_path, -signal.SIGKILL))
    assert str(failure_of(tmp_path, 2)).startswith("stage toy: its input was refused")


def test_a_kill_after_a_stop_was_asked_for_is_a_stop(tmp_path: Path):
    stop = StopSwitch()
    stop.request(signal.SIGINT)
    assert isinstance(failure_of(tmp_path, -signal.SIGKILL, stop=stop), StopRequestedError)


def test_a_finished_call_is_found_by_its_key_alone(launcher: Launcher):
    outputs = execution.execute(CALL.stage, CALL.config, CALL.inputs, seed=0, settings=launcher.settings)
    key, record = launcher.find_finished(CALL)
    assert record is not None
    result = cached_result(CALL, key, record, 0.1)
    assert result.outputs == outputs.model_dump(mode="json") and result.is_cached and result.process_s == 0


def test_a_call_whose_artifact_was_lost_is_not_finished(launcher: Launcher):
    outputs = execution.execute(CALL.stage, CALL.config, CALL.inputs, seed=0, settings=launcher.settings)
    (launcher.store.get(outputs.corpus) / "text").unlink()
    assert launcher.find_finished(CALL)[1] is None


def test_the_child_gets_the_settings_and_no_run_id_of_a_tracker(launcher: Launcher, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MLFLOW_RUN_ID", "somebody-else")
    launcher.settings = launcher.settings.model_copy(update={"store_url": "s3://bucket", "store_cache_bytes": 7})
    environment = launcher._environment()
    assert (environment["GLMFLOW_STORE_URL"], environment["GLMFLOW_STORE_CACHE_BYTES"]) == ("s3://bucket", "7")
    assert environment["GLMFLOW_HOME"] == str(launcher.settings.root)
    assert environment["HF_HUB_OFFLINE"] == "1"
    assert "MLFLOW_RUN_ID" not in environment
