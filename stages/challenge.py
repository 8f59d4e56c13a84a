"""Champion against challenger on the same frozen held-out items: does the challenger deserve the place?

Artifact: `decision.json` (verdict, reason, every figure) and `README.md`, the challenger's card with the decision.

The challenger wins when one figure is significantly better, none is significantly worse, and it passed its gates; equal
models are left alone. A retraining keeps the frozen documents out of its training data; one that the challenger was
trained on all the same (by id, or the same text under another id) is left out for both models, with its instructions.

Not covered: frozen documents of which the challenger's training data holds only a near duplicate.
"""

import hashlib
import json
from collections.abc import Collection
from dataclasses import dataclass

from pydantic import Field

from infra.artifacts import Decision, DedupedCorpus, Evaluation, Instructions, Model, Release, Tokens
from infra.errors import BadSpecError
from stages.contract import Headline, Stage, StageContext, StageModel
from stages.decision_file import DECISION_NAME, DecisionFile, Verdict
from stages.evaluation_file import EvaluatedModel, Items, read_evaluation, write_json
from stages.paired_tests import Comparison, compare_accuracy, compare_bits
from stages.release import CARD_NAME, GATES_NAME

_MEASURES = {"document_bits": "perplexity", "is_correct": "instructions"}  # items, and the benchmark that makes them


class ChallengeConfig(StageModel):
    """How sure a decision has to be."""

    alpha: float = Field(
        default=0.05,
        gt=0,
        lt=1,
        description="two-sided significance level, for a loss on each figure, for a win shared by all figures",
    )


class Contenders(StageModel):
    """One evaluation of each, made on the same frozen tokens' documents and instructions."""

    champion: Evaluation
    challenger: Evaluation


class ChallengeInputs(StageModel):
    """Both models' evaluations on the frozen sets, and what the challenger was trained on."""

    champion: Model
    challenger: Model
    release: Release
    evaluations: Contenders
    frozen_corpus: DedupedCorpus
    frozen_instructions: Instructions
    corpus: DedupedCorpus
    tokens: Tokens


class ChallengeOutputs(StageModel):
    """What comes out."""

    decision: Decision


@dataclass(frozen=True)
class FrozenItems:
    """What both models are compared on: documents with their bytes, and instructions."""

    num_bytes: dict[str, int]
    instruction_ids: frozenset[str]
    num_documents_left_out: int
    num_instructions_left_out: int


def run(config: ChallengeConfig, inputs: ChallengeInputs, ctx: StageContext) -> ChallengeOutputs:
    """Compare, decide, write the decision and the card."""
    champion, challenger = _evaluations(inputs, ctx)
    frozen = _frozen_items(inputs, ctx, champion)
    comparisons = _compare(champion, challenger, frozen)
    gates = json.loads((ctx.store.get(inputs.release) / GATES_NAME).read_text(encoding="utf-8"))
    verdict, reason = decide(inputs, comparisons, tuple(gates["reasons"]), config.alpha)
    decision = DecisionFile(
        champion=inputs.champion.digest,
        challenger=inputs.challenger.digest,
        verdict=verdict,
        reason=reason,
        alpha=config.alpha,
        comparisons=comparisons,
        failed_gates=tuple(gates["reasons"]),
        num_documents_left_out=frozen.num_documents_left_out,
        num_instructions_left_out=frozen.num_instructions_left_out,
    )
    target = ctx.scratch / "decision"
    target.mkdir()
    write_json(target / DECISION_NAME, decision.model_dump(mode="json"))
    card = (ctx.store.get(inputs.release) / CARD_NAME).read_text(encoding="utf-8")
    (target / CARD_NAME).write_text(f"{card.rstrip()}\n\n{decision.markdown()}", encoding="utf-8")
    _log(ctx, decision)
    return ChallengeOutputs(decision=ctx.store.put(target, Decision))


def decide(
    inputs: ChallengeInputs, comparisons: tuple[Comparison, ...], failed_gates: tuple[str, ...], alpha: float
) -> tuple[Verdict, str]:
    """The verdict and its reason in words."""
    if inputs.champion == inputs.challenger:
        return "unchanged", "Both are the same model."
    worse = [one.metric for one in comparisons if one.outcome(alpha) == "worse"]
    better = [one.metric for one in comparisons if one.outcome(alpha / len(comparisons)) == "better"]
    if worse:
        return "lost", f"Significantly worse: {', '.join(worse)}."
    if failed_gates:
        return "gates_failed", f"It did not pass {len(failed_gates)} of its release gates."
    if not better:
        return "undecided", "No figure is significantly better, so the champion stays."
    return "won", f"Significantly better: {', '.join(better)}; nothing significantly worse."


