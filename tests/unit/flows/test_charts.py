"""Laws of the charts."""

import itertools
import re
import xml.etree.ElementTree as ET

import pytest

from flows.charts import HEIGHT, WIDTH, Bar, Line, bar_chart, heat_map, legend, line_chart, number, thinned, ticks

LINES = [Line("a <b>", [(i, float(i * i)) for i in range(10)]), Line("c", [(i, -float(i)) for i in range(10)])]


def svg_of(markup: str) -> ET.Element:
    return ET.fromstring(markup[: markup.index("</svg>") + 6])


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (3, "3"), (0.65432, "0.6543"), (12345, "12.35k"), (2.5e6, "2.5M"), (1.2e-5, "1.20e-05"), (-1.5, "-1.5")],
)
def test_numbers_are_short_enough_to_read(value: float, text: str):
    assert number(value) == text


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-3, 7), (0.001, 0.0042), (1e6, 3e6), (5, 5)])
def test_ticks_are_evenly_spaced_and_inside(low: float, high: float):
    found = ticks(low, high)
    assert all(low - 1e-9 <= tick <= high + 1e-9 for tick in found)
    assert 1 <= len(found) <= 11
    gaps = {round(b - a, 9) for a, b in itertools.pairwise(found)}
    assert len(gaps) <= 1


def test_thinning_keeps_few_points_and_the_mean_of_many():
    points = [(float(i), float(i % 7)) for i in range(960)]
    assert thinned(points[:10]) == points[:10]
    few = thinned(points, 96)
    assert len(few) == 96
    assert sum(y for _, y in few) / 96 == pytest.approx(sum(y for _, y in points) / 960)


@pytest.mark.parametrize(
    "markup",
    [
        line_chart("t & t", LINES),
        bar_chart("t & t", [Bar("a <b>", 2.0, 0.5), Bar("c", 0.0)]),
        heat_map("t & t", [Line("a <b>", [(0, 1.0), (1, 0.0)])]),
    ],
    ids=["lines", "bars", "heat"],
)
def test_a_chart_is_well_formed_xml_with_a_name(markup: str):
    svg = svg_of(markup)
    assert svg.get("aria-label", "").startswith("t & t")
    assert svg.find("title") is not None
    assert "nan" not in markup


def test_every_point_lies_inside_the_frame():
    for line in svg_of(line_chart("t", LINES)).iter("polyline"):
        for place in line.get("points").split():
            x, y = map(float, place.split(","))
            assert 0 <= x <= WIDTH
            assert 0 <= y <= HEIGHT


def test_bars_are_as_long_as_their_values():
    chart = bar_chart("t", [Bar("a", 1), Bar("b", 2)])
    widths = [float(w) for w in re.findall(r'<rect class="bar"[^>]* width="([0-9.]+)"', chart)]
    assert widths[1] == pytest.approx(2 * widths[0], abs=0.2)


def test_nothing_to_draw_gives_nothing():
    assert line_chart("t", []) == line_chart("t", [Line("a", [])]) == bar_chart("t", []) == heat_map("t", []) == ""


def test_only_several_curves_need_a_legend():
    assert legend(["a"]) == ""
    assert legend(["a", "b<"]).count('class="key') == 2
    assert "b&lt;" in legend(["a", "b<"])


def test_a_constant_curve_and_a_single_point_can_be_drawn():
    assert svg_of(line_chart("t", [Line("a", [(3, 5.0)])])) is not None
    assert svg_of(line_chart("t", [Line("a", [(3, 0.0), (4, 0.0)])])) is not None
