import functools
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from models.checkpoint import CheckpointMismatchError, StateRegistry, checkpoints


def registry(fingerprint: str = "a", **items: object) -> StateRegistry:
    made = StateRegistry({"config": fingerprint, "seed": 0})
    for name, item in items.items():
        made.register(name, item)  # type: ignore[arg-type]
    return made


class Counter:
    def __init__(self, value: int) -> None:
        self.value = value

    def state_dict(self) -> dict[str, int]:
        return {"value": self.value}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.value = state["value"]


def test_every_kind_of_state_comes_back(tmp_path: Path):
    module = nn.BatchNorm1d(3)
    module.register_buffer("hidden", torch.ones(2), persistent=False)
    optimizer = torch.optim.AdamW(module.parameters())
    module(torch.randn(4, 3)).sum().backward()
    optimizer.step()
    items = {
        "module": module, "optimizer": optimizer, "torch": torch.Generator().manual_seed(1),
        "numpy": np.random.default_rng(2), "python": random.Random(3), "counter": Counter(4),
    }  # fmt: skip
    registry(**items).save(tmp_path, 5)

    def draws() -> list[object]:
        return [
            torch.rand(2, generator=items["torch"]).tolist(), items["numpy"].random(), items["python"].random(),
            torch.rand(2).tolist(), random.random(), np.random.rand(),  # noqa: NPY002
        ]  # fmt: skip

    expected = draws()
    saved_mean = module.running_mean.clone()
    saved_square = optimizer.state_dict()["state"][0]["exp_avg_sq"].clone()
    module(torch.randn(4, 3)).sum().backward()
    optimizer.step()
    module.hidden.zero_()
    items["counter"].value = 9
    assert registry(**items).load_latest(tmp_path) == 5
    assert draws() == expected
    assert torch.equal(module.running_mean, saved_mean)
    assert module.hidden.tolist() == [1, 1]
    assert torch.equal(optimizer.state_dict()["state"][0]["exp_avg_sq"], saved_square)
    assert items["counter"].value == 4


def test_the_newest_two_are_kept(tmp_path: Path):
    for step in (1, 2, 30):
        registry(counter=Counter(step)).save(tmp_path, step)
    assert [path.name for path in checkpoints(tmp_path)] == ["step-00000002", "step-00000030"]


def test_without_a_checkpoint_nothing_is_loaded(tmp_path: Path):
    assert registry(counter=Counter(1)).load_latest(tmp_path) is None


@pytest.mark.parametrize("damage", ["flip", "truncate", "no manifest"])
def test_a_damaged_newest_checkpoint_is_reported_and_the_one_before_is_used(tmp_path: Path, damage: str):
    for step in (1, 2):
        path = registry(counter=Counter(step)).save(tmp_path, step)
    data = bytearray((path / "state.pt").read_bytes())
    if damage == "no manifest":
        (path / "manifest.json").unlink()
    else:
        data[len(data) // 2] ^= 1
        (path / "state.pt").write_bytes(data if damage == "flip" else data[: len(data) // 2])
    messages: list[str] = []
    again = StateRegistry({"config": "a", "seed": 0}, report=messages.append)
    again.register("counter", counter := Counter(0))
    assert again.load_latest(tmp_path) == 1
    assert counter.value == 1
    assert messages[0].startswith("checkpoint step-00000002: ")


def test_only_damaged_checkpoints_are_an_error_and_not_a_fresh_start(tmp_path: Path):
    (registry(counter=Counter(1)).save(tmp_path, 1) / "state.pt").write_bytes(b"")
    with pytest.raises(ValueError, match="want an intact one, got 1 damaged"):
        registry(counter=Counter(1)).load_latest(tmp_path)


def test_a_half_written_checkpoint_is_not_seen(tmp_path: Path):
    (tmp_path / ".step-00000009.partial").mkdir()
    assert registry(counter=Counter(1)).load_latest(tmp_path) is None


def test_the_checkpoint_of_another_config_is_refused_with_both_hashes(tmp_path: Path):
    registry("a", counter=Counter(1)).save(tmp_path, 1)
    with pytest.raises(CheckpointMismatchError, match=r"want the state of config \w{12}, got one of \w{12} .*config"):
        registry("b", counter=Counter(1)).load_latest(tmp_path)


def test_the_checkpoint_of_another_set_of_states_is_refused(tmp_path: Path):
    registry(counter=Counter(1)).save(tmp_path, 1)
    with pytest.raises(CheckpointMismatchError, match=r"want state of \['other'\], got \['counter'\]"):
        registry(other=Counter(1)).load_latest(tmp_path)


def test_the_checkpoint_of_another_model_is_refused(tmp_path: Path):
    registry(model=nn.Linear(2, 2)).save(tmp_path, 1)
    with pytest.raises(ValueError, match=r"state 'model': want the same tensors.*bias"):
        registry(model=nn.Linear(2, 2, bias=False)).load_latest(tmp_path)


def test_forgotten_state_is_found_behind_closures_methods_and_containers():
    forgotten = torch.Generator()

    class Source:
        def __init__(self) -> None:
            self.parts = {"rngs": [forgotten]}

        def draw(self) -> torch.Tensor:
            return torch.rand(1, generator=self.parts["rngs"][0])

    source = Source()
    for root in (source, source.draw, lambda: source, functools.partial(print, source)):
        with pytest.raises(ValueError, match=r"rngs\.0: want everything with state in the registry"):
            registry(counter=Counter(1)).require_registered(root)
    complete = registry(rng=forgotten)
    complete.require_registered(source.draw)


def test_a_python_generator_cannot_be_resumed_and_is_refused():
    with pytest.raises(ValueError, match="unregistered generator"):
        registry().require_registered({"batches": (x for x in range(3))})


def test_an_exempt_module_need_not_be_registered():
    frozen = nn.Linear(2, 2)
    some = registry()
    some.exempt(frozen)
    some.require_registered([frozen])


def test_a_name_is_used_once_and_only_for_things_with_state():
    some = registry(counter=Counter(1))
    with pytest.raises(ValueError, match="state 'counter': want a name used once"):
        some.register("counter", Counter(2))
    with pytest.raises(TypeError, match="state 'x': want a module, optimizer, generator"):
        some.register("x", [1])  # type: ignore[arg-type]
