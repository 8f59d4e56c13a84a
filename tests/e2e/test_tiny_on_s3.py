"""The first stages of the tiny lifecycle with their artifacts on a real S3 server.

Needs the demonstration sources (`make setup`). Nothing may reach beyond this machine: the network guard sees to it.
"""

import shutil
from pathlib import Path

import pytest

from tests.support.lifecycle_command import glmflow, new_home, outputs_of, summary_of
from tests.support.store_places import S3Place, bytes_below

pytestmark = pytest.mark.slow


def test_a_run_on_s3_gives_the_keys_and_references_of_a_local_run(s3_place: S3Place, tmp_path: Path):
    local = summary_of(new_home(tmp_path / "home"), "--until", "dedup")
    here = (tmp_path / "home").rename(tmp_path / "here")
    there = new_home(tmp_path / "home")  # at the same place: the list of sources says where they lie
    remote = summary_of(there, "--until", "dedup", **s3_place.environment)
    assert outputs_of(remote) == outputs_of(local)
    assert not any(stage["cached"] for stage in remote["stages"])
    assert [stage["key"] for stage in remote["stages"]] == [stage["key"] for stage in local["stages"]]
    assert s3_place.stored_keys() == set(bytes_below(here / "store"))
    assert not (there / "store").exists()

    shutil.rmtree(there / "store-cache")
    again = summary_of(there, "--until", "dedup", **s3_place.environment)
    assert all(stage["cached"] for stage in again["stages"])
    code, out, err = glmflow(there, "explain", outputs_of(local)["dedup"]["corpus"], **s3_place.environment)
    assert code == 0 and "<- ingest" in out and "pip django" in out, err
    for home in (here, there):
        assert not (home / "network.log").exists(), (home / "network.log").read_text()
