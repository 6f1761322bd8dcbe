"""How this backend runs a plan, in words, for ``explain``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from tracetypes.compiler.connectors.registry import reading, writing
from tracetypes.compiler.local.placement import may_start
from tracetypes.compiler.plan.plan import Plan, Step
from tracetypes.compiler.runtime.machine_hint import machine_hint
from tracetypes.nodes import Sink, Source

__all__ = ["LocalWording"]


@attrs.frozen
class LocalWording:
    """Lines of ``explain``. ``inputs``: the inputs of sources, by name, as far as they are known."""

    inputs: Mapping[str, object] = attrs.Factory(dict)

    def source(self, source: Source) -> Iterable[tuple[str, str]]:
        """Who finds and reads the rows of a source."""
        return reading(source, self.inputs.get(source.name), files="Python")

    def channel(self) -> Iterable[tuple[str, str]]:
        """Who finds and reads the rows of a channel."""
        yield "Python", "find what another segment has committed: rows, and the markers that close their blocks"
        yield "Arrow", "read columns of Parquet"

    def exchange(self) -> str:
        """How messages reach their shards."""
        return "items and markers in Arrow batches, scheduled by batch"

    def sink(self, sink: Sink) -> Iterable[tuple[str, str]]:
        """Who writes the rows of a sink."""
        return writing(sink)

    def faster(self, step: Step) -> str | None:
        """What would have an operator run in machine code."""
        return machine_hint(step.ordered)

    def python(self, plan: Plan) -> str | None:
        """In worker processes, if a run would do so."""
        return "in worker processes, when that pays" if may_start(plan, "auto") else None
