"""How much of plain boto3's speed is left when bytes are hashed, copied into the cache and verified."""

import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from infra.artifacts import Model, list_files
from tests.support.s3_server import BUCKET
from tests.support.store_places import S3Place

pytestmark = pytest.mark.nightly
NUM_BYTES = int(os.environ.get("S3_THROUGHPUT_BYTES", str(2**30)))
NUM_ROUNDS = 3
MIN_RATIO = 0.8


def seconds(action: Callable[[], object]) -> float:
    started = time.monotonic()
    action()
    return time.monotonic() - started


def one_round(place: S3Place, folder: Path, seed: int) -> dict[str, float]:
    """The wall times of new bytes, ours and those of plain boto3 with its defaults: both have the same checksums."""
    client, key, back = place.server.client(), f"{place.prefix}/plain", folder.with_name("back.bin")
    file = folder / "weights.bin"
    file.write_bytes(np.random.default_rng(seed).bytes(NUM_BYTES))
    ref, writer, reader = Model.of(list_files(folder)), place.open(), place.open()
    walls = {
        "plain put": seconds(lambda: client.upload_file(str(file), BUCKET, key)),
        "put": seconds(lambda: writer.put(folder, Model)),
        "plain get": seconds(lambda: client.download_file(BUCKET, key, str(back))),
        "get": seconds(lambda: reader.get(ref)),
    }
    for name in place.stored_keys():
        place.delete(name)
    for home in place.root.glob("machine-*"):
        shutil.rmtree(home)
    return walls


def test_putting_and_getting_one_large_file_is_nearly_as_fast_as_plain_boto3(s3_place: S3Place, tmp_path: Path, capsys):
    (tmp_path / "folder").mkdir()
    rounds = [one_round(s3_place, tmp_path / "folder", seed) for seed in range(NUM_ROUNDS)]
    medians = {name: statistics.median(walls[name] for walls in rounds) for name in rounds[0]}
    ratios = {name: medians[f"plain {name}"] / medians[name] for name in ("put", "get")}
    with capsys.disabled():
        speeds = ", ".join(f"{name} {NUM_BYTES / wall_s / 1e6:.0f} MB/s" for name, wall_s in medians.items())
        sys.stdout.write(f"\n{NUM_BYTES} bytes, medians of {NUM_ROUNDS}: {speeds}; ratios {ratios}\n")
    assert min(ratios.values()) >= MIN_RATIO, rounds
