"""The figures of a served model are those of what it did. (Over HTTP: tests/integration/test_guarded_server.py.)"""

import time

import pytest
from prometheus_client.parser import text_string_to_metric_families

from infra.server.metrics import AnswerClock, ServerMetrics, route_of
from tests.support.scripted_engine import ScriptedEngine


@pytest.fixture
def metrics() -> ServerMetrics:
    return ServerMetrics(ScriptedEngine())


def samples(metrics: ServerMetrics) -> dict[str, float]:
    families = text_string_to_metric_families(metrics.text().decode())
    return {sample.name: sample.value for family in families for sample in family.samples if "le" not in sample.labels}


def test_the_first_token_counts_from_the_request_and_the_others_from_the_token_before(metrics: ServerMetrics):
    clock = AnswerClock(metrics, time.monotonic() - 10)
    for _ in range(3):
        clock.token()
    found = samples(metrics)
    assert found["glmflow_time_to_first_token_seconds_count"] == 1
    assert found["glmflow_time_to_first_token_seconds_sum"] == pytest.approx(10, abs=0.5)
    assert found["glmflow_token_seconds_count"] == 2 and found["glmflow_token_seconds_sum"] < 0.5
    assert found["glmflow_generated_tokens_total"] == 3


def test_a_watched_figure_is_looked_up_each_time(metrics: ServerMetrics):
    values = [1.0, 2.0]
    metrics.watch("glmflow_x", "x", lambda: values.pop(0))
    values_seen = [samples(metrics)["glmflow_x"] for _ in range(2)]
    assert values_seen == [1, 2]


def test_the_model_is_named_by_the_digest_of_its_weights(metrics: ServerMetrics):
    families = {f.name: f for f in text_string_to_metric_families(metrics.text().decode())}
    (sample,) = families["glmflow_model_info"].samples
    assert sample.labels == {"model": "scripted", "fingerprint": "fp-0", "weights_sha256": "0" * 64}


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("/health", "/health"),
        ("/v1/models/x", "/v1/models/{model}"),
        ("/v1/models/../../etc", "/v1/models/{model}"),
        ("/wp-login", "other"),
        ("/v1/models", "/v1/models"),
    ],
)
def test_a_stranger_cannot_make_new_labels(path: str, route: str):
    assert route_of(path) == route
