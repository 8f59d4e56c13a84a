from pathlib import Path

import pytest
import torch

from infra.errors import BadSpecError, StopRequestedError
from infra.stores.local import LocalStore
from models.export import load_model
from models.token_shards import TokenShards
from stages.contract import StageContext
from stages.execution import read_history
from stages.pretrain import PretrainConfig, PretrainInputs, run
from tests.support.tiny_pretrain import TEXTS, config_of, context, prepare

Prepared = tuple[LocalStore, PretrainInputs]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return prepare(tmp_path_factory.mktemp("pretrain"))


@pytest.fixture(autouse=True)
def deterministic_mode_ends_with_the_test():
    yield
    torch.use_deterministic_algorithms(False)


def metrics_of(ctx: StageContext) -> dict[str, float]:
    return {point.name: point.value for point in read_history(ctx.metrics_path)}


@pytest.fixture(scope="module")
def finished(prepared: Prepared, tmp_path_factory: pytest.TempPathFactory) -> tuple[StageContext, Path]:
    store, inputs = prepared
    ctx = context(store, tmp_path_factory.mktemp("run"))
    return ctx, store.get(run(config_of(), inputs, ctx).model)


def test_training_brings_held_out_bits_per_byte_below_initialisation_and_unigram(finished: tuple[StageContext, Path]):
    metrics = metrics_of(finished[0])
    assert metrics["pretrain/bits_per_byte"] < 0.8 * metrics["pretrain/initial_bits_per_byte"]
    assert metrics["pretrain/bits_per_byte"] < metrics["pretrain/unigram_bits_per_byte"]
    assert {"pretrain/bits_per_byte/domain/prose", "pretrain/bits_per_byte/lang/en"} <= metrics.keys()


def test_the_training_tokens_that_were_asked_for_are_real_tokens(finished: tuple[StageContext, Path]):
    points = read_history(finished[0].metrics_path)
    padding = [p.value for p in points if p.name == "pretrain/padding_ratio"]
    assert metrics_of(finished[0])["pretrain/num_tokens"] == pytest.approx(
        sum(4 * 32 * (1 - ratio) for ratio in padding)
    )
    assert metrics_of(finished[0])["pretrain/num_tokens"] >= 1950


def test_loss_norms_rate_and_every_experts_load_are_logged_from_step_one(finished: tuple[StageContext, Path]):
    first = {p.name for p in read_history(finished[0].metrics_path) if p.step == 1}
    loads = {f"moe/expert_load/layer_{layer}/expert_{expert}" for layer in range(2) for expert in range(4)}
    names = {
        "pretrain/loss", "pretrain/loss/language", "pretrain/grad_norm", "pretrain/embedding_grad_norm",
        "pretrain/learning_rate", "pretrain/tokens_per_s", "moe/max_violation", "moe/router_entropy",
        "moe/dead_experts", "moe/balance_loss",
    }  # fmt: skip
    assert loads | names <= first


def test_the_artifact_is_the_trained_model(finished: tuple[StageContext, Path]):
    model = load_model(finished[1])
    moved = [layer.ffn.router.selection_bias for layer in model.model.layers]
    assert all(bool((bias != 0).any()) for bias in moved)
    assert (finished[1] / "tokenizer.json").is_file()


def test_the_same_call_gives_the_same_bytes(prepared: Prepared, finished: tuple[StageContext, Path], tmp_path: Path):
    store, inputs = prepared
    assert store.get(run(config_of(), inputs, context(store, tmp_path)).model) == finished[1]


def test_another_seed_gives_another_model(prepared: Prepared, finished: tuple[StageContext, Path], tmp_path: Path):
    store, inputs = prepared
    assert store.get(run(config_of(), inputs, context(store, tmp_path, seed=1)).model) != finished[1]


