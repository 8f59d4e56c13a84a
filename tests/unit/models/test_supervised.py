import math
from pathlib import Path

import pytest
import torch

from models.export import load_model
from models.mapped_rows import write_mapped_rows
from models.optim import OptimConfig, build_optimizer
from models.supervised import CurveCallback, FineTuning, SupervisedTrainer, fine_tune
from models.supervised_rows import labelled_row
from models.tokenizer import ChatTemplate, load_tokenizer
from tests.support.tiny_release import instructions, write_model


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory) -> Path:
    return write_model(tmp_path_factory.mktemp("m") / "model")


def settings(root: Path) -> FineTuning:
    return FineTuning(
        root / "trainer", 0, warmup_ratio=0.1, min_learning_rate_ratio=0.1, max_grad_norm=1.0, log_every_steps=1
    )


def tuned(model_dir: Path, root: Path, learning_rate: float = 0.01):
    model, tokenizer = load_model(model_dir), load_tokenizer(model_dir)
    template = ChatTemplate(tokenizer)
    rows = [labelled_row(template, one.conversation) for one in instructions(8, "x")]
    root.mkdir()
    losses: list[float] = []
    fine_tune(
        model,
        tokenizer,
        write_mapped_rows(root / "rows.arrow", rows, ("input_ids", "labels")),
        [[0, 1, 2, 3], [4, 5, 6, 7]] * 4,
        build_optimizer(model, OptimConfig(learning_rate, learning_rate, weight_decay=0.0)),
        settings(root),
        CurveCallback(lambda _step, values: losses.append(values["loss"]), lambda _step, _total: None),
    )
    return model, losses


def test_the_first_loss_is_the_models_own_and_the_loss_falls(model_dir, tmp_path):
    untouched, template = load_model(model_dir), ChatTemplate(load_tokenizer(model_dir))
    rows = [labelled_row(template, one.conversation) for one in instructions(4, "x")]
    total, count = 0.0, 0
    for row in rows:
        supervised = sum(label >= 0 for label in row["labels"])
        loss = untouched(input_ids=torch.tensor([row["input_ids"]]), labels=torch.tensor([row["labels"]])).loss
        total, count = total + loss.item() * supervised, count + supervised
    _, losses = tuned(model_dir, tmp_path / "a")
    assert losses[0] == pytest.approx(total / count, rel=1e-4)
    assert losses[-1] < losses[0]


def test_the_same_call_gives_the_same_bits_and_leaves_router_biases_and_config_alone(model_dir, tmp_path):
    (first, _), (second, _) = tuned(model_dir, tmp_path / "a"), tuned(model_dir, tmp_path / "b")
    untouched = load_model(model_dir)
    assert all(torch.equal(value, second.state_dict()[name]) for name, value in first.state_dict().items())
    biases = [name for name in first.state_dict() if name.endswith("selection_bias")]
    assert biases
    assert all(torch.equal(first.state_dict()[name], untouched.state_dict()[name]) for name in biases)
    assert first.config.to_dict() == untouched.config.to_dict()


def test_a_loss_that_is_not_finite_ends_the_run():
    callback = CurveCallback(lambda _step, _values: None, lambda _step, _total: None)
    state = type("State", (), {"global_step": 3})()
    with pytest.raises(RuntimeError, match="step 3: want a finite loss and gradient norm, got nan"):
        callback.on_log(None, state, None, {"loss": math.nan, "grad_norm": 1.0})


def test_the_trainer_refuses_to_evaluate():
    with pytest.raises(ValueError, match="return_outputs: want False"):
        SupervisedTrainer.compute_loss(None, None, {"labels": torch.zeros(1, 1)}, return_outputs=True)
