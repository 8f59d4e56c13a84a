"""Laws of the infilling benchmark."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from stages.benchmarks.infilling import InfillingAccuracy
from tests.support.tiny_release import tiny_subject


class KnowsAll(torch.nn.Module):
    """Predicts the token that the document holds at every position of part B, given the documents."""

    def __init__(self, vocab_size: int, token: int) -> None:
        super().__init__()
        self.vocab_size, self.token = vocab_size, token

    def forward(self, input_ids: torch.Tensor, **_inputs: torch.Tensor) -> SimpleNamespace:
        return SimpleNamespace(hidden_BTD=torch.zeros(*input_ids.shape, self.vocab_size))


def test_figures_do_not_depend_on_how_documents_are_batched(tmp_path: Path):
    subject = tiny_subject(tmp_path)
    one = InfillingAccuracy(batch_size=1).measure(subject).metrics
    many = InfillingAccuracy(batch_size=16).measure(subject).metrics
    assert one == pytest.approx(many)
    assert {"eval/infilling_accuracy", "eval/infilling_stderr", "eval/infilling_accuracy/lang/zh"} <= set(one)


def test_a_model_that_always_says_one_token_is_right_as_often_as_that_token_is_masked(tmp_path: Path):
    subject = tiny_subject(tmp_path)
    benchmark = InfillingAccuracy()
    split = subject.shards.heldout
    asked = [benchmark._blank(subject, split.doc_ids[i], split.tokens(i)) for i in range(len(split))]
    eop = subject.template.token_id("<eop>")
    targets = [[t for t in one.targets if t not in (-100, eop)] for one in asked]
    token = targets[0][0]
    head = torch.nn.Linear(subject.shards.vocab_size, subject.shards.vocab_size, bias=True)
    torch.nn.init.zeros_(head.weight)
    torch.nn.init.zeros_(head.bias)
    head.bias.data[token] = 1
    subject.model = SimpleNamespace(
        model=KnowsAll(subject.shards.vocab_size, token), lm_head=head, config=subject.model.config
    )
    wanted = sum(row.count(token) / len(row) for row in targets) / len(targets)
    assert benchmark.measure(subject).metrics["eval/infilling_accuracy"] == pytest.approx(wanted)
    assert wanted > 0


def test_the_same_spans_are_asked_every_time(tmp_path: Path):
    benchmark = InfillingAccuracy()
    subject = tiny_subject(tmp_path)
    tokens = subject.shards.heldout.tokens(3)
    assert benchmark._blank(subject, "d", tokens) == benchmark._blank(subject, "d", tokens)
    assert benchmark._blank(subject, "d", tokens) != benchmark._blank(subject, "e", tokens)


def test_documents_too_short_to_mask_are_left_out(tmp_path: Path):
    subject = tiny_subject(tmp_path)
    subject.shards.heldout.num_tokens_N = subject.shards.heldout.num_tokens_N * 0
    assert InfillingAccuracy().measure(subject).metrics == {}
