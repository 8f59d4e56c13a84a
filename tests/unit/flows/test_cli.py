"""The command line: quick, one sentence an error, exit codes that programs can rely on."""

import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from flows import cli
from infra.errors import BadSpecError, RetryableError, StageFailedError, StopRequestedError

ROOT = Path(__file__).parents[3]
COMMANDS = (
    "run", "retrain", "stage", "explain", "runs", "compare", "promote", "rollback", "serve", "chat", "schema", "doctor",
    "up", "down", "status", "deploy", "bundle",
)  # fmt: skip


def failing_with(error: BaseException):
    def run(_args: object) -> int:
        raise error

    return lambda name: SimpleNamespace(run=run)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GLMFLOW_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (BadSpecError("x: want y, got z"), 2),
        (RetryableError("gone"), 1),
        (StageFailedError("broke"), 1),
        (StopRequestedError("stopped"), 143),
        (KeyboardInterrupt(), 130),
        (ValueError("a bug"), 1),
    ],
)
def test_every_error_is_one_sentence_and_an_exit_code(monkeypatch, capsys, error: BaseException, code: int):
    monkeypatch.setattr(cli, "import_module", failing_with(error))
    assert cli.main(["runs"]) == code
    captured = capsys.readouterr()
    assert captured.err.startswith("glmflow: ") and captured.err.count("\n") == 1 and "Traceback" not in captured.err


def test_the_traceback_of_what_nobody_foresaw_is_in_a_file(monkeypatch, capsys, home: Path):
    monkeypatch.setattr(cli, "import_module", failing_with(ValueError("a bug")))
    cli.main(["runs"])
    assert str(home / "error.log") in capsys.readouterr().err
    assert "ValueError: a bug" in (home / "error.log").read_text()


@pytest.mark.parametrize("argv", [[], ["fly"], ["run", "huge"], ["stage", "clean"], ["serve"]])
def test_a_wrong_command_line_exits_2_with_its_usage(capsys, argv: list[str]):
    with pytest.raises(SystemExit) as ended:
        cli.main(argv)
    assert ended.value.code == 2
    assert "usage: glmflow" in capsys.readouterr().err


def test_every_command_is_a_file_and_every_file_a_command():
    files = {path.stem for path in (ROOT / "flows/commands").glob("*.py")} - {"__init__"}
    assert files == set(COMMANDS)
    parser = cli.build_parser()
    text = parser.format_help()
    assert all(f"\n    {name} " in text for name in COMMANDS)


@pytest.mark.parametrize("seed", ["-1", "x", "1.5", str(2**31)])
def test_a_seed_out_of_range_is_refused_with_what_was_wanted(seed: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as refused:
        cli.build_parser().parse_args(["run", "--seed", seed])
    assert refused.value.code == 2
    assert f"want a whole number from 0 to 2147483647, got '{seed}'" in capsys.readouterr().err


def test_run_takes_its_options_as_documented():
    line = ["run", "tiny", "--input", "a", "--input", "b", "--set", "pack.heldout_ratio=0.1", "--until", "pack"]
    args = cli.build_parser().parse_args([*line, "--seed", "3", "--json"])
    assert (args.recipe, args.input, args.settings) == ("tiny", [Path("a"), Path("b")], ["pack.heldout_ratio=0.1"])
    assert (args.until, args.seed, args.json) == ("pack", 3, True)
    assert cli.build_parser().parse_args(["run"]).recipe == "demo"


def test_help_is_quick():
    times_s = []
    for _ in range(3):
        started = time.monotonic()
        subprocess.run([sys.executable, "-m", "flows.cli", "--help"], check=True, cwd=ROOT, capture_output=True)
        times_s.append(time.monotonic() - started)
    heavy = "{'pydantic', 'prefect', 'sqlalchemy'} & set(sys.modules)"
    loaded = f"import sys, flows.cli; flows.cli.build_parser(); print({heavy})"
    done = subprocess.run([sys.executable, "-c", loaded], check=True, cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "set()\n"
    assert min(times_s) < 2, times_s  # 0.1 s on a quiet machine
