"""Laws of the stage context and of the stage models."""

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from infra.errors import StopRequestedError
from infra.stores.local import LocalStore
from stages.contract import StageContext
from tests.support.toy_stage import ToyConfig


@pytest.fixture
def ctx(tmp_path: Path) -> StageContext:
    return StageContext(LocalStore(tmp_path / "store"), tmp_path, declared_metrics=("toy/*",))


def test_a_misspelt_field_and_a_changed_config_are_errors():
    with pytest.raises(ValidationError, match="txet"):
        ToyConfig.model_validate({"txet": "x"})
    with pytest.raises(ValidationError, match="frozen"):
        ToyConfig().text = "y"


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_metric_that_is_not_finite_is_refused(ctx: StageContext, value: float):
    with pytest.raises(ValueError, match="toy/x at step 4: want a finite number"):
        ctx.log_metric("toy/x", value, 4)


def test_metric_points_are_one_json_object_a_line(ctx: StageContext):
    ctx.log_metric("toy/x", 1, 7)
    ctx.log_metric("toy/y", 2.5)
    points = [json.loads(line) for line in ctx.metrics_path.read_text().splitlines()]
    assert points == [{"name": "toy/x", "value": 1.0, "step": 7}, {"name": "toy/y", "value": 2.5, "step": 0}]


def test_progress_is_throttled_but_its_end_is_always_published(ctx: StageContext):
    for done in range(1000):
        ctx.progress(done, 1000, "docs")
    assert json.loads(ctx.progress_path.read_text())["done"] < 999
    ctx.progress(1000, 1000, "docs")
    assert json.loads(ctx.progress_path.read_text()) == {"done": 1000, "total": 1000, "unit": "docs"}


def test_a_stop_is_obeyed_where_the_stage_asks_for_it(ctx: StageContext):
    ctx.check_stop()
    ctx.stop_requested = True
    with pytest.raises(StopRequestedError, match="state saved"):
        ctx.check_stop()
