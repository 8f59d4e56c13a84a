"""`glmflow explain`: what made an artifact, as a tree down to the source files."""

import argparse

from flows.console import page
from flows.explain import provenance
from flows.find import find_artifact
from infra.lineage import Lineage
from infra.settings import read_settings
from infra.stores.opening import open_store


def run(args: argparse.Namespace) -> int:
    """Print the tree."""
    settings = read_settings()
    ref = find_artifact(args.ref, settings)
    lineage, store = Lineage(settings.resolved_lineage_url()), open_store(settings)
    tree = provenance(ref, lineage, store, shows_all_files=args.all_files)
    page().print(tree, markup=False)
    return 0
