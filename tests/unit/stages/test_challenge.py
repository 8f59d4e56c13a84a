"""The challenger has to be better where both are measured alike, on what it has not seen."""

import json
from pathlib import Path
from typing import Any

import pytest

from infra.artifacts import DedupedCorpus, Evaluation, Instructions, Model, Release, Tokens
from infra.errors import BadSpecError
from infra.stores.local import LocalStore
from models.token_shards import TokenDocument, TokenWriter
from stages.challenge import STAGE, ChallengeConfig, ChallengeInputs, Contenders
from stages.contract import StageContext
from stages.decision_file import DecisionFile, read_decision
from stages.evaluation_file import EvaluatedModel, EvaluationFile, write_evaluation
from stages.execution import read_history
from stages.records import Check, CorpusWriter, Document, Instruction, Turn, write_records

NUM = 60
CHAMPION, CHALLENGER = (Model(digest=letter * 64, num_bytes=1) for letter in "ab")


class Contest:
    """A champion with 100 bits a document and every second instruction right, and whatever a test changes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.store = LocalStore(root / "store")
        self.bits = {"champion": [100.0 + i % 7 for i in range(NUM)], "challenger": [100.0 + i % 7 for i in range(NUM)]}
        self.right = {"champion": [i % 2 for i in range(NUM)], "challenger": [i % 2 for i in range(NUM)]}
        self.challenger = CHALLENGER
        self.failed_gates: list[str] = []
        self.training = {f"new{i}": f"new text {i}" for i in range(5)}
        self.num_runs = 0

    def decide(self) -> DecisionFile:
        """Run the stage."""
        self.num_runs += 1
        ctx = StageContext(self.store, self.root / f"work{self.num_runs}", declared_metrics=STAGE.metrics)
        ctx.scratch.mkdir(parents=True)
        directory = self.store.get(STAGE.run(ChallengeConfig(), self._inputs(), ctx).decision)
        decision = read_decision(directory)
        self.card = (directory / "README.md").read_text()
        self.logged = {point.name: point.value for point in read_history(ctx.metrics_path)}
        return decision

    def _inputs(self) -> ChallengeInputs:
        models = {"champion": CHAMPION, "challenger": self.challenger}
        evaluations = {name: self._evaluation(name, ref.digest) for name, ref in models.items()}
        frozen = {f"doc{i}": f"frozen text {i}" for i in range(NUM)}
        return ChallengeInputs(
            **models,
            release=self._put("release", Release, self._write_release),
            evaluations=Contenders(**evaluations),
            frozen_corpus=self._put("frozen", DedupedCorpus, lambda path: write_corpus(path, frozen)),
            frozen_instructions=self._put("instructions", Instructions, write_instructions),
            corpus=self._put("corpus", DedupedCorpus, lambda path: write_corpus(path, self.training)),
            tokens=self._put("tokens", Tokens, self._write_tokens),
        )

    def _put(self, name: str, kind: Any, write: Any) -> Any:
        path = self.root / f"{name}{self.num_runs}"
        write(path)
        return self.store.put(path, kind)

    def _evaluation(self, name: str, digest: str) -> Evaluation:
        about = EvaluationFile(
            model=digest, kind="model", reward_model=None, tokenizer_sha256="t", template_sha256="c", metrics={}
        )
        items = {
            "document_bits": {f"doc{i}": value for i, value in enumerate(self.bits[name])},
            "is_correct": {f"item{i}": float(value) for i, value in enumerate(self.right[name])},
        }
        return self._put(name, Evaluation, lambda path: write_evaluation(path, EvaluatedModel(about, items)))

    def _write_release(self, path: Path) -> None:
        path.mkdir()
        (path / "gates.json").write_text(json.dumps({"passed": not self.failed_gates, "reasons": self.failed_gates}))
        (path / "README.md").write_text("# The challenger\n")

    def _write_tokens(self, path: Path) -> None:
        writer = TokenWriter(path, vocab_size=10, end_id=0)
        writer.add("train", [TokenDocument(doc_id, "en", "doc", 3, [1, 2]) for doc_id in self.training])
        writer.add("heldout", [TokenDocument("h", "en", "doc", 3, [1, 2])])
        writer.close(num_documents_set_aside=0)


def write_corpus(path: Path, texts: dict[str, str]) -> None:
    writer = CorpusWriter(path)
    for doc_id, text in texts.items():
        writer.write(Document(doc_id, text, "s", "MIT", "en", "doc"))
    writer.close()


def write_instructions(path: Path) -> None:
    turns = (Turn(role="user", content="?"), Turn(role="assistant", content="!"))
    check = Check(kind="exact", answer="!")
    items = [
        Instruction(id=f"item{i}", task="t", lang="en", phase=0, messages=turns, doc_id=f"doc{i}", check=check)
        for i in range(NUM)
    ]
    write_records(path / "heldout.jsonl", items)


@pytest.fixture
def contest(tmp_path: Path) -> Contest:
    return Contest(tmp_path)


def test_equal_quality_is_undecided_and_the_same_model_is_unchanged(contest: Contest):
    assert contest.decide().verdict == "undecided"
    contest.challenger = CHAMPION
    assert contest.decide().verdict == "unchanged"


def test_a_challenger_with_fewer_bits_wins_and_its_card_says_why(contest: Contest):
    contest.bits["challenger"] = [value - 1 - i % 3 for i, value in enumerate(contest.bits["champion"])]
    decision = contest.decide()
    assert (decision.verdict, decision.reason) == (
        "won", "Significantly better: bits_per_byte; nothing significantly worse.",
    )  # fmt: skip
    assert contest.card.startswith("# The challenger\n\n## Champion and challenger") and "**won**" in contest.card
    total_bytes = sum(len(f"frozen text {i}") for i in range(NUM))
    assert contest.logged["challenge/bits_per_byte/champion"] == pytest.approx(
        sum(contest.bits["champion"]) / total_bytes
    )
    assert contest.logged["challenge/won"] == 1


def test_one_significant_loss_outweighs_a_gain(contest: Contest):
    contest.bits["challenger"] = [value - 5 - i % 3 for i, value in enumerate(contest.bits["champion"])]
    contest.right["challenger"] = [int(i % 2 and i > 20) for i in range(NUM)]
    decision = contest.decide()
    assert (decision.verdict, decision.reason) == ("lost", "Significantly worse: instruction_accuracy.")


def test_a_better_model_that_failed_a_gate_does_not_win(contest: Contest):
    contest.bits["challenger"] = [value - 5 - i % 3 for i, value in enumerate(contest.bits["champion"])]
    contest.failed_gates = ["int4_cost failed: too dear"]
    assert contest.decide().verdict == "gates_failed"


def test_what_the_challenger_was_trained_on_does_not_count_for_it(contest: Contest):
    """It knows the first half by heart: by id, and by text under another id. On the rest it is worse."""
    contest.bits["challenger"] = [
        value - 90 if i < 30 else value + 1 + i % 3 for i, value in enumerate(contest.bits["champion"])
    ]
    assert contest.decide().verdict == "won"
    contest.training = {f"doc{i}": "changed" for i in range(15)} | {
        f"copy{i}": f"frozen text {i}" for i in range(15, 30)
    }
    decision = contest.decide()
    assert decision.verdict == "lost"
    assert (decision.num_documents_left_out, decision.num_instructions_left_out) == (30, 30)
    assert [one.num_items for one in decision.comparisons] == [30, 30]


def test_a_challenger_that_has_seen_everything_is_refused(contest: Contest):
    contest.training = {f"copy{i}": f"frozen text {i}" for i in range(NUM)}
    with pytest.raises(BadSpecError, match="want documents and instructions that the challenger has not seen, got 0"):
        contest.decide()


def test_other_items_and_other_models_are_not_compared(contest: Contest):
    contest.bits["challenger"] = contest.bits["challenger"][:-1]
    with pytest.raises(BadSpecError, match=r"want the same items of document_bits .* got 60 and 59"):
        contest.decide()
    inputs = Contest(contest.root / "other")._inputs()
    swapped = Contenders(champion=inputs.evaluations.challenger, challenger=inputs.evaluations.champion)
    ctx = StageContext(LocalStore(contest.root / "other/store"), contest.root / "w", declared_metrics=STAGE.metrics)
    with pytest.raises(
        BadSpecError, match=r"evaluations\.champion: want the evaluation of model:aaaaaaaaaaaa, got that"
    ):
        STAGE.run(ChallengeConfig(), inputs.model_copy(update={"evaluations": swapped}), ctx)
