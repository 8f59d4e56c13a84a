"""Supervised fine-tuning with TRL's SFTTrainer: labels, curriculum order, and the trainer with our head.

Loss on assistant tokens and the end token of each answer only. The order of the batches is fixed beforehand: phases in
order, inside a phase a seeded shuffle of batches of similar length. Router biases are not touched (they are moved by
the pretraining loop only) and there is no balance loss.

Shapes: B batch, T tokens, D model dim.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from torch.utils.data import DataLoader
from transformers import PrinterCallback, ProgressCallback, TrainerCallback
from trl import SFTConfig, SFTTrainer

from models.losses import IGNORED_LABEL, supervised_loss_sum
from models.optim import MuonAdamW
from models.schedule import CosineSchedule

OnLog = Callable[[int, dict[str, float]], None]  # (step, values)


@dataclass(frozen=True)
class FineTuning:
    """What TRL's trainer is told; the optimizer carries the learning rates."""

    output_dir: Path
    seed: int
    warmup_ratio: float
    min_learning_rate_ratio: float
    max_grad_norm: float
    log_every_steps: int

    def trainer_arguments(self, num_steps: int) -> dict[str, Any]:
        """Arguments that SFTConfig and RewardConfig share: no saving, no reporting, no progress bar of theirs."""
        return {
            "output_dir": str(self.output_dir),
            "max_steps": num_steps,
            "seed": self.seed,
            "max_grad_norm": self.max_grad_norm,
            "logging_steps": self.log_every_steps,
            "logging_nan_inf_filter": False,
            "report_to": "none",
            "save_strategy": "no",
            "eval_strategy": "no",
            "disable_tqdm": True,
            "dataloader_pin_memory": False,
            "gradient_checkpointing": False,  # the default of trl 1.16 is True; transformers 5.24 renamed it
            "activation_checkpointing": False,
            "bf16": False,
            "max_length": None,
            "remove_unused_columns": False,
            "skip_memory_metrics": True,
        }

    def scheduler(self, optimizer: MuonAdamW, num_steps: int) -> torch.optim.lr_scheduler.LambdaLR:
        """Warm-up, then half a cosine, over steps."""
        schedule = CosineSchedule(int(self.warmup_ratio * num_steps), num_steps, self.min_learning_rate_ratio)
        optimizer.set_lr_factor(1.0)
        return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: schedule.factor(step + 1))


class CurveCallback(TrainerCallback):  # type: ignore[misc]  # transformers is not typed here
    """Hands the trainer's log on, reports progress, and ends a run whose loss is not finite."""

    def __init__(self, on_log: OnLog, on_step: Callable[[int, int], None]) -> None:
        self._on_log = on_log
        self._on_step = on_step

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """A step is done."""
        self._on_step(state.global_step, state.max_steps)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any) -> None:
        """A mean over the last steps is there."""
        logs = logs or {}
        loss = logs.get("loss")
        if loss is None:
            return
        if not torch.isfinite(torch.tensor([loss, logs.get("grad_norm", 0.0)])).all():
            raise RuntimeError(
                f"step {state.global_step}: want a finite loss and gradient norm, got {loss} and "
                f"{logs.get('grad_norm')}; lower the learning rate"
            )
        self._on_log(state.global_step, logs)


class FixedOrderMixin:
    """A trainer that walks through given batches."""

    batches: Sequence[list[int]]
    train_dataset: Any
    data_collator: Any

    def get_train_dataloader(self) -> DataLoader[Any]:
        """The batches, in their order, in this process."""
        return DataLoader(self.train_dataset, batch_sampler=self.batches, collate_fn=self.data_collator)


class SupervisedTrainer(FixedOrderMixin, SFTTrainer):  # type: ignore[misc]  # trl is not typed
    """TRL's trainer; the head runs at supervised positions only (TRL's fused head does so on GPUs, not on CPUs)."""

    def __init__(self, *args: Any, batches: Sequence[list[int]], **kwargs: Any) -> None:
        self.batches = batches
        super().__init__(*args, **kwargs)

    def compute_loss(
        self, model: Any, inputs: dict[str, torch.Tensor], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> torch.Tensor:
        """Mean cross entropy over the batch's supervised tokens."""
        labels_BT = inputs["labels"]
        if return_outputs:
            raise ValueError("return_outputs: want False (no evaluation in this trainer), got True")
        hidden_BTD = model.model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]).hidden_BTD
        targets_BT = labels_BT[:, 1:]
        counts_BT = targets_BT != IGNORED_LABEL
        loss = supervised_loss_sum(hidden_BTD[:, :-1], targets_BT, counts_BT, model.lm_head)
        return loss / counts_BT.sum()


def fine_tune(
    model: Any,
    tokenizer: Any,
    rows: Dataset,
    batches: Sequence[list[int]],
    optimizer: MuonAdamW,
    settings: FineTuning,
    callback: CurveCallback,
) -> None:
    """Train `model` in place on `rows` (columns input_ids, labels), one step a batch."""
    trainer = SupervisedTrainer(
        model=model,
        args=SFTConfig(
            **settings.trainer_arguments(len(batches)), dataset_kwargs={"skip_prepare_dataset": True}, packing=False
        ),
        train_dataset=rows,
        processing_class=tokenizer,
        optimizers=(optimizer, settings.scheduler(optimizer, len(batches))),
        callbacks=[callback],
        batches=batches,
    )
    train_and_leave_clean(trainer)


def train_and_leave_clean(trainer: Any) -> None:
    """Train without the callbacks that print, then undo what TRL does to a model besides training it."""
    for chatty in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(chatty)
    trainer.train()
    model = trainer.model
    model.config.use_cache = True  # TRL turns the cache off
    model.__dict__.pop("forward", None)  # the fused head
    model.eval()
