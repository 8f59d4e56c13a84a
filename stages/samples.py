"""Sample answers: what a model says to a few held-out prompts, and several models' answers side by side.

The prompts are the first of each task and language in the order in which an evaluation asks them, so that they stay the
same from model to model and from run to run on the same instructions. The table has the form of MLflow's tables.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, TypeAdapter

if TYPE_CHECKING:
    from stages.answers import Judged

SAMPLES_NAME = "samples.json"
PROMPT_COLUMNS = ("task", "prompt", "right answer")


class Sample(BaseModel):
    """One prompt with a model's greedy answer."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    id: str
    task: str
    prompt: str
    right_answer: str
    answer: str
    is_correct: bool


Samples = tuple[Sample, ...]
SAMPLES = TypeAdapter(Samples)


def choose(judged: Sequence["Judged"], num_per_task: int) -> Samples:
    """The first few of each task and language."""
    chosen: dict[str, list[Sample]] = {}
    for one in judged:
        of_task = chosen.setdefault(f"{one.instruction.task}/{one.instruction.lang}", [])
        if len(of_task) < num_per_task:
            of_task.append(_sample(one))
    return tuple(sample for task in sorted(chosen) for sample in chosen[task])


def _sample(one: "Judged") -> Sample:
    item = one.instruction
    turns = item.messages[:-1]
    prompt = turns[0].content if len(turns) == 1 else "\n".join(f"{turn.role}: {turn.content}" for turn in turns)
    return Sample(
        id=item.id,
        task=f"{item.task}/{item.lang}",
        prompt=prompt,
        right_answer=item.messages[-1].content,
        answer=one.answer,
        is_correct=one.correct,
    )


def side_by_side(samples: Mapping[str, Samples]) -> dict[str, Any]:
    """A row for each prompt that every model was asked, a column for each model, as MLflow's tables have it."""
    answers = {name: {sample.id: sample for sample in given} for name, given in samples.items()}
    first = next(iter(samples.values()), ())
    shared = [sample for sample in first if all(sample.id in given for given in answers.values())]
    rows = [
        [s.task, s.prompt, s.right_answer, *(_with_verdict(given[s.id]) for given in answers.values())] for s in shared
    ]
    return {"columns": [*PROMPT_COLUMNS, *answers], "data": rows}


def _with_verdict(sample: Sample) -> str:
    return f"{sample.answer} {'(right)' if sample.is_correct else '(wrong)'}"
