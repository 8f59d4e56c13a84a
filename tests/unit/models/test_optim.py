import pytest
import torch
from torch import nn

from models.optim import MuonAdamW, OptimConfig, build_optimizer, orthogonalize
from tests.support.tiny_tokens import tiny_model

CONFIG = OptimConfig(learning_rate=0.01, embedding_learning_rate=0.003, weight_decay=0.0)


@pytest.mark.parametrize("shape", [(16, 16), (24, 8), (8, 24)])
def test_orthogonalize_keeps_the_singular_vectors_and_brings_the_singular_values_near_one(shape: tuple[int, int]):
    x = torch.randn(3, *shape, generator=torch.Generator().manual_seed(0))
    u, _, vh = torch.linalg.svd(x, full_matrices=False)
    in_basis = u.mT @ orthogonalize(x) @ vh.mT
    diagonal = in_basis.diagonal(dim1=-2, dim2=-1)
    assert (in_basis - torch.diag_embed(diagonal)).abs().max() < 1e-3
    assert diagonal.min() > 0.4 and diagonal.max() < 1.3


def test_orthogonalize_does_not_depend_on_the_scale_or_on_the_other_matrices():
    x = torch.randn(4, 12, 8, generator=torch.Generator().manual_seed(1))
    together = orthogonalize(x)
    alone = torch.cat([orthogonalize(1000 * x[idx : idx + 1]) for idx in range(4)])
    torch.testing.assert_close(together, alone, atol=1e-4, rtol=1e-4)


def test_every_parameter_is_in_one_group_and_only_hidden_matrices_get_muon():
    model = tiny_model()
    optimizer = build_optimizer(model, CONFIG)
    kind_of = {id(p): group["kind"] for group in optimizer.param_groups for p in group["params"]}
    assert len(kind_of) == len(list(model.parameters()))
    for name, param in model.named_parameters():
        is_hidden = param.ndim >= 2 and "embed" not in name and "router" not in name
        assert (kind_of[id(param)] == "muon") == is_hidden, name


def test_fused_projections_are_cut_into_their_parts():
    groups = build_optimizer(tiny_model(num_key_value_heads=1), CONFIG).param_groups
    assert {group["row_parts"] for group in groups} == {None, (32,), (16, 16), (32, 16, 16)}


def test_one_fused_step_equals_steps_on_its_parts():
    weight, grad = torch.randn(2, 8, 6), torch.randn(2, 8, 6)
    fused = nn.Parameter(weight.clone())
    top, bottom = (nn.Parameter(part.clone()) for part in weight.split(4, dim=1))
    for params, parts, grads in ([fused], (4, 4), [grad]), ([top, bottom], (4,), grad.split(4, dim=1)):
        group = {"params": params, "kind": "muon", "row_parts": parts, "peak_lr": 0.1, "weight_decay": 0.1}
        optimizer = MuonAdamW([group], CONFIG)
        for param, its_grad in zip(params, grads, strict=True):
            param.grad = its_grad.clone()
        optimizer.set_lr_factor(1.0)
        optimizer.step()
    torch.testing.assert_close(fused, torch.cat([top, bottom], dim=1), atol=1e-6, rtol=1e-5)


def test_a_muon_update_has_the_root_mean_square_of_glm():
    param = nn.Parameter(torch.zeros(48, 48))
    optimizer = MuonAdamW([{"params": [param], "kind": "muon", "row_parts": (48,), "peak_lr": 1.0}], CONFIG)
    param.grad = torch.randn(48, 48)
    optimizer.set_lr_factor(1.0)
    optimizer.step()
    assert 0.15 < float(param.detach().square().mean().sqrt()) < 0.23


def test_the_learning_rate_of_every_group_follows_the_factor():
    optimizer = build_optimizer(tiny_model(), CONFIG)
    optimizer.set_lr_factor(0.5)
    assert {group["lr"] for group in optimizer.param_groups} == {0.005, 0.0015}


def test_routers_and_norms_may_have_a_learning_rate_of_their_own():
    model = tiny_model()
    config = OptimConfig(learning_rate=0.01, embedding_learning_rate=0.02, router_learning_rate=0.003)
    peak_of = {
        id(p): group["peak_lr"] for group in build_optimizer(model, config).param_groups for p in group["params"]
    }
    for name, param in model.named_parameters():
        expected = 0.02 if "embed" in name else 0.003 if "router" in name or param.ndim == 1 else 0.01
        assert peak_of[id(param)] == expected, name


def test_a_model_without_trainable_parameters_is_refused():
    model = tiny_model().requires_grad_(False)
    with pytest.raises(ValueError, match="want a trainable parameter, got none"):
        build_optimizer(model, CONFIG)


def test_a_closure_is_refused():
    with pytest.raises(ValueError, match=r"MuonAdamW\.step: want no closure"):
        build_optimizer(tiny_model(), CONFIG).step(lambda: 0.0)
