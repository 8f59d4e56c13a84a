"""A stage of a few lines with a known answer, for tests of the contract."""

from typing import Literal

from pydantic import Field

from infra.artifacts import RawCorpus, SourceManifest
from stages.contract import Headline, Stage, StageContext, StageModel


class ToyConfig(StageModel):
    text: str = Field(default="hello", description="what to write")
    behaviour: Literal["write", "raise", "wait", "log_undeclared"] = Field(default="write", description="what to do")


class ToyInputs(StageModel):
    sources: SourceManifest | None = None


class ToyOutputs(StageModel):
    corpus: RawCorpus


def run(config: ToyConfig, inputs: ToyInputs, ctx: StageContext) -> ToyOutputs:
    if config.behaviour == "raise":
        raise RuntimeError("the disk is on fire")
    if config.behaviour == "log_undeclared":
        ctx.log_metric("toy/undeclared", 1)
    for step in range(3):
        ctx.log_metric("toy/count", step, step)
    if config.behaviour == "wait":
        while True:
            ctx.check_stop()
    out = ctx.scratch / "corpus"
    out.mkdir()
    (out / "text").write_text(config.text)
    return ToyOutputs(corpus=ctx.store.put(out, RawCorpus))


STAGE = Stage(
    name="ingest",  # borrows the name of a real module, whose code enters the key
    config=ToyConfig,
    inputs=ToyInputs,
    outputs=ToyOutputs,
    run=run,
    metrics=("toy/count",),
    headline=Headline("count", after="toy/count"),
)
