"""Judge a model against its gates and write its card. Registering it is the lifecycle's task, if the gates passed.

Artifact: `README.md` (the model card), `gates.json` (every verdict with its reason in words), `metrics.json` (every
figure of every model), `samples.json` (what each model says to the same prompts, as an MLflow table). A failed gate
makes a release too, one that says `passed: false`. No dates and no times: the same inputs give the same bytes.
"""

import json
from pathlib import Path
from typing import Any

from pydantic import Field

from infra.artifacts import (
    DedupedCorpus,
    Evaluation,
    Instructions,
    Model,
    QuantizedModel,
    Release,
    RewardModel,
    Tokens,
)
from infra.errors import BadSpecError
from stages.card_facts import WEIGHTS_NAME
from stages.contract import Headline, Stage, StageContext, StageModel
from stages.evaluation_file import EVALUATION_NAME, EvaluatedModel, read_evaluation, write_json
from stages.evidence import Evidence, RewardModelQuality, agreement
from stages.gates import AnyGates
from stages.gates.alignment import AlignmentGates
from stages.gates.base import Gate
from stages.gates.learning import LearningGates
from stages.gates.quantization import QuantizationGates
from stages.gates.size import SizeGates
from stages.samples import SAMPLES_NAME, side_by_side

CARD_NAME, GATES_NAME, METRICS_NAME = "README.md", "gates.json", "metrics.json"


class ReleaseConfig(StageModel):
    """What a model has to show."""

    gates: tuple[AnyGates, ...] = Field(
        default=(LearningGates(), AlignmentGates(), QuantizationGates(), SizeGates()),
        min_length=1,
        description="families of gates with their limits, in the order in which they judge",
    )


class Evaluations(StageModel):
    """The evaluations that are compared."""

    base: Evaluation
    sft: Evaluation
    ppo: Evaluation
    int8: Evaluation
    int4: Evaluation


class ReleaseInputs(StageModel):
    """The models to deliver, and what the card tells about them."""

    model: Model
    int8: QuantizedModel
    int4: QuantizedModel
    reward_model: RewardModel
    corpus: DedupedCorpus
    tokens: Tokens
    instructions: Instructions
    evaluations: Evaluations


class ReleaseOutputs(StageModel):
    """What comes out."""

    release: Release


def run(config: ReleaseConfig, inputs: ReleaseInputs, ctx: StageContext) -> ReleaseOutputs:
    """Judge, then write the card."""
    models = {
        name: read_evaluation(ctx.store.get(getattr(inputs.evaluations, name))) for name in Evaluations.model_fields
    }
    _check_subjects(inputs, models)
    reward_model = _reward_model_quality(ctx.store.get(inputs.reward_model))
    evidence = Evidence(models, reward_model, _weight_bytes(inputs, ctx))
    gates = tuple(gate for family in config.gates for gate in family.judge(evidence))
    passed = all(gate.passed for gate in gates)
    target = ctx.scratch / "release"
    target.mkdir()
    write_json(target / GATES_NAME, _gates_json(passed, gates))
    figures: dict[str, Any] = {name: model.about.metrics for name, model in models.items()}
    figures["reward_model"] = reward_model.model_dump()
    write_json(target / METRICS_NAME, figures)
    write_json(target / SAMPLES_NAME, side_by_side({name: model.samples for name, model in models.items()}))
    (target / CARD_NAME).write_text(_card(inputs, ctx, models, gates), encoding="utf-8")
    _log(ctx, passed, gates, models)
    return ReleaseOutputs(release=ctx.store.put(target, Release))


def _check_subjects(inputs: ReleaseInputs, models: dict[str, EvaluatedModel]) -> None:
    """The evaluations must be of the very models that are released."""
    for name, ref in (("ppo", inputs.model), ("int8", inputs.int8), ("int4", inputs.int4)):
        evaluated = models[name].about
        if (evaluated.kind, evaluated.model) != (ref.kind, ref.digest):
            raise BadSpecError(
                f"evaluations.{name}: want the evaluation of {ref.short}, got that of "
                f"{evaluated.kind}:{evaluated.model[:12]}; evaluate the model that is released"
            )


def _weight_bytes(inputs: ReleaseInputs, ctx: StageContext) -> dict[str, int]:
    refs = {"ppo": inputs.model, "int8": inputs.int8, "int4": inputs.int4}
    return {name: (ctx.store.get(ref) / WEIGHTS_NAME).stat().st_size for name, ref in refs.items()}


def _reward_model_quality(directory: Path) -> RewardModelQuality:
    path = directory / EVALUATION_NAME
    try:
        return RewardModelQuality.model_validate_json(path.read_bytes())
    except (OSError, ValueError) as error:
        raise BadSpecError(f"reward model: want {path.name} with its held-out accuracy, got {error}") from error


def _gates_json(passed: bool, gates: tuple[Gate, ...]) -> dict[str, Any]:
    verdicts = [gate.model_dump() | {"passed": gate.passed, "reason": gate.reason} for gate in gates]
    return {"passed": passed, "reasons": [gate.reason for gate in gates if not gate.passed], "gates": verdicts}


def _card(inputs: ReleaseInputs, ctx: StageContext, models: dict[str, EvaluatedModel], gates: tuple[Gate, ...]) -> str:
    from stages.card_facts import count_by_task, data_facts, model_facts
    from stages.model_card import render_card

    refs = {"full precision": inputs.model, "INT8": inputs.int8, "INT4": inputs.int4}
    train_path = ctx.store.get(inputs.instructions) / "train.jsonl"
    with train_path.open(encoding="utf-8") as lines:
        instructions = count_by_task(lines)
    facts = [model_facts(name, ctx.store.get(ref), ref.digest, ref.num_bytes) for name, ref in refs.items()]
    manifest = json.loads((ctx.store.get(inputs.tokens) / "manifest.json").read_text(encoding="utf-8"))
    return render_card(
        passed=all(gate.passed for gate in gates),
        models=facts,
        data=data_facts(ctx.store.get(inputs.corpus)),
        tokens=manifest,
        instructions=instructions,
        evaluations=models,
        gates=gates,
    )


def _log(ctx: StageContext, passed: bool, gates: tuple[Gate, ...], models: dict[str, EvaluatedModel]) -> None:
    ctx.log_metric("release/passed", passed)
    ctx.log_metric("release/gates_failed", sum(not gate.passed for gate in gates))
    for gate in gates:
        ctx.log_metric(f"release/gate_passed/{gate.name}", gate.passed)
        ctx.log_metric(f"release/gate_value/{gate.name}", gate.value)
        ctx.log_metric(f"release/gate_threshold/{gate.name}", gate.threshold)
        ctx.log_metric(f"release/gate_is_maximum/{gate.name}", gate.bound == "at most")
        ctx.log(gate.reason)
    for name in ("int8", "int4"):
        ctx.log_metric(f"release/agreement/{name}", agreement(models["ppo"], models[name]))


STAGE = Stage(
    name="release",
    config=ReleaseConfig,
    inputs=ReleaseInputs,
    outputs=ReleaseOutputs,
    run=run,
    metrics=(
        "release/passed",
        "release/gates_failed",
        "release/gate_passed/*",
        "release/gate_value/*",
        "release/gate_threshold/*",
        "release/gate_is_maximum/*",
        "release/agreement/*",
    ),
    headline=Headline("gates failed", after="release/gates_failed", higher_is_better=False),
)
