"""The provenance of an artifact as a tree: which stage made it, from what, with which settings, down to the files."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from rich.text import Text
from rich.tree import Tree

from flows.headline import HeadlineValue, short_bytes, short_duration
from infra.artifacts import ArtifactRef
from infra.errors import ArtifactMissingError, BadSpecError
from infra.lineage import Lineage, StageRecord
from infra.stores.base import Store
from stages import STAGE_NAMES, load_stage
from stages.sources import Manifest

MAX_SETTINGS = 12
MAX_FILES = 20
MAX_VALUE_CHARS = 60


def provenance(ref: ArtifactRef, lineage: Lineage, store: Store) -> Tree:
    """The tree of one artifact. Raises BadSpecError when nothing is known about it."""
    if lineage.find_maker(ref.digest) is None and ref.kind != "source_manifest":
        raise BadSpecError(
            f"artifact {ref.short}: want one that a stage made, got none in the lineage at {lineage.url}"
        )
    root = Tree("")
    _add(root, ref, "", lineage, store, seen=set())
    return root.children[0]


def _add(parent: Tree, ref: ArtifactRef, name: str, lineage: Lineage, store: Store, *, seen: set[str]) -> None:
    title = f"{name + ' = ' if name else ''}{ref.short} ({short_bytes(ref.num_bytes)})"
    if ref.digest in seen:
        parent.add(Text(f"{title}: shown above"))
        return
    seen.add(ref.digest)
    record = lineage.find_maker(ref.digest)
    if record is None:
        branch = parent.add(Text(title))
        for line in _sources(ref, store):
            branch.add(Text(line))
        return
    branch = parent.add(Text(f"{title} <- {record.stage}"))
    for line in _facts(record):
        branch.add(Text(line))
    for input_name, value in record.inputs.items():
        for label, child in _named(input_name, value):
            _add(branch, child, label, lineage, store, seen=seen)


def _named(name: str, value: Any) -> Iterator[tuple[str, ArtifactRef]]:
    """The references in one input: itself, or the members of a mapping."""
    if not isinstance(value, dict):
        return
    if value.keys() == ArtifactRef.model_fields.keys():
        yield name, ArtifactRef.model_validate(value)
        return
    for inner, item in value.items():
        yield from _named(f"{name}.{inner}", item)


def _facts(record: StageRecord) -> Iterator[str]:
    yield (
        f"key {record.key[:12]}, code {record.code_digest[:12]}, seed {record.seed}, "
        f"{record.started_at:%Y-%m-%d %H:%M} UTC on {record.host}, {short_duration(record.wall_s)}, "
        f"{short_bytes(record.peak_rss_bytes)} of memory"
    )
    if record.stage not in STAGE_NAMES:
        return
    stage = load_stage(record.stage)
    headline = str(HeadlineValue.of(stage.headline, record))
    if headline:
        yield headline
    changed = sorted(differences(record.config, _defaults(stage.config)).items())
    for path, value in changed[:MAX_SETTINGS]:
        yield f"{path} = {value}"
    if len(changed) > MAX_SETTINGS:
        yield f"and {len(changed) - MAX_SETTINGS} more settings that are not the default"


def _defaults(config: Any) -> dict[str, Any]:
    schema_defaults = {
        name: field.get_default(call_default_factory=True, validated_data={})
        for name, field in config.model_fields.items()
        if not field.is_required()
    }
    values: dict[str, Any] = config.model_construct(**schema_defaults).model_dump(mode="json", warnings=False)
    return values


def differences(config: Mapping[str, Any], defaults: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """The settings that are not the default, as dotted names."""
    found: dict[str, str] = {}
    for name, value in config.items():
        default = defaults.get(name)
        if isinstance(value, dict) and isinstance(default, dict):
            found |= differences(value, default, f"{prefix}{name}.")
        elif value != default:
            found[prefix + name] = json.dumps(value, ensure_ascii=False)[:MAX_VALUE_CHARS]
    return found


def _sources(ref: ArtifactRef, store: Store) -> Iterator[str]:
    """What a source manifest lists: packages with version and hash, the user's files by name."""
    if ref.kind != "source_manifest":
        yield "made outside of this lineage"
        return
    try:
        manifest = Manifest.read(store.get(ref))
    except ArtifactMissingError:
        yield "its manifest is no longer in the store"
        return
    for source in manifest.sources:
        size = short_bytes(sum(file.num_bytes for file in source.files))
        name = f"{source.name} {source.version}".strip()
        digest = f", archive sha256 {source.archive_sha256[:12]}" if source.archive_sha256 else ""
        yield f"{source.kind} {name}: {len(source.files)} files, {size}, {source.license}{digest} in {source.root}"
        shown = source.files[:MAX_FILES] if source.kind == "user" else ()
        yield from (f"  {file.path} sha256 {file.sha256[:12]}" for file in shown)
        if len(shown) < len(source.files) and shown:
            yield f"  and {len(source.files) - len(shown)} more files"
