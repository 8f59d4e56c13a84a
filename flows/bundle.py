"""One archive that installs and serves glmflow with the network off: wheels, container images, models.

What stands in it is listed with its SHA-256 in `manifest.json`; `check.py` (flows/bundle_check.py, which needs nothing
but Python) refuses a bundle with a changed, missing or added file, and `install.sh` begins with it. The archive is made
beside its name and renamed, so a bundle that has its name is whole.

Not covered: a signature; who hands a bundle on unsafely should compare the archive's own SHA-256.
"""

import json
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from flows import bundle_check
from infra.artifacts import file_sha256, list_files
from infra.errors import BadSpecError, RetryableError
from infra.process import SOURCE_ROOT

CONSTRAINTS = SOURCE_ROOT / "constraints.txt"
INSTALLER = Path(__file__).with_name("bundle_install.sh")
NUM_ERROR_CHARS = 600


@dataclass(frozen=True)
class BundleParts:
    """What a bundle is made of. `models` maps a folder's name to the model's directory."""

    wheels: Path
    models: dict[str, Path] = field(default_factory=dict)
    images: tuple[Path, ...] = ()

    def check(self) -> None:
        """Raise BadSpecError for what would not install or serve."""
        if not list(self.wheels.glob("glmflow-*.whl")):
            raise BadSpecError(
                f"wheels {self.wheels}: want glmflow's own wheel among them, got none; leave --wheels out"
            )
        names = [image.name for image in self.images]
        for image in self.images:
            if not (image.is_file() and tarfile.is_tarfile(image)):
                raise BadSpecError(f"image {image}: want an archive as `docker save` writes it, got another file")
        if len(set(names)) != len(names):
            raise BadSpecError(f"images: want files of different names, got {names}; rename one")


def make_wheels(folder: Path) -> None:
    """Wheels of this checkout and of everything it needs, at the pinned versions; asks the package index."""
    if not (SOURCE_ROOT / "pyproject.toml").is_file():
        raise BadSpecError(
            f"{SOURCE_ROOT}: want a checkout of glmflow to make wheels from, got none; give --wheels FOLDER"
        )
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(
        [*command, "-c", str(CONSTRAINTS), "-w", str(folder), str(SOURCE_ROOT)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RetryableError(
            f"wheels: want all of {CONSTRAINTS.name} from the package index, got exit code {done.returncode}: "
            f"{done.stderr.strip()[-NUM_ERROR_CHARS:]}"
        )


def write_bundle(parts: BundleParts, output: Path) -> str:
    """Write the archive and give its SHA-256. Raises BadSpecError for parts that cannot be in it."""
    parts.check()
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".bundle-", dir=output.parent) as scratch:
        folder, partial = Path(scratch) / "glmflow-bundle", Path(scratch) / output.name
        _lay_out(parts, folder)
        with tarfile.open(partial, "w") as archive:
            archive.add(folder, arcname=folder.name)
        digest = file_sha256(partial)
        partial.replace(output)
    return digest


def _lay_out(parts: BundleParts, folder: Path) -> None:
    for name, source in {"wheels": parts.wheels, **{f"models/{n}": path for n, path in parts.models.items()}}.items():
        shutil.copytree(source, folder / name, copy_function=_link_or_copy)
    for image in parts.images:
        (folder / "images").mkdir(exist_ok=True)
        _link_or_copy(str(image), str(folder / "images" / image.name))
    if CONSTRAINTS.is_file():
        shutil.copyfile(CONSTRAINTS, folder / CONSTRAINTS.name)
    shutil.copyfile(Path(bundle_check.__file__), folder / "check.py")
    shutil.copyfile(INSTALLER, folder / "install.sh")
    manifest = {
        "glmflow": version("glmflow"),
        "python": sysconfig.get_python_version(),
        "platform": sysconfig.get_platform(),
        "models": sorted(parts.models),
        "files": {entry.path: entry.sha256 for entry in list_files(folder)},
    }
    (folder / bundle_check.MANIFEST).write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n")


def _link_or_copy(source: str, target: str) -> str:
    """A hard link where the file system has them: gigabytes are read once, into the archive."""
    try:
        Path(target).hardlink_to(Path(source).resolve())
    except OSError:
        shutil.copyfile(source, target)
    return target
