"""What cannot go well is refused before anything starts, and every problem is said at once."""

import shutil
from collections import namedtuple
from pathlib import Path

import pytest

from flows import preflight
from flows.preflight import check, disk_problem, missing_problems, num_bytes_in, source_problem
from infra.artifacts import RawCorpus
from infra.errors import BadSpecError
from infra.settings import Settings
from infra.stores.local import LocalStore

Usage = namedtuple("Usage", "total used free")


def test_every_problem_is_said_in_one_error():
    check([None, ""])
    with pytest.raises(BadSpecError, match=r"^disk: too full; corpus: gone$"):
        check(["disk: too full", None, "corpus: gone"])


def test_a_disk_that_is_too_full_for_the_documents_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(preflight.shutil, "disk_usage", lambda _place: Usage(0, 0, 2 << 30))
    settings = Settings(home=tmp_path / "not" / "there")
    assert disk_problem(settings, 2 << 30) is None
    problem = disk_problem(settings, 6 << 30)
    assert problem is not None
    assert "want 6.0 GiB free, got 2.0; free some, or set GLMFLOW_HOME" in problem


def test_a_reference_that_leads_nowhere_is_named_and_the_others_are_not(tmp_path: Path):
    store, folder = LocalStore(tmp_path / "store"), tmp_path / "corpus"
    folder.mkdir()
    (folder / "text").write_text("here")
    present, absent = store.put(folder, RawCorpus), RawCorpus(digest="a" * 64, num_bytes=1)
    (problem,) = missing_problems([present, absent], store)
    assert problem.startswith("artifact raw_corpus:aaaaaaaaaaaa is not complete in the store")


def test_documents_that_are_not_there_are_refused(tmp_path: Path):
    settings = Settings(home=tmp_path)
    assert "want a folder or a file on the platform's machine, got '/no/such'" in str(
        source_problem([Path("/no/such")], settings)
    )
    assert "name a folder, or run `make setup`" in str(source_problem([], settings))
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "one.txt").write_text("text")
    assert source_problem([], settings) is None and source_problem([tmp_path], settings) is None


def test_the_size_of_documents_is_that_of_all_files(tmp_path: Path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "a.txt").write_text("1234")
    (tmp_path / "b.txt").write_text("56")
    assert num_bytes_in([tmp_path]) == 6 and num_bytes_in([tmp_path / "b.txt"]) == 2
    shutil.rmtree(tmp_path / "inner")
    assert num_bytes_in([tmp_path]) == 2
