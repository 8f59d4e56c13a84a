"""Laws of judging answers."""

import math

import pytest

from stages import answers
from stages.answers import Judged, accuracy_by_task, accuracy_of, evenly, is_correct, judge
from stages.records import Check, Instruction, Turn


def instruction(task: str = "t", lang: str = "en", answer: str = "a", question: str = "q") -> Instruction:
    return Instruction(
        id=f"{task}{lang}{answer}{question}",
        task=task,
        lang=lang,
        phase=0,
        messages=(Turn(role="user", content=question), Turn(role="assistant", content=answer)),
        doc_id="",
        check=Check(kind="exact", answer=answer),
    )


@pytest.mark.parametrize(
    ("kind", "wanted", "given", "correct"),
    [
        ("exact", "List files", "list  files.", True),
        ("exact", "列出文件", " 列出文件。\n", True),
        ("exact", "list files", "list the files", False),
        ("choice", "yes", "Yes", True),
        ("choice", "yes", "yes, it does", False),
        ("choice", "yes", "", False),
        ("number", "12", "7 + 5 = 12.", True),
        ("number", "12", "012", True),
        ("number", "12", "12 or 13", False),
        ("number", "-3", "it is -3", True),
        ("number", "12", "twelve", False),
    ],
)
def test_an_answer_is_right_or_wrong(kind, wanted, given, correct):
    assert is_correct(Check(kind=kind, answer=wanted), given) is correct


def test_accuracy_has_its_standard_error_and_the_best_constant_answer():
    judged = [Judged(instruction(answer=a), a, a == "x", True) for a in "xxxxyyzw"]
    accuracy = accuracy_of(judged)
    assert (accuracy.num_items, accuracy.accuracy, accuracy.constant_accuracy) == (8, 0.5, 0.5)
    assert accuracy.standard_error == pytest.approx(math.sqrt(0.25 / 8))
    assert not accuracy.beats_constant


def test_only_more_than_two_standard_errors_beat_the_constant():
    answers_of = [str(i) for i in range(100)]
    judged = [Judged(instruction(answer=a), a, int(a) < 10, True) for a in answers_of]
    assert accuracy_of(judged).beats_constant
    assert not accuracy_of(
        [Judged(j.instruction, "", int(j.instruction.check.answer) < 4, True) for j in judged]
    ).beats_constant


def test_no_answers_are_refused():
    with pytest.raises(ValueError, match="want at least one judged answer, got none; is the held-out split empty"):
        accuracy_of([])


def test_accuracies_by_task_count_every_item_once():
    judged = [Judged(instruction(task, lang), "a", True, True) for task in "ba" for lang in ("zh", "en") for _ in "12"]
    by_task = accuracy_by_task(judged)
    assert list(by_task) == ["a/en", "a/zh", "b/en", "b/zh"]
    assert sum(accuracy.num_items for accuracy in by_task.values()) == len(judged)


def test_an_even_choice_takes_the_same_number_of_each_task_as_long_as_there_are_enough():
    items = [instruction(task, question=str(i)) for task, count in (("a", 9), ("b", 2), ("c", 9)) for i in range(count)]
    chosen = evenly(items, 8)
    assert sorted(item.task for item in chosen) == ["a"] * 3 + ["b"] * 2 + ["c"] * 3
    assert evenly(items, 100) != items
    assert sorted(evenly(items, 100), key=items.index) == items


class Echo:
    """A template and a model in one: the model answers every prompt with its own question."""

    stop_ids = (0,)

    def encode(self, messages):
        return [ord(c) for c in messages[-1]["content"]]

    def parse(self, token_ids):
        return "".join(map(chr, token_ids))


def test_answers_come_in_the_order_of_the_instructions_whatever_the_batches(monkeypatch: pytest.MonkeyPatch):
    import models.generate
    from models.generate import Generation

    def generate(model, prompts, **_options):
        return [Generation(list(p), [0.0] * len(p), "stop") for p in prompts]

    monkeypatch.setattr(models.generate, "generate", generate)
    items = [instruction(question="q" * length, answer="qqq") for length in (5, 1, 3, 4, 3)]
    for batch_size in (1, 2, 64):
        judged = judge(None, Echo(), items, batch_size=batch_size)  # type: ignore[arg-type]
        assert [j.instruction for j in judged] == items
        assert [j.answer for j in judged] == [item.messages[0].content for item in items]
        assert [j.correct for j in judged] == [False, False, True, False, True]


def test_the_module_needs_no_torch_at_the_top():
    assert not hasattr(answers, "torch")
