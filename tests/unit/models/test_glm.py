import pytest
import torch
from torch.nn import functional
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification

from models.glm import GlmBackbone, GlmForCausalLM, GlmForSequenceClassification
from models.losses import supervised_loss_sum
from tests.support.tiny_glm import VOCAB_SIZE, tiny_config, tiny_glm, tiny_reward_model


def _tokens(*shape: int) -> torch.Tensor:
    return torch.randint(0, VOCAB_SIZE, shape, generator=torch.Generator().manual_seed(1))


def test_the_auto_classes_know_the_model() -> None:
    config = tiny_config()
    assert isinstance(AutoModelForCausalLM.from_config(config), GlmForCausalLM)
    assert isinstance(AutoModelForSequenceClassification.from_config(config), GlmForSequenceClassification)
    assert type(AutoConfig.for_model("glmflow")) is type(config)


def test_all_experts_and_all_plain_matrices_start_from_the_same_law() -> None:
    config = tiny_config(hidden_size=64, expert_ffn_size=64, initializer_range=0.02)
    torch.manual_seed(0)
    model = GlmForCausalLM(config)
    ffn = model.model.layers[0].ffn
    for stack in (ffn.experts.gate_up_proj, ffn.experts.down_proj):
        deviations = stack.detach().flatten(1).std(1)
        assert deviations.min() > 0.0185 and deviations.max() < 0.0215
    assert float(ffn.shared_expert.down_proj.weight.detach().std()) == pytest.approx(0.02, rel=0.05)
    assert float(ffn.router.weight.detach().std()) == pytest.approx(0.02, rel=0.1)
    assert not ffn.router.selection_bias.any()


def test_tied_weights_are_one_tensor_and_untied_ones_are_two() -> None:
    tied = tiny_glm()
    assert tied.lm_head.weight is tied.model.embed_tokens.weight
    assert tied.get_output_embeddings() is tied.lm_head and tied.get_input_embeddings() is tied.model.embed_tokens
    untied = tiny_glm(tie_word_embeddings=False)
    assert untied.lm_head.weight is not untied.model.embed_tokens.weight


def test_the_loss_follows_the_shift_and_the_normaliser_of_the_trainer() -> None:
    model = tiny_glm()
    tokens = _tokens(2, 7)
    labels = tokens.clone()
    labels[0, :4] = -100
    output = model(tokens, labels=labels)
    expected = functional.cross_entropy(output.logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), reduction="sum")
    torch.testing.assert_close(output.loss, expected / 9)
    torch.testing.assert_close(model(tokens, labels=labels, num_items_in_batch=4).loss, expected / 4)


def test_logits_at_supervised_positions_only_give_the_same_loss_and_gradients() -> None:
    model = tiny_glm()
    tokens = _tokens(2, 9)
    loss_mask = torch.rand(2, 9, generator=torch.Generator().manual_seed(0)) < 0.5
    targets = _tokens(2, 9)
    plain = functional.cross_entropy(model(tokens).logits[loss_mask], targets[loss_mask], reduction="sum")
    ours = supervised_loss_sum(model.model(tokens).hidden_BTD, targets, loss_mask, model.lm_head)
    torch.testing.assert_close(ours, plain)
    for parameter in (model.lm_head.weight, model.model.layers[0].ffn.experts.down_proj):
        (expected,), (got,) = (torch.autograd.grad(loss, [parameter], retain_graph=True) for loss in (plain, ours))
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)


def test_every_parameter_gets_a_gradient() -> None:
    model = tiny_glm(qk_norm=True, num_dense_layers=1)
    tokens = _tokens(4, 16)
    model(tokens, labels=tokens).loss.backward()
    without = [name for name, parameter in model.named_parameters() if parameter.grad is None]
    assert without == []


def test_the_embedding_gradient_is_scaled_and_the_forward_is_untouched() -> None:
    plain, shrunk = tiny_glm(tie_word_embeddings=False), tiny_glm(tie_word_embeddings=False, embedding_grad_scale=0.1)
    tokens = _tokens(1, 6)
    assert plain(tokens).logits.equal(shrunk(tokens).logits)
    for model in (plain, shrunk):
        model(tokens, labels=tokens).loss.backward()
    torch.testing.assert_close(shrunk.model.embed_tokens.weight.grad, plain.model.embed_tokens.weight.grad * 0.1)


def test_router_states_of_the_moe_layers_come_with_the_output() -> None:
    output = tiny_glm(num_dense_layers=1, num_hidden_layers=3)(_tokens(2, 5))
    assert len(output.router) == 2
    assert output.router[0].scores_BTE.shape == (2, 5, 8) and output.router[0].expert_idx_BTK.shape == (2, 5, 2)
    assert int(output.router[0].counts_E.sum()) == 20


def test_one_expert_is_a_plain_dense_model() -> None:
    output = tiny_glm(num_experts=1, top_k=1)(_tokens(2, 5))
    assert output.router == () and output.logits.shape == (2, 5, VOCAB_SIZE)


def test_hugging_face_generation_equals_step_by_step_argmax_under_left_padding() -> None:
    model = tiny_glm()
    prompt = _tokens(1, 5)
    padded = torch.cat((torch.zeros(1, 3, dtype=torch.long), prompt), dim=1)
    attention_mask = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1]])
    expected = prompt
    for _ in range(6):
        expected = torch.cat((expected, model(expected).logits[:, -1:].argmax(-1)), dim=1)
    settings = {"max_new_tokens": 6, "do_sample": False}
    assert model.generate(prompt, **settings).equal(expected)
    assert model.generate(padded, attention_mask=attention_mask, **settings)[:, 3:].equal(expected)


def test_the_score_is_read_at_the_last_real_token_even_when_it_is_the_padding_token() -> None:
    model = tiny_reward_model()
    tokens = _tokens(1, 6)
    tokens[0, -1] = model.config.pad_token_id
    score = model(tokens, attention_mask=torch.ones_like(tokens)).logits
    torch.testing.assert_close(score, model.score(model.model(tokens).hidden_BTD[:, -1]))
    assert score.shape == (1, 1)


def test_the_score_is_a_regression_with_one_label_and_trains() -> None:
    model = tiny_reward_model()
    loss = model(_tokens(3, 4), labels=torch.tensor([0.5, -1.0, 2.0])).loss
    loss.backward()
    assert torch.isfinite(loss) and model.score.weight.grad is not None


def test_inputs_that_contradict_each_other_are_refused() -> None:
    backbone: GlmBackbone = tiny_glm().model
    with pytest.raises(ValueError, match="input_ids, inputs_embeds: want exactly one"):
        backbone()
    with pytest.raises(ValueError, match=r"attention_mask: want \[batch, 5\] \(cached tokens included\), got \(1, 4\)"):
        backbone(_tokens(1, 5), attention_mask=torch.ones(1, 4))