def test_a_stop_request_ends_the_stage_with_its_state_saved(prepared: Prepared, tmp_path: Path):
    store, inputs = prepared
    ctx = context(store, tmp_path)

    def log_and_stop(message: str) -> None:
        ctx.stop_requested = ctx.stop_requested or message.startswith("step 1/")

    ctx.log = log_and_stop  # type: ignore[method-assign]
    with pytest.raises(StopRequestedError, match="stopped on request with its state saved"):
        run(config_of(), inputs, ctx)
    assert [path.name for path in ctx.checkpoint_dir.iterdir()] == ["step-00000001"]


def test_a_failure_after_training_loses_no_training(
    prepared: Prepared, finished: tuple[StageContext, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    store, inputs = prepared
    ctx = context(store, tmp_path)
    with monkeypatch.context() as patch, pytest.raises(OSError, match="disk full"):
        patch.setattr("models.export.save_model", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
        run(config_of(), inputs, ctx)
    steps_before = [p.step for p in read_history(ctx.metrics_path) if p.name == "pretrain/loss"]
    with monkeypatch.context() as patch:
        patch.setattr("models.pretrain_loss.PretrainLoss.__call__", lambda *_: pytest.fail("trained again"))
        model = run(config_of(), inputs, ctx).model
    assert steps_before[-1] == len(steps_before)
    assert store.get(model) == finished[1]


def test_a_dataset_too_small_for_one_step_is_refused(tmp_path: Path):
    store, inputs = prepare(tmp_path, TEXTS[:2], num_heldout=1)
    with pytest.raises(BadSpecError, match=r"dataset yields 0 steps: want at least \d+ tokens \(rows=4 of 32\), got "):
        run(config_of(max_epochs=1.0), inputs, context(store, tmp_path))


def test_tokens_of_another_tokenizer_are_refused(prepared: Prepared, tmp_path: Path):
    store, inputs = prepared
    other = inputs.tokenizer.model_copy(update={"digest": "0" * 64})
    strange = inputs.model_copy(update={"tokenizer": other})
    with pytest.raises(BadSpecError, match=r"pretrain: want tokens encoded with tokenizer:0+, got those of"):
        run(config_of(), strange, context(_StoreOfOneTokenizer(store, inputs), tmp_path))


class _StoreOfOneTokenizer(LocalStore):
    """Gives the same tokenizer whatever digest is asked for."""

    def __init__(self, store: LocalStore, inputs: PretrainInputs) -> None:
        super().__init__(store.root)
        self._inputs = inputs

    def get(self, ref: object) -> Path:
        return super().get(self._inputs.tokens if ref == self._inputs.tokens else self._inputs.tokenizer)


def test_a_config_that_does_not_fit_together_is_refused_before_training(prepared: Prepared, tmp_path: Path):
    store, inputs = prepared
    with pytest.raises(ValueError, match=r"rows_per_micro_batch: want a divisor of rows_per_step \(4\), got 3"):
        config_of(rows_per_micro_batch=3)
    bad_size = config_of().model.model_copy(update={"top_k": 9})
    with pytest.raises(BadSpecError, match=r"pretrain: top_k: want 1\.\.num_experts \(4\), got 9"):
        run(config_of().model_copy(update={"model": bad_size}), inputs, context(store, tmp_path))


def test_the_default_config_has_the_size_that_was_promised():
    size = PretrainConfig().model
    assert size.num_hidden_layers >= 4 and size.num_experts >= 8 and size.num_shared_experts >= 1
    assert PretrainConfig().train_tokens >= 1_000_000
    attention = 4 * size.hidden_size * size.num_attention_heads * size.head_dim
    experts = 3 * size.hidden_size * size.expert_ffn_size * (size.num_experts + size.num_shared_experts)
    assert 8192 * size.hidden_size + size.num_hidden_layers * (attention + experts) >= 5_000_000


def test_the_shards_of_the_fixture_are_what_the_stage_reads(prepared: Prepared):
    store, inputs = prepared
    assert len(TokenShards(store.get(inputs.tokens)).heldout) == 4
