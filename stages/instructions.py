"""Stage `instructions`: questions about the corpus's own documents, with answers that can be checked.

Held out by document: an instruction is held out when its document is (the same rule as `pack`, so the model has not
seen the document in pretraining either). An instruction without a document is held out by the numbers in it. Which
instructions are taken depends on the hash of their id only.
"""

import hashlib
import re
from collections import Counter

from pydantic import Field

from infra.artifacts import DedupedCorpus, Instructions
from infra.errors import BadSpecError
from stages.contract import Headline, Stage, StageContext, StageModel
from stages.records import Instruction, frozen_ids, is_held_out, read_corpus, write_records
from stages.tasks import AnyTask
from stages.tasks.arithmetic import ArithmeticTask
from stages.tasks.heading import HeadingTask
from stages.tasks.language import LanguageTask
from stages.tasks.library import LibraryTask
from stages.tasks.manual import ManualTask
from stages.tasks.returns_value import ReturnsValueTask
from stages.tasks.sentiment import SentimentTask
from stages.tasks.symbol_name import SymbolNameTask


class InstructionsConfig(StageModel):
    """Which tasks are asked, and which share of documents is held out."""

    tasks: tuple[AnyTask, ...] = Field(
        default=(
            LanguageTask(),
            SentimentTask(),
            LibraryTask(),
            SymbolNameTask(),
            ReturnsValueTask(),
            HeadingTask(),
            ManualTask(),
            ArithmeticTask(),
        ),
        description="the tasks to build",
    )
    heldout_ratio: float = Field(
        default=0.08, gt=0, lt=1, description="share of documents set aside by document id, 0-1; equal in every stage"
    )


class InstructionsInputs(StageModel):
    """Documents without duplicates."""

    corpus: DedupedCorpus
    frozen: DedupedCorpus | None = None  # as in pack


class InstructionsOutputs(StageModel):
    """Training and held-out instructions."""

    instructions: Instructions


def run(config: InstructionsConfig, inputs: InstructionsInputs, ctx: StageContext) -> InstructionsOutputs:
    """Build, split and limit the instructions of every task; phases in order."""
    documents = sorted(read_corpus(ctx.store.get(inputs.corpus)), key=lambda d: _hash(d.id))
    frozen: frozenset[str] = frozenset()
    if inputs.frozen is not None:
        frozen = frozen_ids(documents, ctx.store.get(inputs.frozen), config.heldout_ratio)
    train: list[Instruction] = []
    heldout: list[Instruction] = []
    for i, task in enumerate(config.tasks):
        taken: Counter[tuple[bool, str]] = Counter()
        seen: set[str] = set()
        for item in sorted(task.build(documents), key=lambda item: _hash(item.id)):
            is_test = item.doc_id in frozen or is_held_out(item.doc_id or _numbers(item), config.heldout_ratio)
            limit = task.max_heldout if is_test else task.max_train
            if item.id not in seen and taken[is_test, item.lang] < limit:
                seen.add(item.id)
                taken[is_test, item.lang] += 1
                (heldout if is_test else train).append(item)
        ctx.progress(i + 1, len(config.tasks), "tasks")
    if not train or not heldout:
        raise BadSpecError(
            f"corpus {inputs.corpus.short}: want documents that give training and held-out instructions, got "
            f"{len(train)} and {len(heldout)} from {len(documents)} documents; add tasks or documents"
        )
    train.sort(key=lambda item: (item.phase, _hash(item.id)))
    out = ctx.scratch / "instructions"
    for split, items in (("train", train), ("heldout", heldout)):
        write_records(out / f"{split}.jsonl", items)
        ctx.log_metric(f"instructions/{split}", len(items))
        for name, count in sorted(Counter(f"{item.task}/{item.lang}" for item in items).items()):
            ctx.log_metric(f"instructions/{split}/{name}", count)
    return InstructionsOutputs(instructions=ctx.store.put(out, Instructions))


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _numbers(item: Instruction) -> str:
    """The numbers of a question: the same pair in another language belongs to the same split."""
    return "numbers " + " ".join(re.findall(r"\d+", item.messages[0].content))


STAGE = Stage(
    name="instructions",
    config=InstructionsConfig,
    inputs=InstructionsInputs,
    outputs=InstructionsOutputs,
    run=run,
    metrics=("instructions/train*", "instructions/heldout*"),
    headline=Headline("training instructions", after="instructions/train"),
)
