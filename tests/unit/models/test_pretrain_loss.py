from pathlib import Path

import pytest
import torch
from torch.nn import functional

from models.batches import Batch, ObjectiveMix
from models.infilling import IGNORED_TARGET
from models.pretrain_loss import PretrainLoss, micro_batches_of
from tests.support.tiny_tokens import batches_over, tiny_model, write_shards


@pytest.fixture
def batch(tmp_path: Path) -> Batch:
    return batches_over(write_shards(tmp_path, [40, 3, 17, 90, 25, 60], [4]).train).batch(0, 8)


def test_without_the_balance_loss_it_is_the_cross_entropy_of_supervised_positions(batch: Batch):
    model = tiny_model()
    found = PretrainLoss(model, balance_loss_weight=0.0)(micro_batches_of([batch])[0])
    hidden = model.model(
        input_ids=batch.input_ids_BT, attention_mask=batch.is_real_BT, position_ids=batch.position_ids_BT,
        block_position_ids=batch.block_position_ids_BT, attend_mask=batch.attend_mask_BTT(),
    ).hidden_BTD  # fmt: skip
    expected = functional.cross_entropy(model.lm_head(hidden).mT, batch.targets_BT, ignore_index=IGNORED_TARGET)
    torch.testing.assert_close(found.loss, expected)
    assert found.num_tokens == batch.num_tokens


def test_cutting_a_step_into_micro_batches_changes_neither_loss_nor_gradient_nor_loads(tmp_path: Path):
    source = batches_over(write_shards(tmp_path, [40, 3, 17, 90, 25, 60], [4]).train)
    results = []
    for size in (8, 1):
        model = tiny_model()
        loss_of = PretrainLoss(model, balance_loss_weight=0.1)
        parts = [loss_of(m) for m in micro_batches_of([source.batch(start, size) for start in range(0, 8, size)])]
        torch.stack([part.loss for part in parts]).sum().backward()
        grads = torch.cat([p.grad.flatten() for p in model.parameters()])
        results.append((sum(part.loss.item() for part in parts), grads, loss_of.loads_LE))
    assert results[0][0] == pytest.approx(results[1][0], rel=1e-6)
    torch.testing.assert_close(results[0][1], results[1][1], atol=1e-6, rtol=1e-4)
    assert torch.equal(results[0][2], results[1][2])


def test_the_loss_is_reported_for_each_objective(batch: Batch):
    metrics = PretrainLoss(tiny_model(), balance_loss_weight=0.0)(micro_batches_of([batch])[0]).metrics
    counts = [metrics[f"{name}_count"] for name in ("language", "span", "document")]
    assert sum(counts) == int(batch.loss_mask_BT.sum()) and min(counts) > 0
    assert metrics["num_padding"] == batch.input_ids_BT.numel() - batch.num_tokens


def test_padding_is_routed_nowhere_in_the_loads(batch: Batch):
    loss_of = PretrainLoss(tiny_model(), balance_loss_weight=0.0)
    loss_of(micro_batches_of([batch])[0])
    assert loss_of.loads_LE.sum(1).tolist() == [2 * batch.num_tokens] * 2


def test_the_bias_moves_against_the_loads_and_a_rate_of_zero_freezes_it(batch: Batch):
    model = tiny_model()
    loss_of = PretrainLoss(model, balance_loss_weight=0.0)
    loss_of(micro_batches_of([batch])[0])
    loss_of.update_biases(0.0)
    biases = [layer.ffn.router.selection_bias for layer in model.model.layers]
    assert all(bool((bias == 0).all()) for bias in biases)
    loss_of.update_biases(0.01)
    for bias, load in zip(biases, loss_of.loads_LE, strict=True):
        expected = 0.01 * torch.sign(load.float().mean() - load)
        torch.testing.assert_close(bias, expected)


def test_the_load_metrics_name_every_expert_of_every_layer(batch: Batch):
    loss_of = PretrainLoss(tiny_model(), balance_loss_weight=0.0)
    assert loss_of.load_metrics(with_experts=True) == {}
    loss_of(micro_batches_of([batch])[0])
    metrics = loss_of.load_metrics(with_experts=True)
    shares = [metrics[f"moe/expert_load/layer_1/expert_{idx}"] for idx in range(4)]
    assert sum(shares) == pytest.approx(1.0)
    assert 0 < metrics["moe/router_entropy"] <= 1.0 and 0 < metrics["moe/load_entropy"] <= 1.0
    assert set(loss_of.load_metrics(with_experts=False)) == {
        "moe/max_violation", "moe/load_entropy", "moe/router_entropy", "moe/dead_experts",
    }  # fmt: skip
    loss_of.start_step()
    assert loss_of.load_metrics(with_experts=False) == {}


def test_a_dense_model_has_no_loads(batch: Batch):
    loss_of = PretrainLoss(tiny_model(num_experts=1, num_experts_per_tok=1), balance_loss_weight=0.1)
    loss_of(micro_batches_of([batch])[0]).loss.backward()
    loss_of.update_biases(0.1)
    assert loss_of.load_metrics(with_experts=True) == {}


def test_a_step_in_which_nothing_is_supervised_is_refused(batch: Batch):
    batch.targets_BT.fill_(IGNORED_TARGET)
    with pytest.raises(ValueError, match=r"batch: want at least one supervised position, got 0 \(all masked\)"):
        micro_batches_of([batch])


def test_the_mix_decides_which_objectives_are_seen(tmp_path: Path):
    train = write_shards(tmp_path, [60, 60], [4]).train
    spans = batches_over(train, ObjectiveMix(0, 1, 0)).batch(0, 2)
    metrics = PretrainLoss(tiny_model(), balance_loss_weight=0.0)(micro_batches_of([spans])[0]).metrics
    assert metrics["span_count"] > 0 and metrics["document_count"] == 0
