"""The pretraining loss: cross entropy at supervised positions plus the sequence balance loss of the routers.

Logits are computed at supervised positions only. The cross entropy is divided by the supervised positions of the whole
step and the balance loss by its rows, so cutting a step into micro-batches changes nothing but rounding.

Shapes: B batch, T tokens, D model dim, V vocabulary, E experts, L layers, N supervised positions, O objectives.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from models.balance import load_statistics, sequence_balance_loss, update_bias
from models.batches import OBJECTIVES, Batch
from models.glm import GlmForCausalLM
from models.losses import supervised_losses
from models.moe import MoeFfn, RouterState
from models.trainer import StepLoss

_MIN_PROB = 1e-12


@dataclass(frozen=True)
class MicroBatch:
    """Part of a step, with what its losses are divided by."""

    batch: Batch
    num_supervised_of_step: int
    num_rows_of_step: int


def micro_batches_of(batches: Sequence[Batch]) -> list[MicroBatch]:
    """Give every part of a step the step's totals. Raises ValueError if nothing in the step is supervised."""
    num_supervised = sum(int(batch.loss_mask_BT.sum()) for batch in batches)
    if num_supervised == 0:
        raise ValueError("batch: want at least one supervised position, got 0 (all masked); check the objective mix")
    num_rows = sum(batch.input_ids_BT.shape[0] for batch in batches)
    return [MicroBatch(batch, num_supervised, num_rows) for batch in batches]


class PretrainLoss:
    """Call with a micro-batch; `loads_LE` holds the routed tokens of the current step."""

    def __init__(self, model: GlmForCausalLM, *, balance_loss_weight: float) -> None:
        self.model = model
        self.balance_loss_weight = balance_loss_weight
        self.loads_LE: torch.Tensor | None = None
        self.router_entropy = 0.0  # mean over tokens and layers, 1 = uniform

    def __call__(self, micro: MicroBatch) -> StepLoss:
        batch = micro.batch
        output = self.model.model(
            input_ids=batch.input_ids_BT,
            attention_mask=batch.is_real_BT,
            position_ids=batch.position_ids_BT,
            block_position_ids=batch.block_position_ids_BT,
            attend_mask=batch.attend_mask_BTT(),
        )
        loss_mask_BT = batch.loss_mask_BT
        loss_sum, loss_N = supervised_losses(output.hidden_BTD, batch.targets_BT, loss_mask_BT, self.model.lm_head)
        loss = loss_sum / micro.num_supervised_of_step
        metrics = _loss_by_objective(loss_N, batch.objective_BT[loss_mask_BT])
        metrics["num_padding"] = float(batch.segment_BT.numel() - batch.num_tokens)
        if output.router:
            balance = torch.stack(
                [sequence_balance_loss(s.scores_BTE, s.expert_idx_BTK, batch.is_real_BT) for s in output.router]
            )
            share = batch.input_ids_BT.shape[0] / micro.num_rows_of_step
            loss = loss + self.balance_loss_weight * balance.sum() * share
            metrics["balance_loss"] = float(balance.mean().detach()) * share
            self._collect(output.router, batch.is_real_BT)
        return StepLoss(loss, batch.num_tokens, metrics)

    def start_step(self) -> None:
        """Forget the loads of the step before."""
        self.loads_LE = None

    def _collect(self, router: tuple[RouterState, ...], is_real_BT: torch.Tensor) -> None:
        counts_LE = torch.stack([state.counts_E for state in router])
        self.loads_LE = counts_LE if self.loads_LE is None else self.loads_LE + counts_LE
        entropies = [_router_entropy(state.scores_BTE.detach()[is_real_BT]) for state in router]
        self.router_entropy = sum(entropies) / len(entropies)

    def update_biases(self, rate: float) -> None:
        """Move every layer's selection bias against the loads of the step that just ended."""
        if self.loads_LE is None or rate == 0.0:
            return
        routed = [module for module in self.model.modules() if isinstance(module, MoeFfn)]
        for ffn, counts_E in zip(routed, self.loads_LE, strict=True):
            update_bias(ffn.router.selection_bias, counts_E, rate)

    def load_metrics(self, *, with_experts: bool) -> dict[str, float]:
        """Worst layer's imbalance, mean entropies and dead experts; on request every expert's share of its layer."""
        if self.loads_LE is None:
            return {}
        layers = [load_statistics(counts_E) for counts_E in self.loads_LE]
        metrics = {
            "moe/max_violation": max(layer["max_violation"] for layer in layers),
            "moe/load_entropy": sum(layer["entropy_ratio"] for layer in layers) / len(layers),
            "moe/router_entropy": self.router_entropy,
            "moe/dead_experts": sum(layer["dead_experts"] for layer in layers),
        }
        if with_experts:
            shares_LE = (self.loads_LE / self.loads_LE.sum(1, keepdim=True)).tolist()
            for layer_idx, shares_E in enumerate(shares_LE):
                for expert_idx, share in enumerate(shares_E):
                    metrics[f"moe/expert_load/layer_{layer_idx}/expert_{expert_idx}"] = share
        return metrics


def _loss_by_objective(loss_N: torch.Tensor, objective_N: torch.Tensor) -> dict[str, float]:
    sums = torch.zeros(len(OBJECTIVES), dtype=torch.float64).index_add_(0, objective_N, loss_N.double())
    counts = torch.bincount(objective_N, minlength=len(OBJECTIVES))
    found: dict[str, float] = {}
    for idx, name in enumerate(OBJECTIVES):
        found |= {f"{name}_sum": float(sums[idx]), f"{name}_count": float(counts[idx])}
    return found


def _router_entropy(scores_NE: torch.Tensor) -> float:
    probs_NE = scores_NE / scores_NE.sum(-1, keepdim=True).clamp(min=_MIN_PROB)
    entropy_N = -(probs_NE * probs_NE.clamp(min=_MIN_PROB).log()).sum(-1)
    return float(entropy_N.mean() / torch.tensor(float(scores_NE.shape[-1])).log())
