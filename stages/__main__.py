"""Run one stage from the command line, as a container does: `python -m stages clean --spec spec.json`."""

import argparse
import ctypes
import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from infra.errors import BadSpecError, GlmflowError, StopRequestedError
from infra.settings import Settings, go_offline
from stages import STAGE_NAMES, load_stage
from stages.contract import Stage, StageModel
from stages.execution import execute, limit_threads

EXIT_DONE = 0
EXIT_FAILED = 1  # may be retried
EXIT_BAD_SPEC = 2  # never retried
EXIT_STOPPED = 143  # stopped on request; running it again goes on
PARENT_PID_VARIABLE = "GLMFLOW_PARENT_PID"
_PR_SET_PDEATHSIG = 1


class Spec(BaseModel):
    """The file given with --spec."""

    model_config = ConfigDict(extra="forbid")
    config: dict[str, Any] = {}
    inputs: dict[str, Any] = {}
    seed: int = 0


def main(argv: list[str] | None = None) -> int:
    """Run the stage named on the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m stages")
    parser.add_argument("stage", choices=STAGE_NAMES)
    parser.add_argument("--spec", type=Path, help='JSON: {"config": {...}, "inputs": {...}, "seed": 0}')
    parser.add_argument("--schema", action="store_true", help="print the JSON schema of config and inputs, and stop")
    args = parser.parse_args(argv)
    die_with_parent()
    go_offline()
    settings = Settings()
    limit_threads(settings.threads)
    stage = load_stage(args.stage)
    if args.schema:
        schema = {"config": stage.config.model_json_schema(), "inputs": stage.inputs.model_json_schema()}
        print(json.dumps(schema, indent=2))
        return EXIT_DONE
    if args.spec is None:
        parser.error(f"stage {stage.name} needs --spec FILE (or --schema to see what goes in it)")
    return run_spec(stage, args.spec, settings)


def run_spec(stage: Stage[Any, Any, Any], spec_path: Path, settings: Settings) -> int:
    """Run one stage from its spec file; prints the outputs, or one sentence that says what is wrong."""
    try:
        config, inputs, seed = read_spec(stage, spec_path)
        outputs = execute(stage, config, inputs, seed=seed, settings=settings)
    except BadSpecError as error:
        print(error, file=sys.stderr)
        return EXIT_BAD_SPEC
    except StopRequestedError as error:
        print(f"stage {stage.name}: {error}", file=sys.stderr)
        return EXIT_STOPPED
    except GlmflowError as error:
        print(f"stage {stage.name}: {error}", file=sys.stderr)
        return EXIT_FAILED
    except Exception as error:  # the door: whatever a stage raises becomes an exit code, with its traceback in the log
        traceback.print_exc()
        print(f"stage {stage.name}: {type(error).__name__}: {error}", file=sys.stderr)
        return EXIT_FAILED
    print(outputs.model_dump_json())
    return EXIT_DONE


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
    problems = (
        f"{'.'.join(str(part) for part in item['loc']) or 'whole file'}: {item['msg']}, got {str(item['input'])[:60]!r}"
        for item in error.errors(include_url=False)
    )
    return "; ".join(problems)


def die_with_parent() -> None:
    """Ask the kernel for SIGTERM when the launcher dies, so that a stage never outlives its orchestrator."""
    parent = os.environ.get(PARENT_PID_VARIABLE)
    if parent is None:
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(parent):  # it died before the call above
        raise SystemExit(EXIT_STOPPED)


if __name__ == "__main__":
    raise SystemExit(main())
