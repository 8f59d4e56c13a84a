"""Training state: one registry of everything that has state, saved whole, checksummed, restored exactly.

A checkpoint is a directory `step-00000120/` with `state.pt` and `manifest.json` (step, fingerprint, size and SHA-256 of
the state). It is written beside its final name, synced and renamed, so it is whole or absent at any kill; the newest
two are kept, and a damaged newest one is reported and passed over for the one before.

The global generators of python, numpy and torch are always part of the state. Whatever else changes during training is
registered by name; `require_registered` refuses a loop in which something with state was forgotten, because such a run
would resume to other numbers without any error. Not covered: state inside C extensions and open files.
"""

import functools
import hashlib
import json
import os
import random
import shutil
import types
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import nn

NUM_KEPT = 2
_STATE_NAME = "state.pt"
_MANIFEST_NAME = "manifest.json"
_PLAIN_TYPES = (str, bytes, int, float, bool, type(None), type, types.ModuleType, torch.Tensor, np.ndarray, Path)
_MAX_DEPTH = 8
_MAX_CHILDREN = 1000  # of one container: data sets are long lists of plain values
_HASH_CHARS = 12


class CheckpointMismatchError(ValueError):
    """The checkpoint belongs to another model or config."""


@runtime_checkable
class Stateful(Protocol):
    """State as plain values and tensors."""

    def state_dict(self) -> dict[str, Any]:
        """Everything that changes during training."""

    def load_state_dict(self, state: dict[str, Any]) -> Any:
        """Put back what `state_dict` gave."""


Item = nn.Module | torch.optim.Optimizer | torch.Generator | np.random.Generator | random.Random | Stateful


class StateRegistry:
    """Everything with state of one training run. `fingerprint` says which model and config the state belongs to."""

    def __init__(
        self, fingerprint: Mapping[str, Any], *, report: Callable[[str], None] = lambda _message: None
    ) -> None:
        self.fingerprint = json.loads(json.dumps(fingerprint, sort_keys=True))
        self.items: dict[str, Item] = {}
        self._constants: list[object] = []
        self._report = report

    def register(self, name: str, item: Item) -> None:
        """Save and restore `item` under `name`."""
        if name in self.items:
            raise ValueError(f"state {name!r}: want a name used once, got it twice; choose another name")
        if not isinstance(item, Item):
            raise TypeError(
                f"state {name!r}: want a module, optimizer, generator or state_dict owner, got {type(item)}"
            )
        self.items[name] = item

    def exempt(self, item: object) -> None:
        """Declare that `item` never changes during training (a frozen reference model), so it is not saved."""
        self._constants.append(item)

    def require_registered(self, *roots: object) -> None:
        """Raise ValueError if something with state can be reached from `roots` and was not registered."""
        known = {id(item) for item in (*self.items.values(), *self._constants)}
        for root in roots:
            for path, item in _reachable_state(root, type(root).__name__, known):
                raise ValueError(
                    f"{path}: want everything with state in the registry, got an unregistered {type(item).__name__}; "
                    f"register it, or exempt it if it never changes"
                )

    def save(self, directory: Path, step: int) -> Path:
        """Write the state after `step` steps; older checkpoints but the newest two go."""
        target = directory / f"step-{step:08d}"
        partial = directory / f".{target.name}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        state = {"items": {name: _capture(item) for name, item in self.items.items()}, "globals": _capture_globals()}
        torch.save(state, partial / _STATE_NAME)
        manifest = {
            "step": step,
            "fingerprint": self.fingerprint,
            "num_bytes": (partial / _STATE_NAME).stat().st_size,
            "sha256": _sha256(partial / _STATE_NAME),
        }
        (partial / _MANIFEST_NAME).write_text(json.dumps(manifest, indent=1, sort_keys=True))
        for path in (partial / _STATE_NAME, partial / _MANIFEST_NAME, partial):
            _sync(path)
        shutil.rmtree(target, ignore_errors=True)
        partial.rename(target)
        _sync(directory)
        for old in checkpoints(directory)[:-NUM_KEPT]:
            shutil.rmtree(old)
        return target

    def load_latest(self, directory: Path) -> int | None:
        """Restore the newest intact checkpoint and return its step; None if there is none.

        Raises ValueError if the checkpoint belongs to another model or config, or if every one is damaged.
        """
        found = checkpoints(directory)
        for path in reversed(found):
            problem = _damage(path)
            if problem is None:
                return self._load(path)
            self._report(f"checkpoint {path.name}: {problem}; falling back on the one before")
        if found:
            raise ValueError(
                f"checkpoints in {directory}: want an intact one, got {len(found)} damaged; delete them to start afresh"
            )
        return None

    def _load(self, path: Path) -> int:
        manifest = json.loads((path / _MANIFEST_NAME).read_text())
        if manifest["fingerprint"] != self.fingerprint:
            raise CheckpointMismatchError(
                f"checkpoint {path.name}: want the state of config {_short_hash(self.fingerprint)}, got one of "
                f"{_short_hash(manifest['fingerprint'])} (differs in {_differences(self.fingerprint, manifest)}); "
                f"use another directory, or delete {path.parent}"
            )
        state = torch.load(path / _STATE_NAME, weights_only=True)
        if state["items"].keys() != self.items.keys():
            raise CheckpointMismatchError(
                f"checkpoint {path.name}: want state of {sorted(self.items)}, got {sorted(state['items'])}; "
                f"use another directory"
            )
        for name, item in self.items.items():
            _restore(name, item, state["items"][name])
        _restore_globals(state["globals"])
        return int(manifest["step"])


