"""Laws of the ppo stage."""

import pytest

from infra.artifacts import RewardModel
from infra.errors import BadSpecError
from infra.stores.local import LocalStore
from models.export import load_model
from stages.ppo import STAGE, PpoConfig, PpoInputs, Sampling
from stages.rewards.answer_check import AnswerCheck
from stages.rewards.reward_model import RewardModelScore
from tests.support.tiny_alignment import context, metrics, store_instructions, store_model
from tests.support.tiny_release import write_reward_model

CONFIG = PpoConfig(
    iterations=4,
    epochs=2,
    steps_per_epoch=2,
    micro_batch_size=8,
    sampling=Sampling(prompts_per_iteration=16, samples_per_prompt=2, max_new_tokens=8),
    rewards=(RewardModelScore(unfinished=0.0),),
    learning_rate=1e-3,
    critic_learning_rate=1e-3,
    kl_coef=0.0,
    sft_loss_weight=0.1,
    sft_batch_size=4,
    max_kl=100.0,
)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    root = tmp_path_factory.mktemp("ppo")
    reward_model = LocalStore(root / "store").put(write_reward_model(root / "reward"), RewardModel)
    return root, PpoInputs(model=store_model(root), reward_model=reward_model, instructions=store_instructions(root))


@pytest.fixture(scope="module")
def made(inputs):
    root, given = inputs
    ctx = context(root, "a", STAGE)
    return ctx, STAGE.run(CONFIG, given, ctx).model


def test_the_reward_rises_on_held_out_prompts(made):
    found = metrics(made[0])
    assert found["ppo/reward"] > found["ppo/reward_before"]
    assert found["ppo/reward_gain_standard_errors"] > 0


def test_before_the_first_update_kl_is_exactly_zero_and_the_ratio_exactly_one(made):
    found = metrics(made[0])
    assert (found["ppo/first_step_kl"], found["ppo/first_step_ratio_error"]) == (0.0, 0.0)
    assert found["ppo/kl"] != 0.0


def test_every_step_is_logged_and_the_model_loads(made):
    ctx, ref = made
    found = metrics(ctx)
    names = ("clip_fraction", "entropy", "approx_kl", "explained_variance", "policy_loss", "value_loss", "sft_loss")
    assert {f"ppo/{name}" for name in names} <= set(found)
    assert len([line for line in ctx.metrics_path.read_text().splitlines() if '"ppo/entropy"' in line]) == 16
    load_model(ctx.store.get(ref))


def test_the_same_call_gives_the_same_bytes(inputs):
    root, given = inputs
    short = CONFIG.model_copy(update={"iterations": 1})
    first, second = (STAGE.run(short, given, context(root, name, STAGE)).model for name in ("b", "c"))
    assert first == second


def test_a_constant_reward_is_refused(inputs):
    root, given = inputs
    constant = CONFIG.model_copy(update={"rewards": (AnswerCheck(right=1.0, wrong=1.0),)})
    with pytest.raises(
        BadSpecError,
        match=r"ppo: rewards: want prompts whose answers are told apart, got none of 16 \(the first reward is 1\.0\)",
    ):
        STAGE.run(constant, given, context(root, "d", STAGE))


def test_a_policy_that_leaves_the_reference_is_stopped(inputs):
    root, given = inputs
    wild = CONFIG.model_copy(update={"learning_rate": 0.1, "max_kl": 0.01})
    with pytest.raises(BadSpecError, match=r"ppo: iteration 1: want a mean KL of at most 0\.01 nats a token"):
        STAGE.run(wild, given, context(root, "e", STAGE))


def test_prompts_that_are_all_too_long_are_refused(inputs):
    root, given = inputs
    short = CONFIG.model_copy(update={"sampling": Sampling(max_prompt_tokens=3)})
    with pytest.raises(BadSpecError, match="want held-out prompts of at most 3 tokens, got none of 12"):
        STAGE.run(short, given, context(root, "f", STAGE))


def test_more_steps_than_micro_batches_are_refused():
    with pytest.raises(ValueError, match=r"steps_per_epoch: want at most the micro-batches .* 2\), got 3; lower it"):
        PpoConfig(steps_per_epoch=3, micro_batch_size=16, sampling=Sampling(prompts_per_iteration=16))
