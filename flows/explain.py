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
MAX_FILES = 20  # of a source of the user's
MAX_PACKAGE_FILES = 2  # of a package: its name, version and digest say what its files are
MAX_VALUE_CHARS = 60


def provenance(ref: ArtifactRef, lineage: Lineage, store: Store, *, shows_all_files: bool = False) -> Tree:
    """The tree of one artifact. Raises BadSpecError when nothing is known about it."""
    if lineage.find_maker(ref.digest) is None and ref.kind != "source_manifest":
        raise BadSpecError(
            f"artifact {ref.short}: want one that a stage made, got none in the lineage at {lineage.place}"
        )
    root = Tree("")
    _Provenance(lineage, store, shows_all_files).add(root, ref, "")
    return root.children[0]


class _Provenance:
    """One walk; every artifact is shown once."""

    def __init__(self, lineage: Lineage, store: Store, shows_all_files: bool) -> None:
        self.lineage = lineage
        self.store = store
        self.shows_all_files = shows_all_files
        self.seen: set[str] = set()

    def add(self, parent: Tree, ref: ArtifactRef, name: str) -> None:
        """A branch for `ref`, with a branch for everything it was made from."""
        title = f"{name + ' = ' if name else ''}{ref.short} ({short_bytes(ref.num_bytes)})"
        if ref.digest in self.seen:
            parent.add(Text(f"{title}: shown above"))
            return
        self.seen.add(ref.digest)
        record = self.lineage.find_maker(ref.digest)
        if record is None:
            branch = parent.add(Text(title))
            for line in self._sources(ref):
                branch.add(Text(line))
            return
        branch = parent.add(Text(f"{title} <- {record.stage}"))
        for line in _facts(record):
            branch.add(Text(line))
        for input_name, value in record.inputs.items():
            for label, child in _named(input_name, value):
                self.add(branch, child, label)

    def _sources(self, ref: ArtifactRef) -> Iterator[str]:
        """What a source manifest lists: each source with version, license and hash, then its files by name."""
        if ref.kind != "source_manifest":
            yield "made outside of this lineage"
            return
        try:
            manifest = Manifest.read(self.store.get(ref))
        except ArtifactMissingError:
            yield "its manifest is no longer in the store"
            return
        for source in manifest.sources:
            size = short_bytes(sum(file.num_bytes for file in source.files))
            name = f"{source.name} {source.version}".strip()
            digest = f", archive sha256 {source.archive_sha256[:12]}" if source.archive_sha256 else ""
            yield f"{source.kind} {name}: {len(source.files)} files, {size}, {source.license}{digest} in {source.root}"
            limit = MAX_FILES if source.kind == "user" else MAX_PACKAGE_FILES
            shown = source.files if self.shows_all_files else source.files[:limit]
            yield from (f"  {file.path} sha256 {file.sha256[:12]}" for file in shown)
            if len(shown) < len(source.files):
                yield f"  and {len(source.files) - len(shown)} more files (--all-files shows them)"


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
