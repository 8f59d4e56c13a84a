"""Run one stage from the command line, as a container does: `python -m stages clean --spec spec.json`."""

import argparse
import json
import sys
import traceback
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from infra.errors import BadSpecError, GlmflowError, RetryableError, StopRequestedError
from infra.process import die_with_parent
from infra.settings import Settings, go_offline, read_settings
from stages import STAGE_NAMES, load_stage
from stages.contract import Stage, StageModel
from stages.execution import execute, limit_threads

EXIT_DONE = 0
EXIT_FAILED = 1  # may be retried
EXIT_BAD_SPEC = 2  # never retried
EXIT_STOPPED = 143  # stopped on request; running it again goes on


class Spec(BaseModel):
    """The file given with --spec."""

    model_config = ConfigDict(extra="forbid")
    config: dict[str, Any] = {}
    inputs: dict[str, Any] = {}
    seed: int = Field(default=0, ge=0, lt=2**31)


def main(argv: list[str] | None = None) -> int:
    """Run the stage named on the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m stages")
    parser.add_argument("stage", choices=STAGE_NAMES)
    parser.add_argument("--spec", type=Path, help='JSON: {"config": {...}, "inputs": {...}, "seed": 0}')
    parser.add_argument("--schema", action="store_true", help="print the JSON schema of config and inputs, and stop")
    parser.add_argument("--failure", type=Path, help="where to write, on a failure, its sentence and whether to retry")
    args = parser.parse_args(argv)
    die_with_parent()
    go_offline()
    try:
        settings = read_settings()
    except BadSpecError as error:
        print(error, file=sys.stderr)
        return EXIT_BAD_SPEC
    limit_threads(settings.threads)
    stage = load_stage(args.stage)
    if args.schema:
        schema = {"config": stage.config.model_json_schema(), "inputs": stage.inputs.model_json_schema()}
        print(json.dumps(schema, indent=2))
        return EXIT_DONE
    if args.spec is None:
        parser.error(f"stage {stage.name} needs --spec FILE (or --schema to see what goes in it)")
    return run_spec(stage, args.spec, settings, args.failure)


def run_spec(stage: Stage[Any, Any, Any], spec_path: Path, settings: Settings, failure_path: Path | None = None) -> int:
    """Run one stage from its spec file; prints the outputs, or one sentence that says what is wrong."""
    try:
        config, inputs, seed = read_spec(stage, spec_path)
        outputs = execute(stage, config, inputs, seed=seed, settings=settings)
    except BadSpecError as error:
        return _fail(EXIT_BAD_SPEC, str(error), failure_path)
    except StopRequestedError as error:
        return _fail(EXIT_STOPPED, f"stage {stage.name}: {error}", failure_path)
    except GlmflowError as error:
        message = f"stage {stage.name}: {error}"
        return _fail(EXIT_FAILED, message, failure_path, is_retryable=isinstance(error, RetryableError))
    except Exception as error:  # the door: whatever a stage raises becomes an exit code, with its traceback in the log
        traceback.print_exc()
        return _fail(EXIT_FAILED, f"stage {stage.name}: {type(error).__name__}: {error}", failure_path)
    print(outputs.model_dump_json())
    return EXIT_DONE


def _fail(code: int, message: str, failure_path: Path | None, *, is_retryable: bool = False) -> int:
    """Say what is wrong, in the log and to whoever started this process."""
    print(message, file=sys.stderr)
    if failure_path is not None:
        failure_path.write_text(json.dumps({"message": message, "is_retryable": is_retryable}))
    return code


def read_spec(stage: Stage[Any, Any, Any], spec_path: Path) -> tuple[StageModel, StageModel, int]:
    """Config, inputs and seed from a spec file. Raises BadSpecError that names every wrong field."""
    try:
        spec = Spec.model_validate_json(spec_path.read_bytes())
        return stage.config.model_validate(spec.config), stage.inputs.model_validate(spec.inputs), spec.seed
    except OSError as error:
        raise BadSpecError(f"spec {spec_path}: want a readable JSON file, got {error.strerror}") from error
    except ValidationError as error:
        raise BadSpecError(f"stage {stage.name}: spec {spec_path}: {describe(error)}; see --schema") from error


def describe(error: ValidationError) -> str:
    """Every problem of a validation error in one line: `field: what is wrong, got value`."""
    return "; ".join(_problem(item["loc"], item["msg"], item["input"]) for item in error.errors(include_url=False))


def _problem(place: tuple[int | str, ...], message: str, value: object) -> str:
    """Our own validators name the field and the value themselves."""
    ours = message.removeprefix("Value error, ")
    where = f"{'.'.join(map(str, place))}: " if place else ""
    if ours != message:
        return where + ours
    return f"{where or 'whole file: '}{message}, got {str(value)[:60]!r}"


if __name__ == "__main__":
    raise SystemExit(main())
