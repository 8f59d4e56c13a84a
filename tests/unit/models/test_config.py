from pathlib import Path

import pytest

from models.config import GlmConfig


def test_top_k_is_another_name_of_the_field_that_transformers_knows() -> None:
    assert GlmConfig(top_k=3).num_experts_per_tok == 3
    assert GlmConfig(num_experts_per_tok=4).top_k == 4


def test_a_configuration_survives_the_round_trip_through_its_file(tmp_path: Path) -> None:
    config = GlmConfig(vocab_size=70, top_k=3, qk_norm=True, num_labels=1)
    config.save_pretrained(tmp_path)
    again = GlmConfig.from_pretrained(tmp_path)
    assert again.to_dict() | {"_name_or_path": ""} == config.to_dict() | {"_name_or_path": ""}


def test_the_quantization_entry_of_a_file_becomes_the_quantization_field() -> None:
    spec = {"quant_method": "glmflow", "bits": 4, "group_size": 64}
    assert GlmConfig(quantization_config=spec).quantization == spec
    assert GlmConfig().quantization is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_expert": 4}, "num_expert: want a setting of GlmConfig, got an unknown name"),
        ({"temperature": 1}, "temperature: want a setting of GlmConfig"),
        ({"top_k": 9}, r"top_k: want 1\.\.num_experts \(8\), got 9"),
        ({"head_dim": 6}, "head_dim: want a multiple of 4"),
        ({"num_attention_heads": 5, "num_key_value_heads": 2}, "num_attention_heads: want a multiple of num_key_value"),
        ({"expert_ffn_size": 12}, "expert_ffn_size: want multiples of 8"),
        ({"num_expert_groups": 3}, "num_expert_groups, top_expert_groups: want groups of equal size"),
    ],
)
def test_sizes_that_do_not_fit_together_are_refused(settings: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GlmConfig(**settings)


def test_the_first_layers_are_dense_and_one_expert_means_dense_everywhere() -> None:
    config = GlmConfig(num_dense_layers=1, num_hidden_layers=3)
    assert [config.is_moe_layer(layer_idx) for layer_idx in range(3)] == [False, True, True]
    assert not GlmConfig(num_experts=1, top_k=1).is_moe_layer(0)
