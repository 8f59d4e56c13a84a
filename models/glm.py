"""The GLM: backbone, language-model head and scalar score head, as Hugging Face models.

One stack serves blank infilling and plain language modelling: `context_length` says how many leading real tokens
(part A) are attended in both directions, `position_ids` and `block_position_ids` are the two positions of
`models.infilling`. Without them the model is causal with positions 0, 1, 2, ... and block position 0.

`attention_mask` [B, T]: True or 1 = real token; left or right padding. With a cache it covers the cached tokens too.
Neither padding nor the rest of the batch changes a real token's logits (up to the rounding of the matrix products).

Shapes: B batch, T tokens, D model dim, V vocabulary, N labels.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    DynamicCache,
    GenerationMixin,
    PreTrainedModel,
    initialization,
)
from transformers.modeling_outputs import CausalLMOutputWithPast, SequenceClassifierOutputWithPast
from transformers.utils import ModelOutput

from models.attention import Attention, as_bias, attend_bias
from models.config import GlmConfig
from models.layers import SwiGluFfn
from models.losses import next_token_loss
from models.moe import Experts, MoeFfn, Router, RouterState
from models.quantized import build_quantized_modules
from models.rope import rotations


class GlmLayer(nn.Module):
    """x + attention(norm(x)), then x + ffn(norm(x)); the FFN is dense or a mixture of experts."""

    def __init__(self, config: GlmConfig, layer_idx: int) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.attention = Attention(config, layer_idx)
        self.ffn_norm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.ffn: MoeFfn | SwiGluFfn
        if config.is_moe_layer(layer_idx):
            self.ffn = MoeFfn(config)
        else:
            self.ffn = SwiGluFfn(config.hidden_size, config.ffn_size)

    def forward(
        self,
        x_BTD: torch.Tensor,
        rotations_BT1P: torch.Tensor,
        bias: torch.Tensor | None,
        is_real_BT: torch.Tensor | None,
        cache: Any,
    ) -> tuple[torch.Tensor, RouterState | None]:
        x_BTD = x_BTD + self.attention(self.attention_norm(x_BTD), rotations_BT1P, bias, cache)
        normed_BTD = self.ffn_norm(x_BTD)
        if isinstance(self.ffn, MoeFfn):
            y_BTD, router_state = self.ffn(normed_BTD, is_real_BT)
            return x_BTD + y_BTD, router_state
        return x_BTD + self.ffn(normed_BTD), None


@dataclass
class GlmBackboneOutput(ModelOutput):  # type: ignore[misc]  # transformers is not typed here
    """The final hidden states, and what every mixture-of-experts layer's router did."""

    last_hidden_state: torch.Tensor | None = None
    cache: Any = None
    router: tuple[RouterState, ...] | None = None

    @property
    def hidden_BTD(self) -> torch.Tensor:  # noqa: N802  shape letters
        """`last_hidden_state`, never None."""
        assert self.last_hidden_state is not None
        return self.last_hidden_state


@dataclass
class GlmCausalLMOutput(CausalLMOutputWithPast):  # type: ignore[misc]
    """Logits, loss, cache, and the routers' states."""

    router: tuple[RouterState, ...] | None = None


class GlmPreTrainedModel(PreTrainedModel):  # type: ignore[misc]
    """What every GLM class shares: configuration, initialisation, capabilities."""

    config_class = GlmConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = False
    _supports_sdpa = True
    _no_split_modules = ["GlmLayer"]  # noqa: RUF012
    _can_compile_fullgraph = False

    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        # stacked experts are drawn as one tensor from the same law as any Linear, so all experts start alike
        weights: list[torch.Tensor] = []
        if isinstance(module, Experts):
            weights = [module.gate_up_proj, module.down_proj]
        elif isinstance(module, Router):
            weights = [module.weight]
            initialization.zeros_(module.selection_bias)
        for weight in weights:
            initialization.normal_(weight, mean=0.0, std=self.config.initializer_range)


class GlmBackbone(GlmPreTrainedModel):
    """Embedding, layers, final norm."""

    def __init__(self, config: GlmConfig) -> None:
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(GlmLayer(config, layer_idx) for layer_idx in range(config.num_hidden_layers))
        self.norm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        if config.quantization is not None:
            build_quantized_modules(self, config.quantization)
        self.post_init()

    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        block_position_ids: torch.Tensor | None = None,
        context_length: torch.Tensor | None = None,
        cache: Any = None,
        past_key_values: Any = None,
        use_cache: bool | None = None,
        inputs_embeds: torch.Tensor | None = None,
        attend_mask: torch.Tensor | None = None,
        **_unused: Any,
    ) -> GlmBackboneOutput:
        """Hidden states of every position; `past_key_values` is the older name of `cache`.

        `attend_mask` [B, T, S] (True = may attend, each query at least itself) replaces the mask made from
        `attention_mask` and `context_length`: packed training sequences keep their segments apart with it.
        """
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("input_ids, inputs_embeds: want exactly one of them; pass the other as None")
        x_BTD = self._embed(input_ids) if inputs_embeds is None else inputs_embeds
        cache = past_key_values if cache is None else cache
        if cache is None and use_cache:
            cache = DynamicCache(config=self.config)
        num_cached = 0 if cache is None else int(cache.get_seq_length())
        num_queries = x_BTD.shape[1]
        is_real_BS = _as_is_real(attention_mask, num_cached + num_queries)
        is_real_BT = None if is_real_BS is None else is_real_BS[:, num_cached:]
        if position_ids is None:
            position_ids = _default_positions(is_real_BS, num_cached, num_queries, x_BTD.device)
        if block_position_ids is None:
            block_position_ids = torch.zeros_like(position_ids)
        turns = rotations(position_ids, block_position_ids, head_dim=self.config.head_dim, base=self.config.rope_base)
        if attend_mask is None:
            bias = attend_bias(
                is_real_BS, context_length, num_queries=num_queries, num_keys=num_cached + num_queries, like=x_BTD
            )
        else:
            bias = as_bias(attend_mask, like=x_BTD)
        router: list[RouterState] = []
        for layer in self.layers:
            x_BTD, router_state = layer(x_BTD, turns, bias, is_real_BT, cache)
            if router_state is not None:
                router.append(router_state)
        return GlmBackboneOutput(last_hidden_state=self.norm(x_BTD), cache=cache, router=tuple(router))

    def _embed(self, input_ids: torch.Tensor | None) -> torch.Tensor:
        x_BTD: torch.Tensor = self.embed_tokens(input_ids)
        grad_scale = self.config.embedding_grad_scale
        if grad_scale != 1.0 and x_BTD.requires_grad:
            # GLM-130B section 3.1; as a hook, so that the forward value stays exact
            x_BTD.register_hook(lambda grad: grad * grad_scale)  # type: ignore[no-untyped-call]
        return x_BTD


