"""A stage is started only where it fits."""

from collections import namedtuple
from pathlib import Path

import pytest

from flows import fit, preflight
from flows.fit import check_fit
from infra.artifacts import RawCorpus
from infra.errors import RetryableError
from infra.settings import Settings

GIB = 1 << 30
Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A machine with 4 GiB of free memory and 10 GiB of free disk."""
    monkeypatch.setattr(fit, "available_bytes", lambda limit: min(4 * GIB, limit or 4 * GIB))
    monkeypatch.setattr(preflight.shutil, "disk_usage", lambda _place: Usage(0, 0, 10 * GIB))
    return Settings(home=tmp_path)


def corpus(num_bytes: int) -> RawCorpus:
    return RawCorpus(digest="a" * 64, num_bytes=num_bytes)


@pytest.mark.parametrize(("peak", "size"), [(0, 0), (4 * GIB, 5 * GIB)])
def test_what_fits_exactly_is_started(settings: Settings, peak: int, size: int):
    check_fit("pretrain", [corpus(size)], peak, settings)


@pytest.mark.parametrize(
    ("peak", "size", "message"),
    [
        (4 * GIB + 2**24, 0, r"pretrain was not started: memory: want 4.02 GiB free as in an earlier run, got 4.00; "),
        (0, 5 * GIB + 2**30, r"pretrain was not started: disk of .*: want 12.0 GiB free, got 10.0"),
    ],
)
def test_what_does_not_fit_is_not_started_unless_nobody_asks(settings: Settings, peak: int, size: int, message: str):
    with pytest.raises(RetryableError, match=message):
        check_fit("pretrain", [corpus(size)], peak, settings)
    check_fit("pretrain", [corpus(size)], peak, settings.model_copy(update={"guards": False}))


def test_a_limit_counts_and_a_first_run_wants_a_floor(settings: Settings):
    with pytest.raises(RetryableError, match=r"memory: want 0.50 GiB free, got 0.25"):
        check_fit("clean", [], 0, settings.model_copy(update={"memory_bytes": GIB // 4}))
