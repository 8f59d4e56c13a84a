"""Measure one model on held-out data: base, SFT, PPO, INT8 and INT4 alike, with the same metric names.

Artifact: `evaluation.json` holds every metric, which model it is of, and the digests of tokenizer and chat template
(figures made with another template are not comparable); `items.json` holds each item's answer, verdict and reward;
`samples.json` the first few prompts of each task with their answers, where a benchmark asked for answers.
Speed is a metric only: it never enters the artifact.
"""

import hashlib
from pathlib import Path

from pydantic import Field, PositiveInt

from infra.artifacts import Evaluation, Instructions, Model, QuantizedModel, RewardModel, Tokens
from infra.errors import BadSpecError
from stages.benchmarks import AnyBenchmark
from stages.benchmarks.infilling import InfillingAccuracy
from stages.benchmarks.instructions import InstructionAccuracy
from stages.benchmarks.perplexity import Perplexity
from stages.benchmarks.reward import MeanReward
from stages.contract import Headline, Stage, StageContext, StageModel
from stages.evaluation_file import EvaluatedModel, EvaluationFile, write_evaluation
from stages.samples import Samples, choose
from stages.subject import Subject

TOKENIZER_NAME, TEMPLATE_NAME = "tokenizer.json", "chat_template.jinja"


class EvaluateConfig(StageModel):
    """What is measured, and on how much."""

    benchmarks: tuple[AnyBenchmark, ...] = Field(
        default=(Perplexity(), InfillingAccuracy(), InstructionAccuracy(), MeanReward()),
        min_length=1,
        description="what is measured, in this order",
    )
    max_items_per_task: int = Field(
        default=40, ge=1, description="held-out instructions asked, of each task and language"
    )
    max_items_of: dict[str, PositiveInt] = Field(
        default={"language/en": 210, "language/zh": 210, "library/en": 210, "sentiment/zh": 210},
        description="other limits for some `task/lang`: with 200 items a task can count at the release gate",
    )
    max_new_tokens: int = Field(default=20, ge=1, description="longest answer, tokens")
    batch_size: int = Field(default=64, ge=1, description="answers generated at once")
    samples_per_task: int = Field(default=2, ge=0, description="answers kept to be read, of each task and language")


class EvaluateInputs(StageModel):
    """One model, and what it is measured on."""

    model: Model | QuantizedModel = Field(discriminator="kind")
    tokens: Tokens
    instructions: Instructions
    reward_model: RewardModel | None = None


class EvaluateOutputs(StageModel):
    """What comes out."""

    evaluation: Evaluation


def run(config: EvaluateConfig, inputs: EvaluateInputs, ctx: StageContext) -> EvaluateOutputs:
    """Every benchmark in turn, then the artifact."""
    directory = ctx.store.get(inputs.model)
    subject = _subject(config, inputs, ctx)
    metrics: dict[str, float] = {}
    items: dict[str, dict[str, float | str]] = {}
    for benchmark in config.benchmarks:
        found = benchmark.measure(subject)
        metrics |= found.metrics
        items |= found.items
        for name, value in found.metrics.items():
            ctx.log_metric(name, value)
    samples: Samples = ()
    if subject.generation_s > 0:
        samples = choose(subject.judged, config.samples_per_task)
        num_tokens = sum(one.num_tokens for one in subject.judged)
        ctx.log_metric("eval/tokens_per_s", num_tokens / subject.generation_s)
    about = EvaluationFile(
        model=inputs.model.digest,
        kind=inputs.model.kind,
        reward_model=inputs.reward_model.digest if inputs.reward_model else None,
        tokenizer_sha256=_sha256(directory / TOKENIZER_NAME),
        template_sha256=_sha256(directory / TEMPLATE_NAME),
        metrics=metrics,
    )
    target = ctx.scratch / "evaluation"
    write_evaluation(target, EvaluatedModel(about, items, samples))
    return EvaluateOutputs(evaluation=ctx.store.put(target, Evaluation))


def _subject(config: EvaluateConfig, inputs: EvaluateInputs, ctx: StageContext) -> Subject:
    from models.export import load_model, load_reward_model
    from models.tokenizer import ChatTemplate, load_tokenizer

    directory = ctx.store.get(inputs.model)
    reward_model = None
    if inputs.reward_model is not None:
        reward_dir = ctx.store.get(inputs.reward_model)
        if _sha256(reward_dir / TOKENIZER_NAME) != _sha256(directory / TOKENIZER_NAME):
            raise BadSpecError(
                f"{inputs.reward_model.short}: want the tokenizer of {inputs.model.short}, got another one; "
                "train the reward model on this model"
            )
        reward_model = load_reward_model(reward_dir)
    return Subject(
        model=load_model(directory),
        template=ChatTemplate(load_tokenizer(directory)),
        tokens_dir=ctx.store.get(inputs.tokens),
        instructions_dir=ctx.store.get(inputs.instructions),
        reward_model=reward_model,
        max_items_per_task=config.max_items_per_task,
        max_items_of=config.max_items_of,
        max_new_tokens=config.max_new_tokens,
        batch_size=config.batch_size,
        progress=ctx.progress,
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


STAGE = Stage(
    name="evaluate",
    config=EvaluateConfig,
    inputs=EvaluateInputs,
    outputs=EvaluateOutputs,
    run=run,
    metrics=("eval/*",),
    headline=Headline("instruction accuracy", after="eval/instruction_accuracy"),
)
