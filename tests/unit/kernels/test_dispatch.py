import pytest
import torch

from kernels import dispatch
from kernels.grouped_experts import grouped_experts


def test_the_report_counts_every_call_by_implementation() -> None:
    dispatch.reset_report()
    torch.manual_seed(0)
    arguments = (
        torch.randn(3, 8),
        torch.ones(3, 1),
        torch.zeros(3, 1, dtype=torch.long),
        torch.randn(2, 16, 8),
        torch.randn(2, 8, 8),
    )
    ran = dispatch.run_kernel("grouped_experts", *arguments)
    assert ran.equal(grouped_experts(*arguments))
    assert dispatch.report()["grouped_experts"] == {"torch": 1}


def test_an_unknown_operation_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"op: want one of \[.*'grouped_experts'.*\], got 'grouped_expert'"):
        dispatch.run_kernel("grouped_expert")
