"""The deployable flows: typed by the stages, and their preflight refuses. (On a worker: tests/e2e/test_platform.py.)"""

import inspect
from pathlib import Path

import pytest
from pydantic import ValidationError

from flows import deployed
from flows.forms import Documents
from infra.artifacts import RawCorpus
from infra.errors import BadSpecError
from stages import STAGE_NAMES, load_stage
from stages.clean import CleanInputs

CORPUS = RawCorpus(digest="a" * 64, num_bytes=1)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GLMFLOW_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("name", STAGE_NAMES)
def test_a_stage_has_a_flow_of_its_name_with_the_stages_own_types(name: str):
    flow, stage = getattr(deployed, name), load_stage(name)
    types = {k: p.annotation for k, p in inspect.signature(flow.fn).parameters.items()}
    assert (flow.name, types["inputs"], types["config"]) == (name, stage.inputs, stage.config)
    assert flow.persist_result is False and flow.parameters.required == ["inputs"]


def test_what_is_no_stage_has_none():
    with pytest.raises(AttributeError):
        deployed.no_such_stage  # noqa: B018


def test_the_preflight_gives_the_plan_up_to_the_last_stage(home: Path):
    source = home / "mine.txt"
    source.write_text("text")
    documents = Documents(source_folder=str(source))
    steps = deployed.preflight.fn("tiny", ["dedup.min_jaccard=0.5"], documents, "dedup")
    assert [step.label for step in steps] == ["ingest", "clean", "dedup"]
    assert steps[-1].config.min_jaccard == 0.5


def test_the_preflight_refuses_what_no_form_can_see():
    with pytest.raises(BadSpecError, match=r"documents\.source_folder: want a folder"):
        deployed.preflight.fn("tiny", [], Documents(source_folder="/no/such"), "dedup")


def test_the_preflight_of_a_stage_names_the_missing_reference():
    with pytest.raises(BadSpecError, match="artifact raw_corpus:aaaaaaaaaaaa is not complete in the store"):
        deployed.preflight_stage.fn(CleanInputs(corpus=CORPUS))


def test_a_reference_of_another_kind_is_refused_by_the_type():
    with pytest.raises(ValidationError):
        CleanInputs.model_validate({"corpus": {"kind": "tokens", "digest": "a" * 64, "num_bytes": 1}})
