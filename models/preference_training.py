"""Reward model training with TRL's RewardTrainer on a language model's backbone.

Loss of a pair: -log sigmoid(r_chosen - r_rejected) + c (r_chosen^2 + r_rejected^2). The second term keeps scores
centred (ChatGLM-RLHF, section 3.2); it is ours, because TRL centres the sum of the two scores instead. The score stands
at the last token of the answer, its end token.

Shapes: B pairs, N = 2B conversations (all chosen, then all rejected), T tokens.
"""

from collections.abc import Sequence
from typing import Any

import torch
from datasets import Dataset
from torch.nn import functional
from trl import RewardConfig, RewardTrainer

from models.glm import GlmForCausalLM, GlmForSequenceClassification
from models.optim import MuonAdamW
from models.supervised import CurveCallback, FineTuning, FixedOrderMixin, train_and_leave_clean
from models.tokenizer import ChatTemplate, Message


def on_backbone_of(model: GlmForCausalLM, *, seed: int) -> GlmForSequenceClassification:
    """A reward model with the language model's backbone and a score head that starts near 0."""
    shape = {name: value for name, value in model.config.to_dict().items() if name not in ("id2label", "label2id")}
    config = type(model.config)(**{**shape, "num_labels": 1})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        reward_model = GlmForSequenceClassification(config)
    reward_model.model.load_state_dict(model.model.state_dict())
    return reward_model


def pair_loss(chosen_B: torch.Tensor, rejected_B: torch.Tensor, *, centring: float) -> torch.Tensor:
    """Mean over pairs of -log sigmoid(difference) + centring (sum of squares): Bradley-Terry with centred scores."""
    preference_B = -functional.logsigmoid(chosen_B - rejected_B)
    return (preference_B + centring * (chosen_B.square() + rejected_B.square())).mean()


def pair_row(template: ChatTemplate, prompt: Sequence[Message], chosen: str, rejected: str) -> dict[str, list[int]]:
    """`chosen_ids` and `rejected_ids`: both conversations with their end token."""

    def ids(answer: str) -> list[int]:
        return template.encode([*prompt, {"role": "assistant", "content": answer}], add_generation_prompt=False)

    return {"chosen_ids": ids(chosen), "rejected_ids": ids(rejected)}


class PairTrainer(FixedOrderMixin, RewardTrainer):  # type: ignore[misc]  # trl is not typed
    """TRL's trainer with our pair loss."""

    def __init__(self, *args: Any, batches: Sequence[list[int]], centring: float, **kwargs: Any) -> None:
        self.batches = batches
        self.centring = centring
        super().__init__(*args, **kwargs)

    def compute_loss(
        self, model: Any, inputs: dict[str, torch.Tensor], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """The batch's mean pair loss."""
        outputs = model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"])
        chosen_B, rejected_B = outputs.logits.squeeze(-1).chunk(2)
        loss = pair_loss(chosen_B, rejected_B, centring=self.centring)
        self._metrics["train"]["accuracy"].append(float((chosen_B > rejected_B).float().mean()))
        return (loss, outputs) if return_outputs else loss


def train_on_pairs(
    model: GlmForSequenceClassification,
    tokenizer: Any,
    rows: Dataset,
    batches: Sequence[list[int]],
    optimizer: MuonAdamW,
    settings: FineTuning,
    callback: CurveCallback,
    *,
    centring: float,
) -> None:
    """Train `model` in place on `rows` (columns chosen_ids, rejected_ids), one step a batch."""
    trainer = PairTrainer(
        model=model,
        args=RewardConfig(**settings.trainer_arguments(len(batches))),
        train_dataset=rows,
        processing_class=tokenizer,
        optimizers=(optimizer, settings.scheduler(optimizer, len(batches))),
        callbacks=[callback],
        batches=batches,
        centring=centring,
    )
    train_and_leave_clean(trainer)
