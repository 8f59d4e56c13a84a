"""kill -9 of the whole tree in ten stages, one after the other: the digests are those of an undisturbed run."""

from pathlib import Path

import pytest

from tests.support.lifecycle_command import kill_tree, new_home, outputs_of, start, summary_of, wait_for

pytestmark = pytest.mark.nightly
KILLED_WHILE = (
    "work/ingest/*/scratch",
    "work/dedup/*/scratch",
    "work/tokenizer/*/scratch",
    "work/pretrain/*/checkpoint/step-*",
    "work/sft/*/scratch",
    "work/preferences/*/scratch",
    "work/reward_model/*/scratch",
    "work/ppo/*/scratch",
    "work/quantize/*/scratch",
    "work/evaluate/*/scratch",
)


@pytest.mark.parametrize("seed", range(2))
def test_a_run_that_is_killed_in_ten_stages_ends_in_the_same_digests(tmp_path: Path, seed: int):
    undisturbed = summary_of(new_home(tmp_path / "undisturbed"), "--seed", str(seed))
    home = new_home(tmp_path / "killed")
    for pattern in KILLED_WHILE:
        process = start(home, "run", "tiny", "--seed", str(seed))
        wait_for(home, pattern, process)
        kill_tree(process)
    survived = summary_of(home, "--seed", str(seed))
    assert outputs_of(survived) == outputs_of(undisturbed)
