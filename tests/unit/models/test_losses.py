import torch
from torch import nn
from torch.nn import functional

from models import losses


def test_loss_and_gradients_at_supervised_positions_equal_the_plain_cross_entropy(monkeypatch) -> None:
    monkeypatch.setattr(losses, "_ROWS_PER_BLOCK", 4)  # several blocks, the last one short
    torch.manual_seed(0)
    hidden = torch.randn(2, 9, 8, requires_grad=True)
    head = nn.Linear(8, 32, bias=False)
    targets = torch.randint(0, 32, (2, 9))
    loss_mask = torch.rand(2, 9) < 0.6
    plain = functional.cross_entropy(head(hidden[loss_mask]), targets[loss_mask], reduction="sum")
    ours, terms = losses.supervised_losses(hidden, targets, loss_mask, head)
    assert not terms.requires_grad
    torch.testing.assert_close(
        terms, functional.cross_entropy(head(hidden[loss_mask]), targets[loss_mask], reduction="none")
    )
    torch.testing.assert_close(ours, plain)
    expected = torch.autograd.grad(plain / 3, [hidden, head.weight])
    for got, want in zip(torch.autograd.grad(ours / 3, [hidden, head.weight]), expected, strict=True):
        torch.testing.assert_close(got, want)
    with torch.no_grad():
        torch.testing.assert_close(losses.supervised_loss_sum(hidden, targets, loss_mask, head), plain.detach())


def test_targets_where_nothing_is_supervised_do_not_matter() -> None:
    head = nn.Linear(8, 32, bias=False)
    hidden = torch.randn(1, 5, 8)
    loss_mask = torch.tensor([[False, True, True, False, False]])
    targets = torch.tensor([[-100, 3, 4, -100, -100]])
    other = torch.tensor([[7, 3, 4, 9, 0]])
    assert losses.supervised_loss_sum(hidden, targets, loss_mask, head).equal(
        losses.supervised_loss_sum(hidden, other, loss_mask, head)
    )


def test_without_supervision_the_loss_is_zero_and_still_has_a_gradient() -> None:
    head = nn.Linear(8, 32, bias=False)
    hidden = torch.randn(1, 5, 8, requires_grad=True)
    nothing = torch.zeros(1, 5, dtype=torch.bool)
    loss = losses.supervised_loss_sum(hidden, torch.zeros(1, 5, dtype=torch.long), nothing, head)
    loss.backward()
    assert float(loss.detach()) == 0 and hidden.grad is not None and not hidden.grad.any()


def test_position_t_predicts_label_t_plus_one() -> None:
    torch.manual_seed(0)
    logits = torch.randn(1, 3, 7)
    labels = torch.tensor([[5, -100, 2]])  # only the last label counts, predicted at position 1
    expected = functional.cross_entropy(logits[:, 1], torch.tensor([2]))
    torch.testing.assert_close(losses.next_token_loss(logits, labels), expected)
    torch.testing.assert_close(losses.next_token_loss(logits, labels, num_items_in_batch=4), expected / 4)


def test_token_logprobs_are_those_of_the_softmax() -> None:
    torch.manual_seed(0)
    logits, tokens = torch.randn(2, 3, 7), torch.randint(0, 7, (2, 3))
    expected = logits.log_softmax(-1).gather(-1, tokens[..., None])[..., 0]
    torch.testing.assert_close(losses.token_logprobs(logits, tokens), expected)
