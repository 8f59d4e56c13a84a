"""Laws of the report's sections."""

from flows.report_sections import evaluations, sections
from tests.support.lifecycle_records import MODELS, histories, records


def by_anchor(found):
    return {section.anchor: section for section in found}


def test_a_finished_lifecycle_fills_every_section():
    anchors = [s.anchor for s in sections(records(), histories())]
    assert anchors == ["gates", "quality", "quantization", "data", "pretraining", "alignment", "cost", "provenance"]


def test_answers_to_the_same_prompt_stand_in_one_row_and_long_ones_are_cut():
    table = {"columns": ["prompt", "base", "sft"], "data": [["1 + 1?", "x" * 400, "2"]]}
    shown = by_anchor(sections({}, {}, table))["samples"].tables[0]
    assert shown.header == ("prompt", "base", "sft")
    ((prompt, base, sft),) = shown.rows
    assert (prompt, sft) == ("1 + 1?", "2") and len(base) == 300 and base.endswith("x...")


def test_a_lifecycle_without_records_has_no_section():
    assert sections({}, {}) == []


def test_models_are_named_by_their_run():
    assert tuple(evaluations(records())) == MODELS


def test_every_gate_is_a_row_with_its_verdict():
    table = by_anchor(sections(records(), {}))["gates"].tables[0]
    assert table.rows == [("int8 cost", "0.001", "at most 0.005", "passed")]


def test_the_same_measurement_of_all_models_stands_in_one_row():
    quality = by_anchor(sections(records(), {}))["quality"]
    rows = {row[0]: row[1:] for table in quality.tables for row in table.rows}
    assert rows["bits per byte"] == ("2.5", "2.4", "2.3", "2.2", "2.1")
    assert rows["arithmetic, en"] == ("0.5 \u00b1 0.02",) * 5
    assert rows["domain, prose"] == ("2.4",) * 5


def test_negative_rewards_are_told_in_the_table_and_not_drawn_as_bars():
    quality = by_anchor(sections(records(), {}))["quality"]
    assert not any("reward" in figure.caption for figure in quality.figures)
    assert any(row[0] == "reward" for table in quality.tables for row in table.rows)


def test_rejections_and_duplicates_are_drawn_by_reason_and_the_other_counts_are_a_table():
    data = by_anchor(sections(records(), {}))["data"]
    assert [figure.caption for figure in data.figures] == ["clean: docs rejected", "dedup: docs removed"]
    assert ("clean", "docs in", "9") in data.tables[0].rows


def test_final_figures_of_alignment_are_a_table_and_curves_are_not_repeated_in_it():
    alignment = by_anchor(sections(records(), histories()))["alignment"]
    assert alignment.tables[0].rows == [("ppo", "accuracy", "0.6")]


def test_the_perplexity_cost_is_measured_against_the_full_model():
    table = by_anchor(sections(records(), {}))["quantization"].tables[0]
    assert [row[-1] for row in table.rows] == [f"{37 / 38 - 1:+.2%}", f"{36 / 38 - 1:+.2%}"]


def test_every_digest_and_every_input_is_listed():
    rows = by_anchor(sections(records(), {}))["provenance"].tables[0].rows
    assert [row[0] for row in rows] == list(records())
    assert all(row[1] in row[2] for row in rows)
