"""Which implementation of an operation runs, and how often it ran.

A kernel module registers its functions under an operation's name; callers say `run_kernel("grouped_experts", ...)`.
Today every operation has the plain-torch reference only. `report()` is what tests and metrics read: no implementation
runs unseen.
"""

from collections import Counter
from collections.abc import Callable

import torch

Kernel = Callable[..., torch.Tensor]

_kernels: dict[str, dict[str, Kernel]] = {}
_num_calls: Counter[tuple[str, str]] = Counter()


def register_kernel(op: str, implementation: str) -> Callable[[Kernel], Kernel]:
    """Decorator: the function implements `op`; the implementation registered last is the one that runs."""

    def add(kernel: Kernel) -> Kernel:
        _kernels.setdefault(op, {})[implementation] = kernel
        return kernel

    return add


def run_kernel(op: str, *arguments: object) -> torch.Tensor:
    """Run the implementation of `op` that is in force, and count it."""
    if op not in _kernels:
        raise ValueError(f"op: want one of {sorted(_kernels)}, got {op!r}; import the kernel's module first")
    implementation, kernel = next(reversed(_kernels[op].items()))
    _num_calls[op, implementation] += 1
    return kernel(*arguments)


def report() -> dict[str, dict[str, int]]:
    """Number of calls so far, by operation and implementation; operations that never ran are there with 0."""
    return {
        op: {implementation: _num_calls[op, implementation] for implementation in kernels}
        for op, kernels in sorted(_kernels.items())
    }


def reset_report() -> None:
    """Start counting anew."""
    _num_calls.clear()
