"""Laws of the instructions stage."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from infra.artifacts import DedupedCorpus
from infra.errors import BadSpecError
from stages.answers import is_correct
from stages.instructions import STAGE, InstructionsConfig, InstructionsInputs
from stages.records import Instruction, is_held_out, read_records
from stages.tasks.arithmetic import ArithmeticTask
from stages.tasks.language import LanguageTask
from stages.tasks.returns_value import ReturnsValueTask
from stages.tasks.sentiment import SentimentTask
from tests.support.corpora import StageBench, mixed_documents

LANGUAGES = {"doc": "en", "review": "zh", "code": "code"}
DOCUMENTS = [replace(d, lang=LANGUAGES[d.domain]) for d in mixed_documents(80)]
TASKS = (LanguageTask(), SentimentTask(max_train=20), ArithmeticTask(max_number=9), ReturnsValueTask())
CONFIG = InstructionsConfig(tasks=TASKS, heldout_ratio=0.2)


class Built(StageBench):
    def build(self, documents=DOCUMENTS, config: InstructionsConfig = CONFIG) -> dict[str, list[Instruction]]:
        inputs = InstructionsInputs(corpus=self.put_corpus(documents, DedupedCorpus))
        self.output = self.run(STAGE, config, inputs).instructions
        folder = self.store.get(self.output)
        return {split: read_records(folder / f"{split}.jsonl", Instruction) for split in ("train", "heldout")}


@pytest.fixture
def bench(tmp_path: Path) -> Built:
    return Built(tmp_path)


def test_an_instruction_is_held_out_exactly_when_its_document_is(bench: Built):
    for split, items in bench.build().items():
        assert {is_held_out(item.doc_id, 0.2) for item in items if item.doc_id} == {split == "heldout"}


def test_the_same_numbers_are_never_in_both_splits_in_any_language(bench: Built):
    splits = bench.build()
    numbers = {
        split: {"".join(c if c.isdigit() else " " for c in item.messages[0].content).strip() for item in items}
        for split, items in ((s, [i for i in items if not i.doc_id]) for s, items in splits.items())
    }
    assert numbers["train"]
    assert numbers["heldout"]
    assert not numbers["train"] & numbers["heldout"]


def test_every_answer_passes_its_own_check(bench: Built):
    for items in bench.build().values():
        assert items
        assert all(is_correct(item.check, item.messages[-1].content) for item in items)


def test_limits_hold_for_each_task_and_language_and_are_metrics(bench: Built):
    train = bench.build()["train"]
    counts = Counter(f"{item.task}/{item.lang}" for item in train)
    assert counts["sentiment/zh"] == 20
    assert {n.removeprefix("instructions/train/"): v for n, v in bench.metrics.items() if "/train/" in n} == counts
    assert bench.metrics["instructions/train"] == len(train)


def test_training_goes_from_easy_to_hard(bench: Built):
    phases = [item.phase for item in bench.build()["train"]]
    assert phases == sorted(phases)
    assert len(set(phases)) > 1


def test_ids_are_unique_and_the_order_of_documents_does_not_matter(bench: Built):
    items = [item.id for split in bench.build().values() for item in split]
    first = bench.output
    assert len(items) == len(set(items))
    bench.build(DOCUMENTS[::-1])
    assert bench.output == first


def test_a_corpus_that_gives_no_instructions_is_refused(bench: Built):
    config = CONFIG.model_copy(update={"tasks": (SentimentTask(),)})
    with pytest.raises(BadSpecError, match=r"want documents that give training and held-out instructions, got 0 and 0"):
        bench.build(DOCUMENTS[:5], config)


def test_questions_about_frozen_held_out_documents_are_held_out_wherever_they_lie_now(bench: Built):
    moved = [replace(d, id=f"moved-{d.id}") for d in DOCUMENTS]
    frozen = {f"moved-{d.id}" for d in DOCUMENTS if is_held_out(d.id, 0.2)}
    assert {item.doc_id for item in bench.build(moved)["train"]} & frozen
    inputs = InstructionsInputs(
        corpus=bench.put_corpus(moved, DedupedCorpus), frozen=bench.put_corpus(DOCUMENTS, DedupedCorpus)
    )
    folder = bench.store.get(bench.run(STAGE, CONFIG, inputs).instructions)
    assert not {item.doc_id for item in read_records(folder / "train.jsonl", Instruction)} & frozen
