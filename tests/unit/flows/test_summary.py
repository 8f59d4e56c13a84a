"""The summary: the same figures as a table and as JSON."""

import io
import json

import pytest
from rich.console import Console

from flows.launch import StageResult
from flows.summary import Summary, print_summary, quantized_rows, stage_rows
from tests.support.lifecycle_records import record, records


def results(*, is_cached: bool) -> list[StageResult]:
    return [
        StageResult(label, item.stage, "k" * 64, is_cached, 12.0, 0.0 if is_cached else 10.0, item)
        for label, item in records().items()
        if item.stage in ("pretrain", "quantize", "release")
    ]


def summary(*, is_cached: bool = False, gates_passed: bool | None = True) -> Summary:
    finished = results(is_cached=is_cached)
    return Summary(
        lifecycle="run-1", recipe="demo", seed=7, status="finished", stages=stage_rows(finished), wall_s=50.0,
        stage_process_s=sum(r.process_s for r in finished), overhead_s=10.0,
        peak_rss_bytes=1 << 30, quantized=quantized_rows(finished),
        gates_passed=gates_passed, report="/r/report.html", tracking_uri="sqlite:///x.db", notes=["a remark"],
    )  # fmt: skip


def printed(given: Summary) -> str:
    stream = io.StringIO()
    print_summary(given, Console(file=stream, width=160))
    return stream.getvalue()


def test_the_table_holds_every_stage_and_where_to_look():
    text = printed(summary())
    for wanted in ("pretrain", "quantize_int8", "quantize_int4", "release", "12 s", "a remark", "/r/report.html"):
        assert wanted in text
    assert "finished in 50 s: 40 s inside stage processes, 10 s around them (20.0% of the run)" in text
    assert "quantize_int4: whole weights file 976.6 KiB, 0.1111 of the full model's 8.6 MiB" in text
    assert "release gates passed: the model is now the champion" in text and "glmflow serve champion" in text
    assert "mlflow ui --backend-store-uri sqlite:///x.db" in text


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("http://127.0.0.1:5000", "compare:  http://127.0.0.1:5000"),
        ("postgresql+psycopg://me:***@h/d", "compare:  glmflow up shows postgresql+psycopg://me:***@h/d"),
    ],
)
def test_the_way_to_mlflow_is_that_of_the_tracker(uri: str, said: str):
    assert said in printed(summary().model_copy(update={"tracking_uri": uri}))


def test_a_cached_run_has_no_share_of_overhead_and_a_failed_gate_no_champion():
    failed = summary(is_cached=True, gates_passed=False)
    text = printed(failed.model_copy(update={"failed_gates": ["int4_cost: got 0.09, limit 0.08"]}))
    assert "  gate int4_cost: got 0.09, limit 0.08" in text
    assert "% of the run" not in text and "4 of 4 stages cached" in text
    assert "release gates failed: candidate only" in text and "serve champion" not in text


def test_json_holds_the_same_figures():
    document = json.loads(summary().model_dump_json())
    assert document["stages"][0]["outputs"] == {"model": "model:" + "0" * 12}
    assert document["quantized"][0]["file_bytes"] == 2_000_000
    assert Summary.model_validate(document) == summary()


def test_stages_without_sizes_are_no_quantized_rows():
    plain = StageResult("clean", "clean", "k", False, 1, 1, record("clean", "clean_corpus", {}))
    assert quantized_rows([plain]) == []
