"""Which documents a run reads: the user's paths, or the fetched demonstration corpus, as a SourceManifest artifact."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from infra.artifacts import SourceManifest
from infra.settings import Settings
from infra.stores.base import Store


def read_sources(paths: Sequence[Path], settings: Settings, store: Store) -> SourceManifest:
    """Hash every source file and put the manifest into the store. Raises BadSpecError for paths without documents."""
    from stages import demonstration, sources

    manifest = sources.scan_paths(paths) if paths else demonstration.scan(settings.sources_dir)
    with tempfile.TemporaryDirectory(prefix="glmflow-") as folder:
        manifest.write(Path(folder))
        return store.put(Path(folder), SourceManifest)
