"""Runs of plans and programs in a Spark session, or on another backend: for tests and benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import SparkSession

from tracetypes.compiler.backend import run as on_backend
from tracetypes.compiler.backend.backend import Backend
from tracetypes.compiler.backend.run_options import Places, RunOptions
from tracetypes.compiler.backend.summary import Summary
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.plan.program import Program
from tracetypes.compiler.spark.backend import SparkBackend
from tracetypes.compiler.store.metrics import Batch
from tracetypes.compiler.store.outputs import MemoryOutput

__all__ = ["Batch", "collect", "run", "run_program"]


def run_program(
    spark: SparkSession | Backend,
    program: Program,
    places: Places,
    *,
    on_batch: Callable[[Batch], None] | None = None,
    notify: Callable[[str], None] | None = None,
    **options: Any,
) -> Summary:
    """Run a program, see :func:`.backend.run.run_program`. ``options``: of :class:`RunOptions`."""
    return on_backend.run_program(
        _backend(spark), program, places, RunOptions(**options), on_batch=on_batch, notify=notify
    )


def run(spark: SparkSession | Backend, plan: Plan, inputs: Mapping[str, Any], output: Any, **options: Any) -> Summary:
    """Run a plan, see :func:`.backend.run.run`."""
    return on_backend.run(_backend(spark), plan, inputs, output, **options)


def collect(spark: SparkSession | Backend, plan: Plan, inputs: Mapping[str, Any], **options: Any) -> MemoryOutput:
    """Run a plan with a temporary checkpoint and return its answer."""
    return on_backend.collect(_backend(spark), plan, inputs, **options)


def _backend(spark: SparkSession | Backend) -> Backend:
    return SparkBackend(spark) if isinstance(spark, SparkSession) else spark
