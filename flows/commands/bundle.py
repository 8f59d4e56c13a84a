"""`glmflow bundle`: wheels, images and models in one archive that installs and serves with the network off."""

import argparse
import tempfile
from pathlib import Path

from flows.bundle import BundleParts, make_wheels, write_bundle
from flows.console import page
from flows.find import find_model
from infra.errors import BadSpecError
from infra.settings import read_settings


def run(args: argparse.Namespace) -> int:
    """Write the archive and say how to install from it."""
    settings = read_settings()
    models = {_folder_name(text): find_model(text, settings) for text in args.models}
    if len(models) != len(args.models):
        raise BadSpecError(f"models: want different names, got {args.models}; leave one out")
    with tempfile.TemporaryDirectory() as made:
        if args.wheels is None:
            make_wheels(Path(made))
        digest = write_bundle(BundleParts(args.wheels or Path(made), models, tuple(args.image)), args.output)
    size = args.output.stat().st_size / 2**20
    page().print(f"{args.output}: {size:,.0f} MiB, SHA-256 {digest}", markup=False)
    page().print(f"elsewhere: tar xf {args.output.name} && sh glmflow-bundle/install.sh", markup=False)
    return 0


def _folder_name(text: str) -> str:
    """A model's folder: the alias, the digest's start, or the directory's own name."""
    return Path(text).resolve().name if Path(text).is_dir() else text.rpartition(":")[2]
