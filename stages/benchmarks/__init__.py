"""Benchmarks. To add one: write `stages/benchmarks/<kind>.py`, then list its kind here."""

from typing import TYPE_CHECKING

from stages.benchmarks.base import Benchmark
from stages.plugins import plugin_union

BENCHMARK_KINDS = ("perplexity", "infilling", "instructions", "reward")

if TYPE_CHECKING:
    AnyBenchmark = Benchmark
else:
    AnyBenchmark = plugin_union(__name__, BENCHMARK_KINDS, Benchmark)
