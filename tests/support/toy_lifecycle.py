"""A lifecycle of launched stages (tests/support/launched_stage.py), ready to be run for real."""

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from flows import lifecycle, run, stage_flows, summary
from flows.console import PlainConsole
from flows.plan import Step
from flows.prefect_api import PrefectApi
from flows.run import LifecycleRun, RunRequest
from flows.stop import StopSwitch
from infra.artifacts import SourceManifest
from infra.lineage import Lineage
from infra.settings import Settings
from infra.stores.local import LocalStore
from tests.support import launched_stage
from tests.support.launched_stage import Behaviour, LaunchedConfig


def steps(*behaviours: Behaviour) -> tuple[Step, ...]:
    """One stage a behaviour; each reads the sources."""
    return tuple(
        Step(
            f"{number}_{name}",
            "ingest",
            LaunchedConfig(behaviour=name, text=str(number)),
            {"sources": "sources.manifest"},
        )
        for number, name in enumerate(behaviours)
    )


class StoppingConsole(PlainConsole):
    """Sends this process a SIGTERM when a stage says that it waits."""

    def line(self, text: str) -> None:
        if text == "waits":
            os.kill(os.getpid(), signal.SIGTERM)


class ToyLifecycle:
    """Everything around a plan, as `glmflow run` puts it together."""

    def __init__(self, home: Path) -> None:
        self.settings = Settings(home=home)
        self.store = LocalStore(self.settings.store_dir)
        self.lineage = Lineage(self.settings.resolved_lineage_url())
        self.stop = StopSwitch()
        self.printed = (home / "printed.txt").open("w+")

    def run(self, plan: Sequence[Step], api: PrefectApi) -> summary.Summary:
        source = self.settings.root / "source"
        source.mkdir(exist_ok=True)
        (source / "sources.json").write_text('{"sources": []}')
        request = RunRequest("toy", 0, plan, {}, time.monotonic())
        sources = self.store.put(source, SourceManifest)
        return LifecycleRun(request, self.settings, api, self.stop, launched_stage.COMMAND).run(
            sources, self.store, self.lineage, StoppingConsole(self.printed)
        )

    def said(self) -> str:
        self.printed.seek(0)
        return self.printed.read()


def install() -> None:
    """Make the flows of this process find launched stages."""
    launched_stage.install(lifecycle, stage_flows, summary, run)
    stage_flows.stage_flow.cache_clear()
