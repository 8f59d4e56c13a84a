"""The lifecycle is a Prefect flow that stays light. (That it runs: tests/integration/test_lifecycle.py.)"""

import subprocess
import sys
from pathlib import Path

from flows.lifecycle import lifecycle

ROOT = Path(__file__).parents[3]
HEAVY = {"torch", "transformers", "trl", "peft", "datasets", "mlflow", "pyarrow", "numpy"}


def test_the_orchestrator_never_loads_what_only_stages_need():
    code = (
        "import sys, flows.lifecycle, flows.run, flows.recipes, flows.commands.run, flows.source_manifest, stages\n"
        "from flows.stage_flows import stage_flow\n"
        "[stage_flow(step.stage) for step in flows.recipes.demo().steps()]\n"
        f"assert not {HEAVY!r} & set(sys.modules), {HEAVY!r} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_its_parameters_are_plain_and_its_results_are_not_kept_by_prefect():
    assert set(lifecycle.parameters.properties) == {"recipe", "lifecycle_id", "seed"}
    assert (lifecycle.name, lifecycle.persist_result, lifecycle.retries) == ("lifecycle", False, 0)
