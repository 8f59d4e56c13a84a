"""A changed output is recorded again on purpose (`make golden`), with its reason in the commit message."""

import json
from pathlib import Path

import pytest

from tests.golden.chain import STAGES, run_chain


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict:
    return run_chain(tmp_path_factory.mktemp("golden") / "home")


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_gives_the_recorded_digest_and_metrics(results: dict, stage: str):
    assert results[stage] == json.loads((Path(__file__).parent / f"{stage}.json").read_text())
