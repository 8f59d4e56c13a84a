"""The page of a run shows its stages and leads to MLflow. (On a real server: tests/e2e/test_platform.py.)"""

import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

from flows.run_page import compare_url, markdown
from tests.unit.flows.test_summary import results, summary


class Tracker(BaseHTTPRequestHandler):
    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status if "get-by-name?experiment_name=glmflow" in self.path else 500)
        self.end_headers()
        self.wfile.write(json.dumps({"experiment": {"experiment_id": "7"}}).encode())

    def log_message(self, *_args: object) -> None:
        return


def url_of(tracker: type[Tracker]) -> str:
    with HTTPServer(("127.0.0.1", 0), tracker) as server:
        Thread(target=server.handle_request, daemon=True).start()
        return compare_url(f"http://127.0.0.1:{server.server_port}", "run-1")


class Refusing(Tracker):
    status = 404


def test_the_link_shows_the_runs_of_this_lifecycle_only():
    url = url_of(Tracker)
    assert url.endswith("/#/experiments/7/runs?searchFilter=tags.%60glmflow.lifecycle%60%20%3D%20%27run-1%27")


def test_a_tracker_that_does_not_answer_gives_no_link():
    assert url_of(Refusing) == "" and compare_url("http://127.0.0.1:9", "run-1") == ""


def test_the_page_holds_every_stage_and_whole_references():
    finished = results(is_cached=False)
    text = markdown(summary(), finished, "http://tracker/x")
    assert "[metrics of every stage in MLflow](http://tracker/x)" in text and "`/r/report.html`" in text
    assert all(f"| {result.label} | 12 s |" in text for result in finished)
    references = json.loads(text.split("```json\n")[1].split("\n```")[0])
    assert references == {result.label: result.outputs for result in finished}
    assert "MLflow" not in markdown(summary(), finished, "")
