"""Links to MLflow's pages name the runs that are meant. (In a browser: tests/e2e/test_platform.py.)"""

import base64
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from flows.tracker_pages import TrackerPages

CREDENTIALS = ("ada", "secret")


def run(name: str, **tags: str) -> dict:
    listed = [{"key": key, "value": value} for key, value in tags.items()]
    return {"info": {"run_id": name, "experiment_id": "7"}, "data": {"tags": listed}}


def stage(name: str, stage_name: str, parent: str) -> dict:
    return run(name, **{"stage": stage_name, "mlflow.parentRunId": parent})


RUNS = {
    "run-1": [run("p1"), stage("a", "clean", "p1"), stage("b", "evaluate", "p1"), stage("c", "evaluate", "p1")],
    "run-2": [run("p2"), stage("d", "clean", "p2"), stage("e", "dedup", "p2")],
}  # fmt: skip


class Tracker(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._answer({"experiment": {"experiment_id": "7"}})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name = asked["filter"].removeprefix("tags.`glmflow.lifecycle` = '").rstrip("'")
        self._answer({"runs": RUNS[name]} if name in RUNS else {})

    def _answer(self, body: dict) -> None:
        wanted = "Basic " + base64.b64encode(":".join(CREDENTIALS).encode()).decode()
        self.send_response(200 if self.headers["Authorization"] == wanted else 401)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_args: object) -> None:
        return


@pytest.fixture
def url() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Tracker) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def compared(link: str) -> list[str]:
    asked = parse_qs(urlsplit(urlsplit(link).fragment).query)
    assert "/#/compare-runs?" in link and asked["experiments"] == ['["7"]']
    return json.loads(asked["runs"][0])


def test_the_runs_of_one_lifecycle_are_shown_by_their_tag(url: str):
    link = TrackerPages(url, CREDENTIALS).lifecycle("run-1")
    assert unquote(link) == f"{url}/#/experiments/7/runs?searchFilter=tags.`glmflow.lifecycle` = 'run-1'"


def test_evaluated_models_stand_side_by_side_and_else_all_stages(url: str):
    pages = TrackerPages(url, CREDENTIALS)
    assert compared(pages.stages("run-1")) == ["b", "c"]
    assert compared(pages.stages("run-2")) == ["d", "e"]


def test_two_lifecycles_are_compared_by_their_parent_runs(url: str):
    assert compared(TrackerPages(url, CREDENTIALS).lifecycles("run-1", "run-2")) == ["p1", "p2"]


@pytest.mark.parametrize("credentials", [None, ("ada", "wrong")])
def test_a_tracker_that_refuses_or_does_not_answer_or_knows_no_run_gives_no_link(
    url: str, credentials: tuple[str, str] | None
):
    pages = TrackerPages(url, credentials)
    assert pages.lifecycle("run-1") == pages.stages("run-1") == pages.lifecycles("run-1", "run-2") == ""
    known = TrackerPages(url, CREDENTIALS)
    assert known.lifecycle("other") == known.lifecycles("run-1", "other") == ""
    assert TrackerPages("http://127.0.0.1:9").lifecycle("run-1") == ""
