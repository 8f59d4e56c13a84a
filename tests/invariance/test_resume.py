"""Resuming is invisible: after any step, the run goes on to the same bits."""

from pathlib import Path

import pytest
import torch

from models.checkpoint import StateRegistry
from models.optim import OptimConfig, build_optimizer
from models.pretrain_loss import MicroBatch, PretrainLoss, micro_batches_of
from models.schedule import CosineSchedule
from models.trainer import Callbacks, StepReport, Trainer, TrainerConfig
from tests.support.tiny_tokens import batches_over, tiny_model, write_shards

NUM_STEPS = 6


class Run:
    """One training run with a generator of its own beside the pure batches."""

    def __init__(self, root: Path, stop_after: int | None = None, seed: int = 0) -> None:
        source = batches_over(write_shards(root / "shards", [40, 3, 17, 90, 25, 60], [4]).train)
        self.model = tiny_model(seed)
        self.reports: list[StepReport] = []
        self.noise = torch.Generator().manual_seed(5)
        loss_of = PretrainLoss(self.model, balance_loss_weight=1e-3)

        def noisy_batches(step: int) -> list[MicroBatch]:
            loss_of.start_step()
            jump = int(torch.randint(50, (1,), generator=self.noise)) + int(torch.randint(50, (1,)))
            return micro_batches_of([source.batch(4 * step + jump, 4)])

        def stop() -> None:
            if stop_after is not None:
                raise InterruptedError

        registry = StateRegistry({"model": "tiny"})
        registry.register("noise", self.noise)
        self.trainer: Trainer[MicroBatch] = Trainer(
            "toy",
            model=self.model,
            optimizer=build_optimizer(self.model, OptimConfig(0.02, 0.01)),
            schedule=CosineSchedule(100, NUM_STEPS * 4 * 32),
            registry=registry,
            config=TrainerConfig(NUM_STEPS, checkpoint_every_steps=stop_after or 100, checkpoint_dir=root / "state"),
            callbacks=Callbacks(
                after_update=lambda _tokens: loss_of.update_biases(1e-2),
                on_step=self.reports.append,
                on_checkpoint=stop,
            ),
        )
        self.parts = (noisy_batches, loss_of)

    def run(self) -> None:
        self.trainer.run(*self.parts)

    def tensors(self) -> dict[str, torch.Tensor]:
        return {**dict(self.model.named_parameters()), **dict(self.model.named_buffers())}


@pytest.fixture
def uninterrupted(tmp_path: Path) -> Run:
    torch.manual_seed(0)
    whole = Run(tmp_path / "whole")
    whole.run()
    return whole


@pytest.mark.parametrize("stop_after", [1, 3, 5, 6])
def test_a_run_stopped_after_any_step_ends_in_the_same_bits(uninterrupted: Run, tmp_path: Path, stop_after: int):
    first = Run(tmp_path / "cut", stop_after)
    with pytest.raises(InterruptedError):
        first.run()
    torch.manual_seed(99)
    second = Run(tmp_path / "cut", seed=7)
    second.run()
    losses = [r.loss for r in first.reports + second.reports]
    assert losses == [r.loss for r in uninterrupted.reports]
    for name, tensor in uninterrupted.tensors().items():
        assert torch.equal(tensor, second.tensors()[name]), name
    assert second.trainer.tokens_seen == uninterrupted.trainer.tokens_seen
    saved = uninterrupted.trainer.optimizer.state_dict()["state"]
    for idx, state in second.trainer.optimizer.state_dict()["state"].items():
        for name, value in state.items():
            assert torch.equal(torch.as_tensor(value), torch.as_tensor(saved[idx][name])), name


def test_a_run_can_be_resumed_again_and_again(uninterrupted: Run, tmp_path: Path):
    for _ in range(NUM_STEPS):
        piece = Run(tmp_path / "cut", stop_after=1)
        with pytest.raises(InterruptedError):
            piece.run()
        assert len(piece.reports) == 1
    for name, tensor in uninterrupted.tensors().items():
        assert torch.equal(tensor, piece.tensors()[name]), name
