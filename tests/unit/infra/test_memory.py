"""What may be used is the least of what the machine, its control group and the setting leave."""

from pathlib import Path

import psutil
import pytest

from infra.memory import available_bytes

MIB = 1 << 20
V2 = {
    "memory.max": str(300 * MIB),
    "memory.current": str(200 * MIB),
    "memory.stat": f"anon 5\ninactive_file {50 * MIB}\n",
}
V1 = {
    "memory/memory.limit_in_bytes": str(300 * MIB),
    "memory/memory.usage_in_bytes": str(200 * MIB),
    "memory/memory.stat": f"inactive_file 1\ntotal_inactive_file {50 * MIB}\n",
}


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_without_a_group_it_is_what_the_machine_has(tmp_path: Path):
    now = psutil.virtual_memory().available
    assert available_bytes(cgroups=tmp_path) == pytest.approx(now, abs=512 * MIB)
    assert available_bytes(10 * MIB, tmp_path) == 10 * MIB


@pytest.mark.parametrize("files", [V1, V2], ids=["v1", "v2"])
def test_a_group_leaves_its_limit_less_its_use_with_the_cache_given_back(tmp_path: Path, files: dict[str, str]):
    assert available_bytes(cgroups=write(tmp_path, files)) == 150 * MIB


def test_a_group_without_a_limit_and_one_that_is_overfull(tmp_path: Path):
    assert available_bytes(cgroups=write(tmp_path, V2 | {"memory.max": "max\n"})) > 150 * MIB
    assert available_bytes(cgroups=write(tmp_path, V2 | {"memory.current": str(900 * MIB)})) == 0
