"""The live check asks a real server, and says what is wrong with it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from flows import live_check
from flows.live_check import LiveCheck, Question
from infra.errors import StageFailedError
from infra.settings import Settings
from tests.support.server_process import scripted_server


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A server whose every answer is `abc`."""
    with scripted_server("abc") as (_, url):

        class Served:
            def __init__(self, _model_dir: Path, _settings: Settings) -> None: ...

            def url(self) -> str:
                return url

            def close(self) -> None: ...

        monkeypatch.setattr(live_check, "ServerChild", Served)
        yield


def check(tmp_path: Path, *answers: str) -> str:
    questions = [Question([{"role": "user", "content": "?"}], answer) for answer in answers]
    return LiveCheck(questions, 8).problem(tmp_path, Settings(home=tmp_path))


def test_the_recorded_answers_are_no_problem_and_one_close_call_is_none(served: None, tmp_path: Path):
    assert check(tmp_path, "abc", "abc ", "abc") == ""
    assert check(tmp_path, "abc", "abd", "abc") == ""


def test_other_answers_are_a_problem(served: None, tmp_path: Path):
    assert check(tmp_path, "yes", "abc", "no") == (
        "live check: want the answers of the evaluation, got 2 of 3 others, the first 'abc' where 'yes' was expected"
    )


def test_a_server_that_does_not_start_is_a_problem(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    class Broken:
        def __init__(self, _model_dir: Path, _settings: Settings) -> None: ...

        def url(self) -> str:
            raise StageFailedError("server: want it to listen, got 'no'")

        def close(self) -> None: ...

    monkeypatch.setattr(live_check, "ServerChild", Broken)
    assert check(tmp_path, "abc") == "live check: want a server that answers, got server: want it to listen, got 'no'"
