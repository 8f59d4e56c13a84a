import torch
from torch.nn import functional

from models.layers import SwiGluFfn


def test_the_gate_rows_come_before_the_up_rows() -> None:
    torch.manual_seed(0)
    ffn = SwiGluFfn(8, 4)
    gate, up = ffn.gate_up_proj.weight[:4], ffn.gate_up_proj.weight[4:]
    x = torch.randn(3, 8)
    expected = (functional.silu(x @ gate.T) * (x @ up.T)) @ ffn.down_proj.weight.T
    torch.testing.assert_close(ffn(x), expected)
