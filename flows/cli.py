"""The `glmflow` command line. Errors are one sentence; exit codes: 0 done, 1 failed, 2 refused, 130/143 stopped."""

import argparse
import sys
import time
import traceback
from importlib import import_module
from pathlib import Path

EXIT_DONE, EXIT_FAILED, EXIT_BAD_SPEC, EXIT_INTERRUPTED, EXIT_STOPPED = 0, 1, 2, 130, 143
RECIPES = ("demo", "tiny")
_MODEL_HELP = "an alias (champion, candidate, previous), a digest prefix as `explain` shows it, or a directory"


def build_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line; it imports nothing of ours, so that --help is quick."""
    parser = argparse.ArgumentParser(prog="glmflow", description="Own the whole life of your language model.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_run(commands.add_parser("run", help="run a recipe: documents in, a served model out"))
    _add_retrain(commands.add_parser("retrain", help="train on changed documents; only a better model is promoted"))
    stage = commands.add_parser("stage", help="run one stage from a spec file, in this process")
    stage.add_argument("name", metavar="NAME")
    stage.add_argument("--spec", type=Path, required=True, help='JSON: {"config": {...}, "inputs": {...}, "seed": 0}')
    explain = commands.add_parser("explain", help="what made an artifact, as a tree down to the source files")
    explain.add_argument("ref", metavar="REF", help=_MODEL_HELP)
    explain.add_argument("--all-files", action="store_true", help="every source file, not the first few of each source")
    runs = commands.add_parser("runs", help="list the runs, newest first")
    runs.add_argument("--limit", type=int, default=20, help="how many (default 20)")
    compare = commands.add_parser("compare", help="two runs side by side, stage by stage")
    for name in ("first", "second"):
        compare.add_argument(name, metavar="RUN", help="a run as `runs` lists it, the start of one, or latest")
    compare.add_argument("--all-metrics", action="store_true", help="every metric, not each stage's main ones")
    promote = commands.add_parser("promote", help="make a released model the champion")
    promote.add_argument("ref", metavar="REF", help="candidate, previous, or a digest prefix")
    promote.add_argument("--even-if-gates-failed", action="store_true", help="promote what failed its gates, too")
    commands.add_parser("rollback", help="make the previous champion the champion again")
    serve = commands.add_parser("serve", help="serve a model over HTTP (OpenAI's API)")
    serve.add_argument("model", metavar="MODEL", help=_MODEL_HELP)
    serve.add_argument("--host", default="127.0.0.1")
    serve.add_argument("--port", type=int, default=8000, help="0 takes a free one (default 8000)")
    serve.add_argument("--without-key", action="store_true", help="let other machines in without GLMFLOW_API_KEY, too")
    chat = commands.add_parser("chat", help="talk to a model in the terminal")
    chat.add_argument("model", metavar="MODEL", help=_MODEL_HELP)
    bundle = commands.add_parser("bundle", help="one archive that installs and serves with the network off")
    bundle.add_argument("models", nargs="*", metavar="MODEL", help=_MODEL_HELP)
    bundle.add_argument("--output", type=Path, default=Path("glmflow-bundle.tar"), metavar="FILE")
    bundle.add_argument("--wheels", type=Path, metavar="FOLDER", help="wheels made before; default: made now")
    bundle.add_argument(
        "--image", type=Path, action="append", default=[], metavar="FILE",
        help="a container image as `docker save` writes it; may be repeated",
    )  # fmt: skip
    schema = commands.add_parser("schema", help="every config field of a stage: meaning, range, default")
    schema.add_argument("stage", metavar="STAGE")
    schema.add_argument("--json", action="store_true", help="the JSON schema of config and inputs")
    commands.add_parser("doctor", help="what is installed, what is missing, what to do")
    commands.add_parser("up", help="start Prefect, MLflow and a worker on this machine")
    commands.add_parser("down", help="end what `up` started")
    commands.add_parser("status", help="what of the platform runs, where and since when")
    deploy = commands.add_parser("deploy", help="make the platform's deployments and schedules those of prefect.yaml")
    deploy.add_argument("--file", type=Path, metavar="FILE", help="instead of the prefect.yaml that comes with glmflow")
    return parser


def _seed(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) < 2**31):
        raise argparse.ArgumentTypeError(f"want a whole number from 0 to {2**31 - 1}, got {text!r}")
    return int(text)


def _add_run(run: argparse.ArgumentParser) -> None:
    _add_recipe(run)
    run.add_argument("--until", metavar="STAGE", help="stop after this stage")


def _add_retrain(retrain: argparse.ArgumentParser) -> None:
    _add_recipe(retrain)
    retrain.add_argument("--accept-drift", action="store_true", help="go on with a corpus unlike the champion's")
    retrain.add_argument("--force", action="store_true", help="train although the documents are not new")
    retrain.add_argument(
        "--freeze-again", action="store_true", help="compare on the present champion's held-out sets from now on"
    )


def _add_recipe(run: argparse.ArgumentParser) -> None:
    """What `run` and `retrain` share."""
    run.add_argument(
        "recipe", nargs="?", default="demo", choices=RECIPES, metavar="RECIPE", help="demo (default) or tiny"
    )
    run.add_argument(
        "--input", action="append", type=Path, default=[], metavar="PATH",
        help="your own documents instead of the demonstration corpus: a folder or a file; may be repeated",
    )  # fmt: skip
    run.add_argument(
        "--set", action="append", default=[], metavar="STAGE.FIELD=VALUE", dest="settings",
        help="change one setting of the recipe; may be repeated; `glmflow schema STAGE` lists the fields",
    )  # fmt: skip
    run.add_argument("--seed", type=_seed, default=0, help="seed of everything random (default 0)")
    run.add_argument("--json", action="store_true", help="print the summary as one JSON document")
    run.add_argument("--verbose", action="store_true", help="show the stages' logs as well")


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    asked_at_s = time.monotonic()
    args = build_parser().parse_args(argv)
    args.asked_at_s = asked_at_s
    from infra.errors import GlmflowError

    try:
        return int(import_module(f"flows.commands.{args.command}").run(args))
    except GlmflowError as error:
        return _say(error, _exit_code(error))
    except KeyboardInterrupt:
        return _say("stopped", EXIT_INTERRUPTED)
    except (FileExistsError, NotADirectoryError, PermissionError) as error:
        return _say(f"GLMFLOW_HOME: want a folder that can be written to, got {error}; set another", EXIT_BAD_SPEC)
    except BrokenPipeError:  # the reader of our output has gone, as with `| head`
        sys.stderr.close()
        return EXIT_DONE
    except Exception as error:  # the door: what nobody foresaw is one sentence too, with its traceback in a file
        return _say(f"{type(error).__name__}: {error} ({_write_traceback()})", EXIT_FAILED)


def _exit_code(error: Exception) -> int:
    from infra.errors import BadSpecError, StopRequestedError

    codes = {BadSpecError: EXIT_BAD_SPEC, StopRequestedError: EXIT_STOPPED}
    return next((code for kind, code in codes.items() if isinstance(error, kind)), EXIT_FAILED)


def _say(message: object, code: int) -> int:
    print(f"glmflow: {message}", file=sys.stderr)
    return code


def _write_traceback() -> str:
    from infra.errors import BadSpecError
    from infra.settings import read_settings

    path = Path("error.log")
    try:
        path = read_settings().root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(traceback.format_exc())
    except (OSError, BadSpecError) as error:
        return f"its traceback could not be written to {path}: {error}"
    return f"traceback in {path}"


if __name__ == "__main__":
    raise SystemExit(main())
