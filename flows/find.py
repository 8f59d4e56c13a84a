"""From what a person types to an artifact: an alias, a digest prefix (`9c1e` or `model:9c1e`), or a directory."""

from pathlib import Path

from infra import artifacts
from infra.artifacts import ArtifactRef
from infra.errors import BadSpecError
from infra.registry import ALIASES, resolve
from infra.settings import Settings
from infra.stores.opening import open_store

KINDS = tuple(
    str(value.model_fields["kind"].default)
    for value in vars(artifacts).values()
    if isinstance(value, type) and issubclass(value, ArtifactRef) and value is not ArtifactRef
)
MODEL_KINDS = ("model", "quantized_model")
MIN_PREFIX_CHARS = 4


def find_artifact(text: str, settings: Settings, kinds: tuple[str, ...] = KINDS) -> ArtifactRef:
    """The artifact that `text` names. Raises BadSpecError with what would have been understood."""
    if text in ALIASES:
        return resolve(text, settings)
    kind, _, prefix = text.rpartition(":")
    if (kind and kind not in kinds) or not _is_prefix(prefix):
        raise BadSpecError(
            f"{text!r}: want {', '.join(ALIASES)}, or {MIN_PREFIX_CHARS} or more characters of a digest, alone or "
            f"after one of {', '.join(f'{k}:' for k in kinds)}"
        )
    store = open_store(settings)
    found = store.find(prefix, (kind,) if kind else kinds)
    if found is None:
        raise BadSpecError(f"{text!r}: want an artifact in {store.place}, got none; `glmflow runs` lists what was made")
    return found


def find_model(text: str, settings: Settings) -> Path:
    """The directory of the model that `text` names; every byte of an artifact is checked against its digest."""
    if Path(text).is_dir() and text not in ALIASES:
        if not (Path(text) / "config.json").is_file():
            raise BadSpecError(f"model directory {text}: want a Hugging Face model with its config.json, got none")
        return Path(text)
    store, ref = open_store(settings), find_artifact(text, settings, MODEL_KINDS)
    store.verify_bytes(ref)
    return store.get(ref)


def _is_prefix(text: str) -> bool:
    return len(text) >= MIN_PREFIX_CHARS and all(c in "0123456789abcdef" for c in text)
