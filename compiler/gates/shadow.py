"""What gates save and what it costs: a dataflow with its gates beside the same one with all of them open.

```python
report = shadow(flow, {"readings": rows})
print(report)                                  # a line for each gate and sink
report["zones"].errors                         # at each marker
```
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from tracetypes.bounds import parts_of
from tracetypes.check import Checked, check
from tracetypes.compiler.gates.taps import Feed, Tap, Tapped, markers_of, outputs_of
from tracetypes.errors import UsageError
from tracetypes.graph import Dataflow
from tracetypes.impacts import Variation, relative_error, variation
from tracetypes.learned_gates import Learned
from tracetypes.nodes import Gate, Sink

__all__ = ["Shadow", "ShadowReport", "compare_gates", "shadow"]


@attrs.frozen
class ShadowReport:
    """A gate, or a sink. ``markers``: that came to the gate (to a sink: without gates). ``executions``: markers that it let
    through (that came to the sink). ``errors``: at each marker, of the output of the step behind it against the same without
    gates. ``bound``: of the error, where the gate has one."""

    name: str
    markers: int
    executions: int
    errors: tuple[float, ...]
    bound: float | None = None

    @property
    def saved(self) -> float:
        """The share of executions that were saved."""
        return 1 - self.executions / self.markers if self.markers else 0.0

    @property
    def mean(self) -> float:
        """The mean error."""
        return math.fsum(self.errors) / len(self.errors) if self.errors else 0.0

    @property
    def largest(self) -> float:
        """The largest error."""
        return max(self.errors, default=0.0)

    @property
    def violations(self) -> tuple[float, ...]:
        """By how much the error was above its bound, at the markers where it was."""
        return () if self.bound is None else tuple(one - self.bound for one in self.errors if one > self.bound)

    @property
    def confidences(self) -> tuple[float, ...]:
        """After each marker the share of markers so far at which the error was within the bound."""
        if self.bound is None:
            return ()
        right = 0
        shares = []
        for number, one in enumerate(self.errors, 1):
            right += one <= self.bound
            shares.append(right / number)
        return tuple(shares)


@attrs.frozen
class Shadow:
    """The reports of gates and sinks. As a string it is a table."""

    reports: tuple[ShadowReport, ...]

    def __getitem__(self, name: str) -> ShadowReport:
        return next(one for one in self.reports if one.name == name)

    def __iter__(self) -> Iterator[ShadowReport]:
        return iter(self.reports)

    def __str__(self) -> str:
        lines = [("", "markers", "executions", "saved", "mean error", "largest", "bound", "confidence")]
        for one in self.reports:
            within = "" if one.bound is None else f"{100 * one.confidences[-1]:.1f} %" if one.errors else ""
            lines.append(
                (
                    one.name,
                    f"{one.markers:,}",
                    f"{one.executions:,}",
                    f"{100 * one.saved:.1f} %",
                    f"{one.mean:.4f}",
                    f"{one.largest:.4f}",
                    "" if one.bound is None else f"{one.bound:g}",
                    within,
                )
            )
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(
                cell.rjust(width) if column else cell.ljust(width)
                for column, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        )

    def json(self) -> str:
        """The same as JSON, with the error at each marker."""
        return json.dumps([{**attrs.asdict(one), "saved": one.saved, "violations": one.violations} for one in self.reports])


def shadow(flow: Dataflow, inputs: Mapping[str, Sequence[Any]], *, error: Variation[float, Any] | None = None) -> Shadow:
    """Run a dataflow with its gates, and with all gates open, and compare the containers of all outputs at each marker.

    ``inputs``: the values of each source, in order of arrival; pairs of key and value where rows have a key. The interpreter runs
    them, so give it a part of the data. ``error``: how errors are measured where no ``learned`` gate says it, by default
    :func:`tracetypes.impacts.relative_error`. Raises :class:`UsageError` ``TT121`` for a dataflow without gates.
    """
    return Shadow(tuple(compare_gates(check(flow), inputs, error)))


def compare_gates(
    checked: Checked, rows: Mapping[str, Sequence[Any]], error: Variation[float, Any] | None = None
) -> list[ShadowReport]:
    """A report of each gate and each sink. ``rows``: of the sources, by name; the interpreter runs them twice. ``error``: of
    gates that name none, and of sinks; None: :func:`tracetypes.impacts.relative_error`."""
    graph = checked.graph
    gates = {node.id: node for node in graph.nodes if isinstance(node, Gate)}
    if not gates:
        fix = "put one in front of a step: stream.latest(sequence(percent=20))"
        raise UsageError("TT121", "the dataflow has no gate", fix=fix)
    sinks = [node for node in graph.nodes if isinstance(node, Sink)]
    taps = [Tap(f"{id_}.in", gate.inputs[0]) for id_, gate in gates.items()]
    taps += [Tap(f"{id_}.through", id_) for id_ in gates]
    taps += [Tap(f"{id_}.out.{one}", one) for id_, gate in gates.items() for one in outputs_of(graph, gate)]
    taps += [Tap(f"{sink.id}.sink", sink.inputs[0]) for sink in sinks]
    gated, ungated = Tapped(checked, taps).run(rows), Tapped(checked, taps, gates).run(rows)
    names: dict[int, tuple[str, list[str], float | None, Variation[float, Any]]] = {}
    default = error or relative_error()
    for number, (id_, gate) in enumerate(gates.items()):
        learns = next((one for one in parts_of(gate.bound) if isinstance(one, Learned)), None)
        name = gate.name or (f"gate {number}" if learns is None else learns.name)
        outputs = [tap.name for tap in taps if tap.name.startswith(f"{id_}.out.")]
        names[id_] = name, outputs, None if learns is None else learns.error, default if learns is None else learns.variation
    for sink in sinks:
        names[sink.id] = f"sink {sink.name}", [f"{sink.id}.sink"], None, default
    errors: dict[int, list[float]] = {id_: [] for id_ in names}
    for marker in markers_of(ungated):  # a gate adds no marker
        for feed in gated.values():
            feed.take(marker)
        for id_, (_, outputs, _, function) in names.items():
            errors[id_].append(variation(function, _joined(ungated, outputs), _joined(gated, outputs)))
    return [
        ShadowReport(
            name,
            len((gated[f"{id_}.in"] if id_ in gates else ungated[f"{id_}.sink"]).blocks),
            len(gated[f"{id_}.through" if id_ in gates else f"{id_}.sink"].blocks),
            tuple(errors[id_]),
            bound,
        )
        for id_, (name, _, bound, _) in names.items()
    ]


def _joined(feeds: Mapping[str, Feed], names: Sequence[str]) -> dict[Any, float]:
    """Several containers as one."""
    return {(name, *at): number for name in names for at, number in feeds[name].values.items()}
