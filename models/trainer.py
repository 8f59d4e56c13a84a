"""The training loop of `pretrain` and `ppo`: the loop is shared, the loss is not.

A caller gives `batches_at(step)` (the micro-batches of a step, a pure function of the step or of registered state) and
`loss_of(micro_batch)`; the losses of a step's micro-batches add up to the step's loss, so the caller normalises them.
A step: losses and gradients -> clip -> learning rate for the tokens seen -> update -> `after_update` -> `on_step` ->
checkpoint every `checkpoint_every_steps`, at the end and on a stop request -> `on_checkpoint` (the place to obey it).

A step whose loss or gradient is not finite is skipped: its data counts as seen, nothing is updated. The third in a row
ends the run, and weights that are not finite are never saved, so the last checkpoint is a good one.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import nn

from models.checkpoint import StateRegistry
from models.optim import MuonAdamW

B = TypeVar("B")
MAX_SKIPPED_IN_A_ROW = 3


class TrainingDivergedError(RuntimeError):
    """Losses, gradients or weights stopped being finite."""


@dataclass
class StepLoss:
    """What the loss function says about one micro-batch."""

    loss: torch.Tensor  # scalar; a step's micro-batch losses are summed
    num_tokens: int  # real (non-padding) tokens; what schedules count
    metrics: dict[str, float] = field(default_factory=dict)  # summed over a step's micro-batches


@dataclass(frozen=True)
class StepReport:
    """One finished step."""

    step: int  # 1 = the first
    loss: float
    grad_norm: float  # before clipping
    embedding_grad_norm: float
    lr_factor: float
    num_tokens: int  # of this step
    tokens_seen: int  # of all steps
    step_s: float
    is_skipped: bool
    metrics: dict[str, float]


class Schedule(Protocol):
    """Learning-rate factor over tokens."""

    def factor(self, num_tokens: int) -> float:
        """What the peak learning rate is multiplied with."""


@dataclass(frozen=True)
class TrainerConfig:
    """Length of the run, clipping and checkpoints."""

    num_steps: int
    max_grad_norm: float = 1.0
    checkpoint_every_steps: int = 50
    checkpoint_dir: Path | None = None
    steps_per_phase: int = 1  # state is saved between phases only; PPO: the updates on one set of rollouts


@dataclass
class Callbacks:
    """What the caller does at fixed points of the loop; each is optional."""

    after_update: Callable[[int], None] = lambda _tokens_seen: None  # not called for a skipped step
    on_step: Callable[[StepReport], None] = lambda _report: None
    on_checkpoint: Callable[[], None] = lambda: None
    stop_requested: Callable[[], bool] = lambda: False


class Trainer(Generic[B]):
    """One run. `registry` must hold everything with state; the trainer adds its model, optimizer and counters."""

    def __init__(
        self,
        name: str,
        *,
        model: nn.Module,
        optimizer: MuonAdamW,
        schedule: Schedule,
        registry: StateRegistry,
        config: TrainerConfig,
        callbacks: Callbacks | None = None,
    ) -> None:
        if config.num_steps < 1:
            raise ValueError(
                f"{name}: dataset yields 0 steps: want at least one, got {config.num_steps}; give more data"
            )
        if config.num_steps % config.steps_per_phase:
            raise ValueError(
                f"{name}.num_steps: want a multiple of steps_per_phase ({config.steps_per_phase}), got "
                f"{config.num_steps}; train whole phases"
            )
        self.name = name
        self.model = model
        self.optimizer = optimizer
        self.schedule = schedule
        self.registry = registry
        self.config = config
        self.callbacks = callbacks or Callbacks()
        self.step = 0
        self.tokens_seen = 0
        self.num_skipped = 0
        self.skipped_in_a_row = 0
        registry.register(f"{name}.model", model)
        registry.register(f"{name}.optimizer", optimizer)
        registry.register(f"{name}.trainer", self)

    def state_dict(self) -> dict[str, Any]:
        """The counters, which are also the position in the data."""
        names = ("step", "tokens_seen", "num_skipped", "skipped_in_a_row")
        return {name: getattr(self, name) for name in names}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put the counters back."""
        for name, value in state.items():
            setattr(self, name, value)

    def run(self, batches_at: Callable[[int], Sequence[B]], loss_of: Callable[[B], StepLoss]) -> None:
        """Train to `num_steps`, from the newest checkpoint if there is one."""
        self.registry.require_registered(batches_at, loss_of, self.schedule, self.callbacks)
        directory = self.config.checkpoint_dir
        if directory is not None:
            self.registry.load_latest(directory)
        self.model.train()
        while self.step < self.config.num_steps:
            self.callbacks.on_step(self._step(batches_at(self.step), loss_of))
            if directory is not None and self._is_checkpoint_due():
                self._save(directory)
                self.callbacks.on_checkpoint()

    def _is_checkpoint_due(self) -> bool:
        if self.step % self.config.steps_per_phase:
            return False
        is_last = self.step == self.config.num_steps
        return self.step % self.config.checkpoint_every_steps == 0 or is_last or self.callbacks.stop_requested()

    def _step(self, micro_batches: Sequence[B], loss_of: Callable[[B], StepLoss]) -> StepReport:
        started = time.monotonic()
        self.optimizer.zero_grad(set_to_none=True)
        loss, num_tokens, metrics = 0.0, 0, dict[str, float]()
        for micro_batch in micro_batches:
            part = loss_of(micro_batch)
            loss += float(part.loss.detach())
            num_tokens += part.num_tokens
            for name, value in part.metrics.items():
                metrics[name] = metrics.get(name, 0.0) + value
            if math.isfinite(loss):
                part.loss.backward()  # type: ignore[no-untyped-call]
        self.step += 1
        self.tokens_seen += num_tokens
        embedding_grad_norm = self._embedding_grad_norm()
        grad_norm = float(nn.utils.clip_grad_norm_(self.model.parameters(), self.config.max_grad_norm))
        is_skipped = not (math.isfinite(loss) and math.isfinite(grad_norm))
        lr_factor = self.schedule.factor(self.tokens_seen)
        if is_skipped:
            self._skip(loss, grad_norm)
        else:
            self.skipped_in_a_row = 0
            self.optimizer.set_lr_factor(lr_factor)
            self.optimizer.step()
            self.callbacks.after_update(self.tokens_seen)
        return StepReport(
            step=self.step,
            loss=loss,
            grad_norm=grad_norm,
            embedding_grad_norm=embedding_grad_norm,
            lr_factor=lr_factor,
            num_tokens=num_tokens,
            tokens_seen=self.tokens_seen,
            step_s=time.monotonic() - started,
            is_skipped=is_skipped,
            metrics=metrics,
        )

    def _skip(self, loss: float, grad_norm: float) -> None:
        self.num_skipped += 1
        self.skipped_in_a_row += 1
        if self.skipped_in_a_row >= MAX_SKIPPED_IN_A_ROW:
            raise TrainingDivergedError(
                f"{self.name} step {self.step}: want a finite loss and gradient norm, got {loss} and {grad_norm} in "
                f"the third step in a row; lower the learning rate and run again"
            )

    def _embedding_grad_norm(self) -> float:
        """The embedding's own gradient norm: its spikes come a few steps before a collapse (GLM-130B section 3.1)."""
        grads = [p.grad for name, p in self.model.named_parameters() if "embed" in name and p.grad is not None]
        return float(torch.stack([grad.norm() for grad in grads]).norm()) if grads else 0.0

    def _save(self, directory: Path) -> None:
        for name, param in self.model.named_parameters():
            if not bool(param.isfinite().all()):
                raise TrainingDivergedError(
                    f"{self.name} step {self.step}: want finite weights, got others in {name}; "
                    f"lower the learning rate and run again from the last checkpoint"
                )
        self.registry.save(directory, self.step)
