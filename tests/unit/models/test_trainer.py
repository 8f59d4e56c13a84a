from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from models.checkpoint import StateRegistry, checkpoints
from models.optim import OptimConfig, build_optimizer
from models.schedule import ConstantSchedule
from models.trainer import Callbacks, StepLoss, StepReport, Trainer, TrainerConfig, TrainingDivergedError

CONFIG = OptimConfig(learning_rate=0.1, embedding_learning_rate=0.1, weight_decay=0.0, use_muon=False)


class Line(nn.Module):
    """y = w x, with its weight named like an embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Parameter(torch.tensor([[3.0]]))


def trainer_of(model: nn.Module, config: TrainerConfig, callbacks: Callbacks | None = None) -> Trainer[float]:
    return Trainer(
        "toy", model=model, optimizer=build_optimizer(model, CONFIG), schedule=ConstantSchedule(),
        registry=StateRegistry({"model": "line"}), config=config, callbacks=callbacks,
    )  # fmt: skip


def square_loss(model: Line) -> Callable[[float], StepLoss]:
    return lambda x: StepLoss((model.embed * x).square().sum(), num_tokens=10, metrics={"seen": x})


def test_micro_batches_are_added_up_into_one_step():
    reports: list[StepReport] = []
    model = Line()
    trainer = trainer_of(model, TrainerConfig(num_steps=2), Callbacks(on_step=reports.append))
    trainer.run(lambda _step: [1.0, 2.0], square_loss(model))
    assert [r.step for r in reports] == [1, 2]
    assert [r.tokens_seen for r in reports] == [20, 40]
    assert reports[0].metrics == {"seen": 3.0}
    assert reports[0].loss == pytest.approx(9 + 36)
    assert reports[0].grad_norm == reports[0].embedding_grad_norm == pytest.approx(2 * 3 * (1 + 4))
    assert reports[1].loss < reports[0].loss


def test_the_gradient_is_clipped_before_the_update():
    model = Line()
    seen: list[float] = []
    callbacks = Callbacks(after_update=lambda _tokens: seen.append(model.embed.grad.item()))
    trainer_of(model, TrainerConfig(num_steps=1, max_grad_norm=0.5), callbacks).run(lambda _: [1.0], square_loss(model))
    assert seen == [pytest.approx(0.5)]


def test_a_step_that_is_not_finite_changes_nothing_and_the_next_goes_on():
    model, reports, updates = Line(), list[StepReport](), list[int]()
    callbacks = Callbacks(after_update=updates.append, on_step=reports.append)
    trainer = trainer_of(model, TrainerConfig(num_steps=3), callbacks)
    trainer.run(lambda step: [float("nan") if step == 1 else 1.0], square_loss(model))
    assert [r.is_skipped for r in reports] == [False, True, False]
    assert updates == [10, 30]
    assert trainer.num_skipped == 1 and trainer.skipped_in_a_row == 0
    assert reports[1].tokens_seen == 20
    assert bool(model.embed.isfinite().all())


def test_an_infinite_gradient_of_a_finite_loss_is_skipped_too():
    model, reports = Line(), list[StepReport]()
    trainer = trainer_of(model, TrainerConfig(num_steps=1), Callbacks(on_step=reports.append))
    trainer.run(lambda _: [1.0], lambda _: StepLoss((model.embed - 3.0).sqrt().sum(), 1))
    assert reports[0].is_skipped and reports[0].loss == 0.0


def test_the_third_skipped_step_in_a_row_ends_the_run_and_keeps_the_last_good_checkpoint(tmp_path: Path):
    model = Line()
    config = TrainerConfig(num_steps=9, checkpoint_every_steps=1, checkpoint_dir=tmp_path)
    with pytest.raises(TrainingDivergedError, match="toy step 5: want a finite loss and gradient norm, got nan"):
        trainer_of(model, config).run(lambda step: [1.0 if step < 2 else float("nan")], square_loss(model))
    again = Line()
    trainer = trainer_of(again, config)
    assert trainer.registry.load_latest(tmp_path) == 4
    assert bool(again.embed.isfinite().all()) and again.embed.item() < 3.0


def test_weights_that_are_not_finite_are_never_saved(tmp_path: Path):
    model = Line()
    config = TrainerConfig(num_steps=1, checkpoint_dir=tmp_path)
    callbacks = Callbacks(after_update=lambda _tokens: model.embed.data.fill_(float("inf")))
    with pytest.raises(TrainingDivergedError, match="want finite weights, got others in embed"):
        trainer_of(model, config, callbacks).run(lambda _: [1.0], square_loss(model))
    assert checkpoints(tmp_path) == []


def test_checkpoints_come_at_the_interval_and_at_the_end(tmp_path: Path):
    saved: list[str] = []
    callbacks = Callbacks(on_checkpoint=lambda: saved.append(checkpoints(tmp_path)[-1].name))
    config = TrainerConfig(num_steps=5, checkpoint_every_steps=2, checkpoint_dir=tmp_path)
    trainer_of(model := Line(), config, callbacks).run(lambda _: [1.0], square_loss(model))
    assert saved == ["step-00000002", "step-00000004", "step-00000005"]


def test_a_stop_request_saves_after_the_step_at_hand(tmp_path: Path):
    model = Line()
    config = TrainerConfig(num_steps=5, checkpoint_every_steps=99, checkpoint_dir=tmp_path)

    def stop() -> None:
        raise InterruptedError

    trainer = trainer_of(model, config, Callbacks(on_checkpoint=stop, stop_requested=lambda: trainer.step == 3))
    trainer.registry.exempt(trainer)
    with pytest.raises(InterruptedError):
        trainer.run(lambda _: [1.0], square_loss(model))
    assert [path.name for path in checkpoints(tmp_path)] == ["step-00000003"]


def test_a_finished_run_trains_no_further_step(tmp_path: Path):
    config = TrainerConfig(num_steps=3, checkpoint_dir=tmp_path)
    trainer_of(model := Line(), config).run(lambda _: [1.0], square_loss(model))
    reports: list[StepReport] = []
    again = trainer_of(restored := Line(), config, Callbacks(on_step=reports.append))
    again.run(lambda _: [1.0], square_loss(restored))
    assert reports == [] and torch.equal(model.embed, restored.embed)


def test_state_that_the_loss_draws_on_must_be_registered():
    model, rng = Line(), torch.Generator()
    trainer = trainer_of(model, TrainerConfig(num_steps=1))
    with pytest.raises(ValueError, match="rng: want everything with state in the registry, got an unregistered Gen"):
        trainer.run(lambda _: [1.0], lambda _: StepLoss(model.embed.sum() * torch.rand(1, generator=rng).sum(), 1))


def test_state_is_saved_between_phases_only(tmp_path: Path):
    saved: list[int] = []
    config = TrainerConfig(num_steps=9, checkpoint_every_steps=2, checkpoint_dir=tmp_path, steps_per_phase=3)
    callbacks = Callbacks(on_checkpoint=lambda: saved.append(trainer.step), stop_requested=lambda: trainer.step == 3)
    trainer = trainer_of(model := Line(), config, callbacks)
    trainer.registry.exempt(trainer)
    trainer.run(lambda _: [1.0], square_loss(model))
    assert saved == [3, 6, 9]
    with pytest.raises(ValueError, match=r"toy\.num_steps: want a multiple of steps_per_phase \(3\), got 8"):
        trainer_of(Line(), TrainerConfig(num_steps=8, steps_per_phase=3))


def test_zero_steps_are_refused():
    with pytest.raises(ValueError, match="toy: dataset yields 0 steps: want at least one, got 0"):
        trainer_of(Line(), TrainerConfig(num_steps=0))
