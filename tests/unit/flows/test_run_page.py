"""The page of a run shows its stages and leads to MLflow. (On a real server: tests/e2e/test_platform.py.)"""

import json

from flows.run_page import markdown
from flows.tracker_pages import TrackerPages
from tests.unit.flows.test_summary import results, summary


class Pages(TrackerPages):
    def lifecycle(self, lifecycle_id: str) -> str:
        return f"{self.url}/runs/{lifecycle_id}"

    def stages(self, lifecycle_id: str) -> str:
        return f"{self.url}/stages/{lifecycle_id}"


def test_the_page_holds_every_stage_whole_references_and_both_ways_to_mlflow():
    finished = results(is_cached=False)
    text = markdown(summary(), finished, Pages("http://tracker"))
    assert f"[metrics of every stage in MLflow](http://tracker/runs/{summary().lifecycle})" in text
    assert f"[stages side by side in MLflow](http://tracker/stages/{summary().lifecycle})" in text
    assert "`/r/report.html`" in text
    assert all(f"| {result.label} | 12 s |" in text for result in finished)
    references = json.loads(text.split("```json\n")[1].split("\n```")[0])
    assert references == {result.label: result.outputs for result in finished}
    assert "MLflow" not in markdown(summary(), finished, TrackerPages("http://127.0.0.1:9"))
