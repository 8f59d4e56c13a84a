"""The GLM's hyper-parameters, as a Hugging Face configuration."""

from typing import Any

from transformers import PreTrainedConfig

# what transformers itself passes to a configuration beside the fields
_FOREIGN_SETTINGS = frozenset({
    "attn_implementation", "auto_map", "experts_implementation", "model_type", "name_or_path", "num_labels",
    "output_attentions", "per_layer_config", "tie_last_hidden_states", "torch_dtype",
})  # fmt: skip


class GlmConfig(PreTrainedConfig):  # type: ignore[misc]  # transformers is not typed here
    """A mixture-of-experts GLM with blank-infilling positions.

    The first `num_dense_layers` layers and, if `num_experts` is 1, all of them have a dense SwiGLU of `ffn_size`; the
    others route every token to `top_k` of `num_experts` experts of `expert_ffn_size` and add `num_shared_experts`
    shared ones. `num_expert_groups`/`top_expert_groups` limit the choice to the best groups (1/1 = no limit, as GLM).
    `embedding_grad_scale` multiplies the embedding's gradient (GLM-130B's shrink; 1 = off); the forward is unchanged.
    """

    model_type = "glmflow"
    keys_to_ignore_at_inference = ("cache", "router")
    # `top_k` is how the code says it; the stored name is Hugging Face's, because there `top_k` belongs to sampling
    attribute_map = {"top_k": "num_experts_per_tok", "intermediate_size": "ffn_size"}  # noqa: RUF012

    vocab_size: int = 8192
    hidden_size: int = 192
    num_hidden_layers: int = 4
    num_attention_heads: int = 6
    num_key_value_heads: int = 6
    head_dim: int = 32
    qk_norm: bool = False
    ffn_size: int = 512
    num_dense_layers: int = 0
    num_experts: int = 8
    num_experts_per_tok: int = 2
    num_shared_experts: int = 1
    expert_ffn_size: int = 128
    num_expert_groups: int = 1
    top_expert_groups: int = 1
    routed_scaling_factor: float = 1.0
    rope_base: float = 10000.0
    rms_norm_eps: float = 1e-5
    tie_word_embeddings: bool = True
    max_position_embeddings: int = 2048
    initializer_range: float = 0.02
    embedding_grad_scale: float = 1.0
    use_cache: bool = True
    pad_token_id: int | None = 0
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None
    # {"quant_method", "bits", "group_size"} of a quantized model; in config.json it is called `quantization_config`
    quantization: dict[str, Any] | None = None

    def __post_init__(self, **kwargs: Any) -> None:
        # transformers drops names of sampling parameters without a word, and `top_k` is one
        for alias in self.attribute_map.keys() & kwargs.keys():
            setattr(self, alias, kwargs.pop(alias))
        # kept out of the attribute of that name, where transformers would look for a quantizer of its own
        self.quantization = kwargs.pop("quantization_config", None) or self.quantization
        unknown = sorted(name for name in kwargs if name not in _FOREIGN_SETTINGS and not name.startswith("_"))
        super().__post_init__(**kwargs)
        problems = [f"{name}: want a setting of GlmConfig, got an unknown name; correct it" for name in unknown]
        problems += self._problems()
        if problems:
            raise ValueError("; ".join(problems))

    def _get_generation_parameters(self) -> dict[str, Any]:
        # transformers takes our alias `top_k` for a sampling parameter and would refuse to save the model
        found: dict[str, Any] = super()._get_generation_parameters()
        return {name: value for name, value in found.items() if name not in self.attribute_map}

    def _problems(self) -> list[str]:
        checks = [
            (
                self.head_dim % 4 == 0,
                f"head_dim: want a multiple of 4 (pairs, half by each position), got {self.head_dim}; round it",
            ),
            (
                self.num_attention_heads % self.num_key_value_heads == 0,
                f"num_attention_heads: want a multiple of num_key_value_heads ({self.num_key_value_heads}), "
                f"got {self.num_attention_heads}; change one of them",
            ),
            (
                1 <= self.top_k <= self.num_experts,
                f"top_k: want 1..num_experts ({self.num_experts}), got {self.top_k}; lower it",
            ),
            (
                self.num_experts == 1 or (self.hidden_size % 8 == 0 and self.expert_ffn_size % 8 == 0),
                f"hidden_size, expert_ffn_size: want multiples of 8 (grouped matrix products read aligned rows), "
                f"got {self.hidden_size}, {self.expert_ffn_size}; round them",
            ),
            (
                self.num_experts % self.num_expert_groups == 0
                and 1 <= self.top_expert_groups <= self.num_expert_groups
                and self.top_k <= self.num_experts // self.num_expert_groups * self.top_expert_groups,
                f"num_expert_groups, top_expert_groups: want groups of equal size that hold top_k ({self.top_k}) "
                f"experts, got {self.num_expert_groups}, {self.top_expert_groups}; use 1, 1 for no limit",
            ),
        ]
        return [message for is_met, message in checks if not is_met]

    def is_moe_layer(self, layer_idx: int) -> bool:
        """Whether the layer routes (True) or has one dense FFN."""
        return self.num_experts > 1 and layer_idx >= self.num_dense_layers
