"""Optimizer: Muon for hidden matrices, AdamW for embeddings, norms, the router and everything else.

Muon orthogonalises the momentum of each matrix by five Newton-Schulz steps and scales it to the RMS of an AdamW update
(Jordan 2024; Liu et al. 2025, "Muon is scalable", eq. 4; GLM-4.5 section 2: momentum .95, update RMS .2), so both
halves share one learning-rate scale. Stacked expert weights [E, rows, columns] are orthogonalised per expert, fused
projections (q, k and v; gate and up) per part: a fused matrix has no reason to be orthogonal across its parts.

Shapes: N matrices of one shape, E experts.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

NEWTON_SCHULZ_STEPS = 5
_QUINTIC = (3.4445, -4.7750, 2.0315)  # Jordan 2024: steepest at 0 while singular values end in about 0.7..1.2
_UPDATE_RMS = 0.2
_NORM_EPS = 1e-7
_NOT_MUON = ("embed", "router", "lm_head", "score")  # name parts of matrices that are no hidden-to-hidden map


@dataclass(frozen=True)
class OptimConfig:
    """Peak learning rates and the usual constants."""

    learning_rate: float
    embedding_learning_rate: float
    router_learning_rate: float | None = None  # routers, norms and biases; None = `learning_rate`
    weight_decay: float = 0.1
    momentum: float = 0.95
    betas: tuple[float, float] = (0.9, 0.95)
    eps: float = 1e-8
    use_muon: bool = True


def orthogonalize(x_NRC: torch.Tensor, steps: int = NEWTON_SCHULZ_STEPS) -> torch.Tensor:
    """About `U V^T` of each matrix's SVD `U S V^T`: the singular values end near 1, the vectors stay."""
    a, b, c = _QUINTIC
    is_tall = x_NRC.shape[-2] > x_NRC.shape[-1]
    x = x_NRC.mT if is_tall else x_NRC
    x = x / (torch.linalg.matrix_norm(x, keepdim=True) + _NORM_EPS)
    for _ in range(steps):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if is_tall else x


