"""`glmflow run`: a whole lifecycle. The Prefect API starts while this process still reads the sources."""

import argparse
import signal
import sys
from contextlib import closing

from flows.console import open_console, page
from flows.plan import Step, until
from flows.prefect_api import PrefectApi
from flows.recipes import RECIPES
from flows.stop import StopSwitch
from flows.summary import Summary, print_summary
from infra.errors import StopRequestedError
from infra.lineage import Lineage
from infra.settings import Settings, go_offline, read_settings
from infra.stores.opening import open_store

EXIT_DONE, EXIT_INTERRUPTED, EXIT_STOPPED = 0, 130, 143


def run(args: argparse.Namespace) -> int:
    """Run the recipe and print the summary; returns the exit code."""
    go_offline()
    settings, stop = read_settings(), StopSwitch()
    recipe = RECIPES[args.recipe]().changed(args.settings)
    steps = until(recipe.steps(), args.until)
    with stop.listening(), closing(PrefectApi(settings)) as api:
        from prefect.exceptions import TerminationSignal  # after the API's settings are in the environment

        try:
            summary = _run(args, steps, settings, api, stop)
        except (KeyboardInterrupt, TerminationSignal, StopRequestedError):
            return _say_stopped(args, stop)
    _show(summary, is_json=args.json)
    return EXIT_DONE


def _run(
    args: argparse.Namespace, steps: tuple[Step, ...], settings: Settings, api: PrefectApi, stop: StopSwitch
) -> Summary:
    from flows.run import LifecycleRun, RunRequest
    from flows.source_manifest import read_sources

    store = open_store(settings)
    sources = read_sources(args.input, settings, store)
    lineage = Lineage(settings.resolved_lineage_url())
    params = dict(text.split("=", 1) for text in args.settings)
    request = RunRequest(args.recipe, args.seed, steps, params, args.asked_at_s)
    console = open_console(is_json=args.json, shows_log=args.verbose)
    with closing(console):
        return LifecycleRun(request, settings, api, stop).run(sources, store, lineage, console)


def _show(summary: Summary, *, is_json: bool) -> None:
    if is_json:
        sys.stdout.write(summary.model_dump_json(indent=2) + "\n")
    else:
        print_summary(summary, page())


def _say_stopped(args: argparse.Namespace, stop: StopSwitch) -> int:
    sys.stderr.write(f"glmflow: stopped; `glmflow run {args.recipe}` with the same arguments goes on from there\n")
    return EXIT_INTERRUPTED if stop.signal in (None, signal.SIGINT) else EXIT_STOPPED
