"""How much memory a new process may use here: the machine's free memory, and less where a container has a limit.

Limits and use of a control group are read as the kernel shows them to a process inside (cgroup v2 or v1). What it
uses counts without its inactive page cache, which the kernel gives back when it is asked for. Not covered: limits of a
group above the one that is shown.
"""

from pathlib import Path

import psutil

CGROUPS = Path("/sys/fs/cgroup")
_FILES = (  # folder, limit, use, inactive cache in memory.stat
    (".", "memory.max", "memory.current", "inactive_file"),
    ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def available_bytes(limit_bytes: int = 0, cgroups: Path = CGROUPS) -> int:
    """Bytes that a new process may use; at most `limit_bytes` unless it is 0."""
    free = [int(psutil.virtual_memory().available)]
    free += [left for files in _FILES if (left := _left_in_group(cgroups, *files)) is not None]
    free += [limit_bytes] if limit_bytes else []
    return max(0, min(free))


def _left_in_group(cgroups: Path, folder: str, limit: str, used: str, cache: str) -> int | None:
    """Bytes below a control group's limit; None where there is no such group or it has no limit."""
    try:
        limit_text = (cgroups / folder / limit).read_text().strip()
        used_bytes = int((cgroups / folder / used).read_text())
        stat = dict(line.split() for line in (cgroups / folder / "memory.stat").read_text().splitlines())
    except OSError:
        return None
    return None if limit_text == "max" else int(limit_text) - used_bytes + int(stat.get(cache, 0))