class MuonAdamW(torch.optim.Optimizer):
    """Both halves in one optimizer, so that there is one state to save. Group keys: `kind` "muon" | "adamw"."""

    def __init__(self, groups: Iterable[dict[str, Any]], config: OptimConfig) -> None:
        self.config = config
        super().__init__(groups, {"kind": "adamw", "lr": 0.0, "peak_lr": 0.0, "weight_decay": 0.0, "row_parts": None})

    def set_lr_factor(self, factor: float) -> None:
        """Learning rate of every group = its peak x factor."""
        for group in self.param_groups:
            group["lr"] = group["peak_lr"] * factor

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One update; parameters without a gradient are left alone."""
        if closure is not None:
            raise ValueError("MuonAdamW.step: want no closure, got one; compute the gradients before the call")
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            if params and group["kind"] == "muon":
                self._muon(group, params)
            elif params:
                self._adamw(group, params)

    def _muon(self, group: dict[str, Any], params: list[torch.Tensor]) -> None:
        """`row_parts` says how the rows of every matrix in this group are cut before it is orthogonalised."""
        grads = [_gradient(p) for p in params]
        for p in params:
            if not self.state[p]:
                self.state[p] = {"momentum": torch.zeros_like(p)}
        momenta = [self.state[p]["momentum"] for p in params]
        torch._foreach_mul_(momenta, self.config.momentum)
        torch._foreach_add_(momenta, grads)
        updates = torch._foreach_add(grads, momenta, alpha=self.config.momentum)  # Nesterov
        torch._foreach_mul_(params, 1.0 - group["lr"] * group["weight_decay"])
        start = 0
        for rows in group["row_parts"]:
            parts = [update.narrow(-2, start, rows) for update in updates]
            targets = [p.narrow(-2, start, rows) for p in params]
            start += rows
            columns = parts[0].shape[-1]
            step_NRC = orthogonalize(torch.cat([part.reshape(-1, rows, columns) for part in parts]))
            step_NRC *= -group["lr"] * _UPDATE_RMS * max(rows, columns) ** 0.5
            num_done = 0
            for target in targets:
                num_matrices = target.numel() // (rows * columns)
                target.add_(step_NRC.narrow(0, num_done, num_matrices).view_as(target))
                num_done += num_matrices

    def _adamw(self, group: dict[str, Any], params: list[torch.Tensor]) -> None:
        beta1, beta2 = self.config.betas
        grads = [_gradient(p) for p in params]
        for p in params:
            if not self.state[p]:
                self.state[p] = {"step": 0, "mean": torch.zeros_like(p), "square": torch.zeros_like(p)}
            self.state[p]["step"] += 1
        means = [self.state[p]["mean"] for p in params]
        squares = [self.state[p]["square"] for p in params]
        torch._foreach_lerp_(means, grads, 1.0 - beta1)
        torch._foreach_mul_(squares, beta2)
        torch._foreach_addcmul_(squares, grads, grads, 1.0 - beta2)
        torch._foreach_mul_(params, 1.0 - group["lr"] * group["weight_decay"])
        # Loshchilov & Hutter 2019, algorithm 2; each parameter counts its own steps, as torch.optim.AdamW does
        roots = torch._foreach_sqrt(squares)
        steps = [self.state[p]["step"] for p in params]
        torch._foreach_div_(roots, [(1.0 - beta2**step) ** 0.5 for step in steps])
        torch._foreach_add_(roots, self.config.eps)
        torch._foreach_addcdiv_(params, means, roots, [-group["lr"] / (1.0 - beta1**step) for step in steps])


def _gradient(param: torch.Tensor) -> torch.Tensor:
    if param.grad is None:
        raise ValueError("parameter: want a gradient, got None; call backward first")
    return param.grad


def build_optimizer(model: nn.Module, config: OptimConfig) -> MuonAdamW:
    """Sort the trainable parameters of a GLM (or a part of it) into groups. Weight decay: matrices only."""
    groups: dict[tuple[Any, ...], list[nn.Parameter]] = {}
    for name, param in model.named_parameters():
        if param.requires_grad:
            groups.setdefault(_group_key(model, name, param, config), []).append(param)
    if not groups:
        raise ValueError(f"model {type(model).__name__}: want a trainable parameter, got none; unfreeze some")
    names = ("kind", "row_parts", "peak_lr", "weight_decay")
    return MuonAdamW(
        ({"params": params, **dict(zip(names, key[:4], strict=True))} for key, params in groups.items()), config
    )


def _group_key(model: nn.Module, name: str, param: nn.Parameter, config: OptimConfig) -> tuple[Any, ...]:
    is_matrix = param.ndim >= 2
    is_hidden = is_matrix and not any(part in name for part in _NOT_MUON)
    if is_hidden and config.use_muon:
        parts = _row_parts(model, name, param)
        return "muon", parts, config.learning_rate, config.weight_decay, tuple(param.shape[-2:])
    if is_matrix and ("embed" in name or "lm_head" in name):
        return "adamw", None, config.embedding_learning_rate, 0.0
    is_small = not is_hidden and config.router_learning_rate is not None
    peak_lr = config.router_learning_rate if is_small else config.learning_rate
    return "adamw", None, peak_lr, config.weight_decay if is_matrix else 0.0


def _row_parts(model: nn.Module, name: str, param: nn.Parameter) -> tuple[int, ...]:
    rows = param.shape[-2]
    if "gate_up" in name:
        return rows // 2, rows // 2
    if "qkv" in name:
        shape: Any = getattr(model, "config", None)
        if shape is None:
            raise ValueError(f"parameter {name}: want a model with a config to cut q, k and v, got none; pass the GLM")
        key_rows = shape.num_key_value_heads * shape.head_dim
        return rows - 2 * key_rows, key_rows, key_rows
    return (rows,)
