"""Distances between corpora: zero between equals, one between strangers, and no alarm at chance."""

import json
import random
from collections import Counter
from pathlib import Path

import pytest

from infra.artifacts import CleanCorpus, DedupedCorpus
from infra.stores.local import LocalStore
from stages.contract import StageContext
from stages.drift import STAGE, CorpusFacts, DriftConfig, DriftInputs, measure, read_measures, smirnov_distance
from stages.execution import read_history
from stages.records import CorpusWriter, Document, write_report


def facts(lengths, languages, cleaning=None) -> CorpusFacts:
    counts = Counter(languages)
    return CorpusFacts(tuple(lengths), counts, Counter(doc=len(lengths)), Counter(cleaning or {"kept": len(lengths)}))


def exceeded(new: CorpusFacts, old: CorpusFacts) -> set[str]:
    return {one.name for one in measure(DriftConfig(), new, old) if one.is_exceeded}


def lengths(count: int, seed: int, scale: float = 1000.0) -> list[int]:
    rng = random.Random(seed)
    return [int(rng.expovariate(1 / scale)) + 1 for _ in range(count)]


def test_equal_corpora_have_no_distance_and_a_distance_has_no_direction():
    one = facts(lengths(300, 0), {"en": 200, "zh": 100})
    other = facts(lengths(200, 1, 3000), {"en": 20, "fr": 180}, {"kept": 100, "too_short": 300})
    assert [m.value for m in measure(DriftConfig(), one, one)] == [0, 0, 0, 0, 1]
    forth, back = measure(DriftConfig(), one, other), measure(DriftConfig(), other, one)
    assert [m.value for m in forth] == pytest.approx([m.value for m in back])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("count", [40, 2000])
def test_two_samples_of_one_source_raise_no_alarm(count: int, seed: int):
    rng = random.Random(seed)
    languages = [[rng.choice(("en", "en", "zh")) for _ in range(count)] for _ in range(2)]
    new, old = (facts(lengths(count, seed + 10 * i), drawn) for i, drawn in enumerate(languages))
    assert exceeded(new, old) == set()


def test_each_change_is_seen_where_it_is():
    old = facts(lengths(2000, 0), {"en": 1500, "zh": 500}, {"kept": 2000, "too_short": 100})
    assert exceeded(facts(lengths(2000, 1, 3000), old.languages, old.cleaning), old) == {"length_distance"}
    assert exceeded(facts(lengths(2000, 1), {"en": 900, "zh": 1100}, old.cleaning), old) == {"language_distance"}
    rejecting = {"kept": 2000, "too_short": 1200}
    assert exceeded(facts(lengths(2000, 1), old.languages, rejecting), old) == {"rejection_distance"}
    assert exceeded(facts(lengths(500, 1), {"en": 375, "zh": 125}, {"kept": 500, "too_short": 25}), old) == {
        "size_ratio"
    }


def test_the_smirnov_distance_is_the_largest_gap_of_the_cumulative_shares():
    assert smirnov_distance((1, 2, 3, 4), (3, 4, 5, 6)) == pytest.approx(0.5)
    assert smirnov_distance((1, 2), (3, 4)) == 1


def test_the_stage_writes_what_it_measured(tmp_path: Path):
    store = LocalStore(tmp_path / "store")

    def put(name: str, texts: list[str]):
        refs = []
        for kind in (DedupedCorpus, CleanCorpus):
            writer = CorpusWriter(tmp_path / name / kind.__name__)
            for index, text in enumerate(texts):
                writer.write(Document(f"{name}{index}", text, "s", "MIT", "en", "doc"))
            writer.close()
            write_report(tmp_path / name / kind.__name__, {"documents_kept": len(texts), "rejected": {"too_short": 1}})
            refs.append(store.put(tmp_path / name / kind.__name__, kind))
        return refs

    old, new = (
        put("old", [f"text {i} is here" for i in range(100)]),
        put("new", [f"text {i} is here" * 50 for i in range(100)]),
    )
    ctx = StageContext(store, tmp_path / "work", declared_metrics=STAGE.metrics)
    ctx.scratch.mkdir(parents=True)
    inputs = DriftInputs(corpus=new[0], clean=new[1], champion_corpus=old[0], champion_clean=old[1])
    directory = store.get(STAGE.run(DriftConfig(), inputs, ctx).drift)
    logged = {point.name: point.value for point in read_history(ctx.metrics_path)}
    measures = read_measures(directory)
    assert {f"drift/{one.name}": one.value for one in measures} | {"drift/exceeded": 1} == logged
    assert [one.name for one in measures if one.is_exceeded] == ["length_distance"]
    assert json.loads((directory / "drift.json").read_text())["cleaning"]["corpus"]["too_short"] == 1