def _as_is_real(attention_mask: torch.Tensor | None, num_keys: int) -> torch.Tensor | None:
    if attention_mask is None:
        return None
    if attention_mask.ndim != 2 or attention_mask.shape[1] != num_keys:
        raise ValueError(
            f"attention_mask: want [batch, {num_keys}] (cached tokens included), got {tuple(attention_mask.shape)}; "
            f"pass one flag a token"
        )
    return attention_mask.bool()


def _default_positions(
    is_real_BS: torch.Tensor | None, num_cached: int, num_queries: int, device: torch.device
) -> torch.Tensor:
    if is_real_BS is None:
        return torch.arange(num_cached, num_cached + num_queries, device=device)[None]
    return (is_real_BS.cumsum(1) - 1).clamp_(min=0)[:, -num_queries:]


class GlmForCausalLM(GlmPreTrainedModel, GenerationMixin):  # type: ignore[misc]
    """The backbone with a language-model head (tied to the embedding if the configuration says so)."""

    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}  # noqa: RUF012

    def __init__(self, config: GlmConfig) -> None:
        super().__init__(config)
        self.model = GlmBackbone(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        block_position_ids: torch.Tensor | None = None,
        context_length: torch.Tensor | None = None,
        cache: Any = None,
        past_key_values: Any = None,
        use_cache: bool | None = None,
        labels: torch.Tensor | None = None,
        logits_to_keep: int = 0,
        inputs_embeds: torch.Tensor | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        **_unused: Any,
    ) -> GlmCausalLMOutput:
        """Logits (of the last `logits_to_keep` positions; 0 = all); `labels` as in Hugging Face: shifted inside."""
        backbone: GlmBackboneOutput = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            block_position_ids=block_position_ids,
            context_length=context_length,
            cache=cache,
            past_key_values=past_key_values,
            use_cache=use_cache,
            inputs_embeds=inputs_embeds,
        )
        hidden_BTD = backbone.hidden_BTD
        logits_BTV = self.lm_head(hidden_BTD[:, -logits_to_keep:] if logits_to_keep else hidden_BTD)
        loss = None if labels is None else next_token_loss(logits_BTV, labels, num_items_in_batch=num_items_in_batch)
        return GlmCausalLMOutput(loss=loss, logits=logits_BTV, cache=backbone.cache, router=backbone.router)


class GlmForSequenceClassification(GlmPreTrainedModel):
    """The backbone with a `score` head on the last real token; one label = a reward model."""

    def __init__(self, config: GlmConfig) -> None:
        super().__init__(config)
        self.num_labels = config.num_labels
        self.model = GlmBackbone(config)
        self.score = nn.Linear(config.hidden_size, config.num_labels, bias=False)
        self.post_init()

    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        use_cache: bool | None = None,
        **_unused: Any,
    ) -> SequenceClassifierOutputWithPast:
        """Scores [B, N]. The last real token is found from `attention_mask` only: padding and text end share an id."""
        del use_cache  # one pass, nothing to reuse
        backbone: GlmBackboneOutput = self.model(
            input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids, inputs_embeds=inputs_embeds
        )
        hidden_BTD = backbone.hidden_BTD
        batch_size, length = hidden_BTD.shape[:2]
        last_B = torch.full((batch_size,), length - 1, device=hidden_BTD.device)
        if attention_mask is not None:
            last_B = length - 1 - attention_mask.long().flip(1).argmax(1)
        scores_BN = self.score(hidden_BTD[torch.arange(batch_size, device=hidden_BTD.device), last_B])
        loss = None
        if labels is not None:
            loss = self.loss_function(labels=labels, pooled_logits=scores_BN, logits=scores_BN, config=self.config)
        return SequenceClassifierOutputWithPast(loss=loss, logits=scores_BN)


AutoConfig.register(GlmConfig.model_type, GlmConfig, exist_ok=True)
AutoModel.register(GlmConfig, GlmBackbone, exist_ok=True)
AutoModelForCausalLM.register(GlmConfig, GlmForCausalLM, exist_ok=True)
AutoModelForSequenceClassification.register(GlmConfig, GlmForSequenceClassification, exist_ok=True)
