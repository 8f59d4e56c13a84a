"""Sample answers are the same prompts for every model, and a table that MLflow reads."""

from pathlib import Path

from stages.answers import Judged
from stages.samples import PROMPT_COLUMNS, Sample, choose, side_by_side
from tests.support.tiny_release import instructions, tiny_subject


def judged(answer: str = "1", num_items: int = 12) -> list[Judged]:
    return [Judged(item, answer, item.check.answer == answer, True) for item in instructions(num_items, "heldout")]


def test_the_first_few_of_each_task_are_chosen_and_more_items_change_none_of_them():
    chosen = choose(judged(), 2)
    assert [(s.task, s.id) for s in chosen] == [
        ("arithmetic/zh", "heldout-1"), ("arithmetic/zh", "heldout-3"), ("heading/en", "heldout-0"),
        ("heading/en", "heldout-2"),
    ]  # fmt: skip
    assert choose(judged(num_items=100), 2) == chosen and choose(judged(), 0) == ()
    assert (chosen[0].prompt, chosen[0].right_answer, chosen[0].is_correct) == ("What is item 1?", "1", True)


def test_a_model_s_samples_are_its_greedy_answers(tmp_path: Path):
    subject = tiny_subject(tmp_path, max_items_per_task=3)
    answers = {one.instruction.id: one.answer for one in subject.judged}
    assert {s.id: s.answer for s in choose(subject.judged, 5)} == answers


def test_models_stand_side_by_side_on_the_prompts_that_all_of_them_were_asked():
    def sample(name: str, answer: str) -> Sample:
        return Sample(
            id=name, task="t/en", prompt=f"{name}?", right_answer="x", answer=answer, is_correct=answer == "x"
        )

    table = side_by_side({"base": (sample("a", "u"), sample("b", "v")), "sft": (sample("b", "x"), sample("c", "w"))})
    assert table == {
        "columns": [*PROMPT_COLUMNS, "base", "sft"],
        "data": [["t/en", "b?", "x", "v (wrong)", "x (right)"]],
    }
    assert side_by_side({}) == {"columns": list(PROMPT_COLUMNS), "data": []}
