"""Does a stage fit onto this machine now? Asked before its process is started; GLMFLOW_GUARDS=false asks nothing.

Memory: what finished runs of the same stage and config used at their highest has to be free; a first run only has to
find a floor. Disk: twice the size of its inputs, for what it writes and the store's copy of it, and the floor of every
run. Both may be different a minute later, so a refusal is worth a retry.

Not covered: `glmflow stage` and containers, which start no process of ours: the platform they run on has limits of its
own.
"""

from collections.abc import Iterable

from flows.preflight import disk_problem
from infra.artifacts import ArtifactRef
from infra.errors import RetryableError
from infra.memory import available_bytes
from infra.settings import Settings

MIN_FREE_MEMORY_BYTES = 512 << 20  # a stage that imports torch needs about that much before it does anything
COPIES = 2


def check_fit(label: str, inputs: Iterable[ArtifactRef], peak_rss_bytes: int, settings: Settings) -> None:
    """Raise RetryableError that says what does not fit. `peak_rss_bytes` is 0 for a config that never ran."""
    if not settings.guards:
        return
    wanted_bytes = max(MIN_FREE_MEMORY_BYTES, peak_rss_bytes)
    free_bytes = available_bytes(settings.memory_bytes)
    problem = disk_problem(settings, COPIES * sum(ref.num_bytes for ref in inputs))
    if free_bytes < wanted_bytes:
        problem = (
            f"memory: want {wanted_bytes / 2**30:.2f} GiB free{' as in an earlier run' if peak_rss_bytes else ''}, got "
            f"{free_bytes / 2**30:.2f}; close other programs, raise GLMFLOW_MEMORY_BYTES if it is set, or say "
            f"GLMFLOW_GUARDS=false"
        )
    if problem:
        raise RetryableError(f"stage {label} was not started: {problem}; then run the same command again")
