"""Gates beside the same dataflow without gates: what they save, and how wrong the outputs are in the meantime."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from tracetypes.bounds import parts_of
from tracetypes.check import Checked
from tracetypes.compiler.gates.taps import Feed, Tap, Tapped, markers_of, outputs_of
from tracetypes.errors import UsageError
from tracetypes.impacts import Variation, relative_error, variation
from tracetypes.learned_gates import Learned
from tracetypes.nodes import Gate, Sink

__all__ = ["ShadowReport", "compare_gates"]


@attrs.frozen
class ShadowReport:
    """A gate, or a sink. ``markers``: that came to the gate (to a sink: without gates). ``executions``: markers that it let
    through (that came to the sink). ``errors``: at each marker, of the output of the step behind it against the same without gates.
    ``bound``: of the error, where the gate has one."""

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
