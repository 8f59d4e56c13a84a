"""Two runs are compared stage by stage: the same bytes are said to be the same, figures stand side by side."""

import io
from datetime import timedelta
from pathlib import Path

import pytest
from rich.console import Console

from flows.comparison import compare, find_run
from infra.errors import BadSpecError
from infra.lineage import Lineage
from tests.support.lifecycle_records import STARTED_AT, record


@pytest.fixture
def lineage(tmp_path: Path) -> Lineage:
    """Two runs: the first stage is shared, the second gave other bytes, the third ran in one of them only."""
    opened = Lineage(f"sqlite:///{tmp_path / 'lineage.db'}")
    keys = {}
    for key, stage, metrics in (
        ("d" * 64, "dedup", {"dedup/docs_in": 5.0}),
        ("1" * 64, "pretrain", {"pretrain/bits_per_byte": 2.5, "pretrain/tokens_per_s": 10.0}),
        ("2" * 64, "pretrain", {"pretrain/bits_per_byte": 2.25, "pretrain/tokens_per_s": 12.0, "pretrain/new": 1.0}),
        ("3" * 64, "ppo", {"ppo/reward": 1.0}),
    ):
        opened.commit(record(stage, "model", metrics).model_copy(update={"key": key}), [])
        keys[key[0]] = key
    for n, stages in enumerate((("d", "1"), ("d", "2", "3"))):
        names = {"d": "dedup", "1": "pretrain", "2": "pretrain", "3": "ppo"}
        opened.save_lifecycle(
            f"run-{n}", recipe="tiny", seed=n, status="finished", started_at=STARTED_AT + timedelta(days=n),
            ended_at=None, stages=[{"label": names[key], "key": keys[key]} for key in stages],
        )  # fmt: skip
    return opened


def printed(lineage: Lineage, *, shows_all: bool = False) -> list[str]:
    stream = io.StringIO()
    first, second = (find_run(name, lineage) for name in ("run-0", "run-1"))
    Console(file=stream, width=200).print(compare(first, second, lineage, shows_all=shows_all))
    return [line for line in stream.getvalue().splitlines() if line.startswith("\u2502")]


def test_equal_bytes_other_figures_and_a_missing_stage_are_told_apart(lineage: Lineage):
    dedup, pretrain, ppo = printed(lineage)
    assert dedup.count("same artifact") == 2
    assert "pretrain/bits_per_byte" in pretrain and "2.5" in pretrain and "2.25" in pretrain and "-0.25" in pretrain
    assert "not run" in ppo and "run" in ppo


def test_every_metric_that_both_have_can_be_shown(lineage: Lineage):
    text = "\n".join(printed(lineage, shows_all=True))
    assert "pretrain/tokens_per_s" in text and "pretrain/new" not in text


def test_a_run_is_named_by_the_start_of_its_id_or_as_the_latest(lineage: Lineage):
    assert find_run("run-0", lineage).seed == 0
    assert find_run("latest", lineage).id == "run-1"
    for name, count in (("run-", 2), ("nothing", 0)):
        with pytest.raises(BadSpecError, match=f"run '{name}': want one run, got {count} of 2; `glmflow runs`"):
            find_run(name, lineage)