def checkpoints(directory: Path) -> list[Path]:
    """The checkpoint directories below `directory`, oldest first."""
    return sorted(path for path in directory.glob("step-*") if path.is_dir())


def _damage(path: Path) -> str | None:
    try:
        manifest = json.loads((path / _MANIFEST_NAME).read_text())
        if _sha256(path / _STATE_NAME) == manifest["sha256"]:
            return None
    except (OSError, ValueError, KeyError) as error:
        return f"unreadable ({type(error).__name__})"
    return "its bytes do not match its checksum"


def _capture(item: Item) -> Any:
    if isinstance(item, nn.Module):
        return {name: tensor.detach() for name, tensor in _tensors(item)}
    if isinstance(item, torch.Generator):
        return item.get_state()
    if isinstance(item, np.random.Generator):
        return json.dumps(item.bit_generator.state)
    if isinstance(item, random.Random):
        return json.dumps(item.getstate())
    return item.state_dict()


def _restore(name: str, item: Item, state: Any) -> None:
    if isinstance(item, nn.Module):
        tensors = dict(_tensors(item))
        if tensors.keys() != state.keys():
            odd = sorted(tensors.keys() ^ state.keys())
            raise ValueError(f"state {name!r}: want the same tensors, got a difference in {odd[:3]}; check the model")
        with torch.no_grad():
            for key, tensor in tensors.items():
                tensor.copy_(state[key])
    elif isinstance(item, torch.Generator):
        item.set_state(state)
    elif isinstance(item, np.random.Generator):
        item.bit_generator.state = json.loads(state)
    elif isinstance(item, random.Random):
        item.setstate(_python_state(state))
    else:
        item.load_state_dict(state)


def _tensors(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Parameters and buffers, those that `state_dict` leaves out included; a tied weight once."""
    yield from module.named_parameters()
    yield from module.named_buffers()


def _capture_globals() -> dict[str, Any]:
    kind, keys, position, has_gauss, gauss = np.random.get_state()  # noqa: NPY002  libraries may draw from it
    return {
        "python": json.dumps(random.getstate()),
        "numpy": [
            str(kind),
            torch.from_numpy(np.asarray(keys).astype(np.int64)),
            int(position),
            int(has_gauss),
            float(gauss),
        ],
        "torch": torch.get_rng_state(),
    }


def _restore_globals(state: dict[str, Any]) -> None:
    random.setstate(_python_state(state["python"]))
    kind, keys, position, has_gauss, gauss = state["numpy"]
    np.random.set_state((kind, keys.numpy().astype(np.uint32), position, has_gauss, gauss))  # noqa: NPY002
    torch.set_rng_state(state["torch"])


def _python_state(text: str) -> tuple[Any, ...]:
    version, words, gauss = json.loads(text)
    return version, tuple(words), gauss


def _reachable_state(value: object, path: str, seen: set[int], depth: int = 0) -> Iterator[tuple[str, object]]:
    if id(value) in seen or isinstance(value, _PLAIN_TYPES) or depth > _MAX_DEPTH:
        return
    seen.add(id(value))
    if isinstance(value, Item | types.GeneratorType):
        yield path, value
        return
    for name, child in islice(_children(value), _MAX_CHILDREN):
        yield from _reachable_state(child, f"{path}.{name}", seen, depth + 1)


def _children(value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping):
        yield from ((str(name), child) for name, child in value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        yield from ((str(idx), child) for idx, child in enumerate(value))
    elif isinstance(value, types.MethodType):
        yield "__self__", value.__self__
    elif isinstance(value, functools.partial):
        yield from (("func", value.func), ("args", value.args), ("keywords", value.keywords))
    elif isinstance(value, types.FunctionType):
        cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
        yield from ((name, cell.cell_contents) for name, cell in cells if cell != types.CellType())
    elif hasattr(value, "__dict__"):
        yield from vars(value).items()


def _differences(fingerprint: dict[str, Any], manifest: dict[str, Any]) -> str:
    other = manifest["fingerprint"]
    odd = sorted(key for key in fingerprint.keys() | other.keys() if fingerprint.get(key) != other.get(key))
    return ", ".join(odd[:5])


def _short_hash(fingerprint: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fingerprint, sort_keys=True).encode()).hexdigest()[:_HASH_CHARS]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