def _evaluations(inputs: ChallengeInputs, ctx: StageContext) -> tuple[EvaluatedModel, EvaluatedModel]:
    """Both, after a check that they are of these models and of the same items."""
    found = []
    for name, ref in (("champion", inputs.champion), ("challenger", inputs.challenger)):
        evaluated = read_evaluation(ctx.store.get(getattr(inputs.evaluations, name)))
        if evaluated.about.model != ref.digest:
            raise BadSpecError(
                f"evaluations.{name}: want the evaluation of {ref.short}, got that of model "
                f"{evaluated.about.model[:12]}; evaluate the {name} on the frozen sets"
            )
        found.append(evaluated)
    for kind, benchmark in _MEASURES.items():
        ids = [evaluated.items.get(kind, {}).keys() for evaluated in found]
        if not ids[0] or ids[0] != ids[1]:
            raise BadSpecError(
                f"evaluations: want the same items of {kind} for champion and challenger, got {len(ids[0])} and "
                f"{len(ids[1])}; evaluate both with benchmark {benchmark!r} on the same frozen sets"
            )
    return found[0], found[1]


def _frozen_items(inputs: ChallengeInputs, ctx: StageContext, evaluated: EvaluatedModel) -> FrozenItems:
    """The items of which the challenger has not seen the document."""
    from models.token_shards import TokenShards
    from stages.records import Instruction, read_corpus, read_records

    held_out = read_records(ctx.store.get(inputs.frozen_instructions) / "heldout.jsonl", Instruction)
    doc_of = {item.id: item.doc_id for item in held_out if item.id in evaluated.items["is_correct"]}
    wanted = {*evaluated.items["document_bits"], *doc_of.values()}
    trained_ids = frozenset(TokenShards(ctx.store.get(inputs.tokens)).train.doc_ids)
    trained_texts = {_sha256(d.text) for d in read_corpus(ctx.store.get(inputs.corpus)) if d.id in trained_ids}
    num_bytes, seen = {}, set()
    for document in read_corpus(ctx.store.get(inputs.frozen_corpus)):
        if document.id not in wanted:
            continue
        num_bytes[document.id] = len(document.text.encode())
        if document.id in trained_ids or _sha256(document.text) in trained_texts:
            seen.add(document.id)
    documents = {i: num_bytes[i] for i in evaluated.items["document_bits"] if i not in seen}
    kept = frozenset(item for item, doc_id in doc_of.items() if doc_id not in seen)
    if not documents or not kept:
        raise BadSpecError(
            f"frozen sets: want documents and instructions that the challenger has not seen, got {len(documents)} and "
            f"{len(kept)}; freeze the champion's held-out sets again"
        )
    return FrozenItems(documents, kept, len(evaluated.items["document_bits"]) - len(documents), len(doc_of) - len(kept))


def _compare(champion: EvaluatedModel, challenger: EvaluatedModel, frozen: FrozenItems) -> tuple[Comparison, ...]:
    def of_both(kind: str, ids: Collection[str]) -> tuple[Items, Items]:
        return _only(champion.items[kind], ids), _only(challenger.items[kind], ids)

    before, after = of_both("document_bits", frozen.num_bytes)
    return compare_bits(before, after, frozen.num_bytes), compare_accuracy(
        *of_both("is_correct", frozen.instruction_ids)
    )


def _only(items: Items, ids: Collection[str]) -> Items:
    return {item: items[item] for item in ids}


def _sha256(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _log(ctx: StageContext, decision: DecisionFile) -> None:
    ctx.log(f"{decision.verdict}: {decision.reason}")
    ctx.log_metric("challenge/won", decision.verdict == "won")
    ctx.log_metric("challenge/documents_left_out", decision.num_documents_left_out)
    ctx.log_metric("challenge/instructions_left_out", decision.num_instructions_left_out)
    for one in decision.comparisons:
        for name in ("champion", "challenger", "p_value", "num_items", "num_better", "num_worse"):
            ctx.log_metric(f"challenge/{one.metric}/{name}", getattr(one, name))


STAGE = Stage(
    name="challenge",
    config=ChallengeConfig,
    inputs=ChallengeInputs,
    outputs=ChallengeOutputs,
    run=run,
    metrics=(
        "challenge/won",
        "challenge/documents_left_out",
        "challenge/instructions_left_out",
        "challenge/bits_per_byte/*",
        "challenge/instruction_accuracy/*",
    ),
    headline=Headline(
        "bits per byte, champion and challenger",
        before="challenge/bits_per_byte/champion",
        after="challenge/bits_per_byte/challenger",
        higher_is_better=False,
    ),
)
