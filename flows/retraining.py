"""Retraining: new documents in, a challenger trained, the champion replaced only by one that beats it.

Nothing is run when the sources are those of the champion, or were decided on before. Else the data stages come first; a
corpus far from the champion's stops the run for a person. The rest of the recipe trains the challenger, which is
registered as candidate only; both models are evaluated on the same frozen held-out sets, and stage `challenge` decides.
What is finished already is read back, so a stopped retraining costs nothing twice.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from prefect.artifacts import create_markdown_artifact

from flows.champion import Champion, FrozenSets, find_champion, frozen_sets
from flows.decision_page import drift_page
from flows.launch import StageResult
from flows.lifecycle import from_outside, run_steps
from flows.live_check import MAX_QUESTIONS, LiveCheck, Question
from flows.promotion import Promotion, promote_winner
from flows.recipes import Recipe
from flows.retraining_plan import CHALLENGE, DRIFT, EVALUATION_OF_CHALLENGER, data_steps, outside, training_steps
from flows.run import RunRequest
from flows.session import Session
from flows.summary import Summary
from infra.artifacts import ArtifactRef, SourceManifest
from infra.decisions import SETTLED, DecisionRow, Outcome, decisions, save_decision
from infra.errors import BadSpecError, RetryableError
from infra.lineage import Lineage, now
from infra.registry import open_registry
from infra.settings import Settings
from infra.stores.base import Store
from stages.decision_file import DecisionFile, read_decision
from stages.drift import read_measures
from stages.evaluation_file import read_evaluation


@dataclass(frozen=True)
class RetrainRequest:
    """What is to be retrained, and how."""

    recipe_name: str
    recipe: Recipe
    seed: int
    params: Mapping[str, str]
    asked_at_s: float
    tags: Mapping[str, str] = field(default_factory=dict)
    accepts_drift: bool = False
    is_forced: bool = False  # train although nothing is new
    freezes_again: bool = False  # compare on the present champion's held-out sets from now on


class Retraining:
    """One retraining: `settled` or else a lifecycle run of `run_request` over `course`, then `conclude`."""

    def __init__(
        self, request: RetrainRequest, sources: SourceManifest, settings: Settings, store: Store, lineage: Lineage
    ) -> None:
        self.request = request
        self.sources = sources
        self._settings = settings
        self._store = store
        self._lineage = lineage
        self._champion: Champion | None = find_champion(settings, lineage)
        self._frozen: FrozenSets | None = None
        if self._champion is not None:
            self._frozen = frozen_sets(self._champion, lineage, freezes_again=request.freezes_again)
        self._data = data_steps(request.recipe, self._champion)
        self._training = training_steps(request.recipe, self._frozen)
        self._results: list[StageResult] = []

    def settled(self) -> DecisionRow | None:
        """The decision that nothing has to be run, or None."""
        if self.request.is_forced:
            return None
        digest = self.sources.digest
        if self._champion is not None and self._champion.sources == digest:
            reason = f"The documents are those of the champion {self._champion.model.short}."
            return self._save("nothing_new", reason)
        for row in decisions(self._lineage):
            if row.sources == digest and row.recipe == self.request.recipe_name and row.outcome in SETTLED:
                return self._save("nothing_new", f"These documents were decided on before, {row.decided_at:%Y-%m-%d}.")
        return None

    @property
    def run_request(self) -> RunRequest:
        """The lifecycle run that trains the challenger; it promotes nothing."""
        request, steps = self.request, (*self._data, *self._training)
        return RunRequest(
            request.recipe_name, request.seed, steps, dict(request.params), request.asked_at_s, request.tags, False
        )

    def course(self, session: Session) -> None:
        """The data stages, the look at the corpus, and the rest. Raises BadSpecError for a corpus that changed."""
        self._results = session.results
        made = from_outside(session) | outside(self._champion, self._frozen)
        run_steps(session, self._data, made, self.request.seed)
        if self._champion is not None:
            self._check_drift(session, ArtifactRef.model_validate(made[DRIFT]["drift"]))
        run_steps(session, self._training, made, self.request.seed)

    def _check_drift(self, session: Session, drift: ArtifactRef) -> None:
        measures = read_measures(self._store.get(drift))
        create_markdown_artifact(drift_page(measures), key="drift", description=session.lifecycle_id)
        far = [f"{one.name} {one.value:.3g} (limit {one.limit:.3g})" for one in measures if one.is_exceeded]
        if not far or self.request.accepts_drift:
            return
        self._save("drifted", f"The corpus changed: {', '.join(far)}.", session.lifecycle_id)
        raise BadSpecError(
            f"corpus {drift.short}: want one near the champion's, got {', '.join(far)}; look at what changed (`glmflow "
            f"explain {drift.short}`), then correct the documents, or retrain with --accept-drift (accept_drift)"
        )

    def conclude(self, summary: Summary) -> DecisionRow:
        """Decide, promote or not, and write it down. Raises RetryableError while the release is not registered."""
        if summary.notes:
            raise RetryableError(f"retraining: want its release registered, got {summary.notes[0]}; retrain again")
        release = self._record("release")
        challenger = ArtifactRef.model_validate(release.record.inputs["model"])
        decision = self._decision()
        verdict, reason = self._verdict(decision, summary)
        promotion = Promotion("kept", reason)
        if verdict == "won":
            promotion = self._promote(challenger, reason)
        row = self._save(promotion.outcome, promotion.reason, summary.lifecycle, challenger, decision)
        text = f"{promotion.outcome}: {promotion.reason}\n\n{decision.markdown() if decision else ''}"
        tags = {"glmflow.decision": promotion.outcome, "glmflow.verdict": verdict}
        open_registry(self._settings).describe(challenger.digest, text, tags)
        return row

    def _verdict(self, decision: DecisionFile | None, summary: Summary) -> tuple[str, str]:
        if decision is not None:
            return decision.verdict, decision.reason
        if summary.gates_passed:
            return "won", "There was no champion, and it passed its gates."
        return "gates_failed", f"There is no champion, and it failed gates: {'; '.join(summary.failed_gates)}."

    def _promote(self, challenger: ArtifactRef, reason: str) -> Promotion:
        check = self._live_check()
        done = promote_winner(
            challenger,
            self._champion.model if self._champion else None,
            open_registry(self._settings),
            self._lineage,
            lambda: check.problem(self._store.get(challenger), self._settings),
        )
        return Promotion(done.outcome, f"{reason} {done.reason}")

    def _live_check(self) -> LiveCheck:
        """The first questions of the evaluation, with the answers that it recorded."""
        from stages.records import Instruction, read_records

        label = EVALUATION_OF_CHALLENGER if self._champion else "evaluate_ppo"
        record = self._record(label).record
        evaluated = read_evaluation(self._store.get(ArtifactRef.model_validate(record.outputs["evaluation"])))
        instructions = self._store.get(ArtifactRef.model_validate(record.inputs["instructions"]))
        prompts = {item.id: item.prompt for item in read_records(instructions / "heldout.jsonl", Instruction)}
        answers = sorted(evaluated.items["answer"].items())[:MAX_QUESTIONS]
        questions = [Question(prompts[item], str(answer)) for item, answer in answers]
        return LiveCheck(questions, self.request.recipe.evaluate.max_new_tokens)

    def _decision(self) -> DecisionFile | None:
        if self._champion is None:
            return None
        record = self._record(CHALLENGE).record
        return read_decision(self._store.get(ArtifactRef.model_validate(record.outputs["decision"])))

    def _record(self, label: str) -> StageResult:
        return next(result for result in self._results if result.label == label)

    def _save(
        self,
        outcome: Outcome,
        reason: str,
        lifecycle_id: str = "",
        challenger: ArtifactRef | None = None,
        decision: DecisionFile | None = None,
    ) -> DecisionRow:
        row = DecisionRow(
            decided_at=now(),
            lifecycle_id=lifecycle_id,
            recipe=self.request.recipe_name,
            sources=self.sources.digest,
            champion=self._champion.model.digest if self._champion else "",
            challenger=challenger.digest if challenger else "",
            outcome=outcome,
            reason=reason,
            decision=decision.model_dump(mode="json") if decision else {},
            frozen=self._frozen.as_json() if self._frozen and decision else {},
        )
        save_decision(self._lineage, row)
        return row
