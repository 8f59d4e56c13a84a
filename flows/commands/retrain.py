"""`glmflow retrain`: train a challenger from changed documents; it replaces the champion only if it is better."""

import argparse
import json
import sys
from contextlib import closing
from typing import TYPE_CHECKING

from flows.console import open_console, page
from flows.prefect_api import PrefectApi
from flows.recipes import RECIPES
from flows.stop import StopSwitch
from infra.decisions import DecisionRow
from infra.errors import StopRequestedError
from infra.lineage import Lineage
from infra.settings import Settings, go_offline, read_settings
from infra.stores.opening import open_store

if TYPE_CHECKING:
    from flows.retraining import Retraining
    from flows.session import Session

EXIT_DONE, EXIT_STOPPED = 0, 143


def run(args: argparse.Namespace) -> int:
    """Retrain and print the decision; returns the exit code. Keeping the champion is no failure."""
    go_offline()
    settings, stop = read_settings(), StopSwitch()
    with stop.listening(), closing(PrefectApi(settings)) as api:
        from prefect.exceptions import TerminationSignal  # after the API's settings are in the environment

        try:
            row = _retrain(args, settings, api, stop)
        except (KeyboardInterrupt, TerminationSignal, StopRequestedError):
            sys.stderr.write("glmflow: stopped; `glmflow retrain` with the same arguments goes on from there\n")
            return EXIT_STOPPED
    _show(row, is_json=args.json)
    return EXIT_DONE


def _retrain(args: argparse.Namespace, settings: Settings, api: PrefectApi, stop: StopSwitch) -> DecisionRow:
    from flows.retraining import Retraining, RetrainRequest
    from flows.run import LifecycleRun
    from flows.source_manifest import read_sources

    store, lineage = open_store(settings), Lineage(settings.resolved_lineage_url())
    sources = read_sources(args.input, settings, store)
    request = RetrainRequest(
        args.recipe,
        RECIPES[args.recipe]().changed(args.settings),
        args.seed,
        dict(text.split("=", 1) for text in args.settings),
        args.asked_at_s,
        accepts_drift=args.accept_drift,
        is_forced=args.force,
        freezes_again=args.freeze_again,
    )
    retraining = Retraining(request, sources, settings, store, lineage)
    settled = retraining.settled()
    if settled is not None:
        return settled
    console = open_console(is_json=args.json, shows_log=args.verbose)
    with closing(console):
        run = LifecycleRun(
            retraining.run_request, settings, api, stop, course=lambda session: _as_flow(retraining, session)
        )
        return retraining.conclude(run.run(sources, store, lineage, console))


def _as_flow(retraining: "Retraining", session: "Session") -> None:
    """The course as a flow of Prefect's, as a deployed retraining is one."""
    from prefect import flow

    flow(name="retrain", persist_result=False)(lambda: retraining.course(session))()


def _show(row: DecisionRow, *, is_json: bool) -> None:
    if is_json:
        fields = ("outcome", "reason", "champion", "challenger", "sources", "lifecycle_id", "decision")
        sys.stdout.write(json.dumps({name: getattr(row, name) for name in fields}, indent=2) + "\n")
        return
    from rich.markdown import Markdown

    from flows.decision_page import decision_page

    page().print(Markdown(decision_page(row)))
