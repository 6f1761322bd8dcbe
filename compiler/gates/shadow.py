"""What gates save and what it costs: a dataflow with its gates beside the same one with all of them open.

```python
report = shadow(flow, {"readings": rows})
print(report)                                  # a line for each gate and sink
report["zones"].errors                         # at each marker
report.figures("figures")                      # needs tracetypes[plots]
```
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import attrs

from tracetypes.check import Checked
from tracetypes.compiler.gates.learned.flows import learned_gates, steps_of
from tracetypes.compiler.gates.learned.steps import Change, needed_steps
from tracetypes.compiler.gates.reports import Decisions, ShadowReport, behind_first, pearson, table
from tracetypes.compiler.gates.taps import Feed, Tap, Tapped, markers_of, outputs_of
from tracetypes.errors import UsageError
from tracetypes.impacts import Variation, relative_error, variation
from tracetypes.learned_gates import Learned
from tracetypes.nodes import Gate, Graph, Sink
from tracetypes.trace import Element

__all__ = ["Shadow", "ShadowReport", "compare_gates", "need_gates", "need_plots", "sweep_figures"]

N = TypeVar("N", int, float)


@attrs.frozen
class Shadow:
    """The reports of gates and sinks, and the ``times`` of the markers, in microseconds. As a string it is a table."""

    reports: tuple[ShadowReport, ...]
    times: tuple[int, ...] = ()

    def __getitem__(self, name: str) -> ShadowReport:
        for one in self.reports:
            if one.name == name:
                return one
        raise KeyError(f"there is no report of {name!r}; there are {', '.join(one.name for one in self.reports)}")

    def __iter__(self) -> Iterator[ShadowReport]:
        return iter(self.reports)

    def __str__(self) -> str:
        return table(self.reports)

    def json(self) -> str:
        """The reports as JSON, with all values at each marker. Times are in microseconds."""
        return json.dumps({"markers": self.times, "reports": [one.plain() for one in self.reports]}, allow_nan=False)

    def figures(self, directory: str | Path) -> list[Path]:
        """Draw pictures into a directory, which need not be there, and return their paths: ``errors.png`` (measured errors, and
        violations of bounds), ``executions.png`` (accumulated, with and without gates), and with learned gates
        ``confidence.png``, ``decisions.png`` (against what was needed), ``deviations.png`` (of predicted errors) and
        ``impacts.png`` (against errors).

        Raises :class:`UsageError` ``TT401`` without matplotlib, and ``TT402`` if the directory cannot be written.
        """
        need_plots()
        from tracetypes.compiler.gates.figures import draw

        with _directory(directory) as place:
            return draw(self.reports, place)


def sweep_figures(shadows: Mapping[N, Shadow], directory: str | Path, *, label: str = "bound") -> list[Path]:
    """Draw what several bounds of a dataflow come to: ``executions_by_bound.png``, in percent of those without gates, and
    ``errors_by_bound.png`` (Flux, figures 8, 9, 14, 15, 17, 18). ``shadows``: by bound. ``label``: of the bound, for the axis.

    Raises :class:`UsageError` ``TT401`` without matplotlib, and ``TT402`` without a shadow, without a gate in all of them,
    or if the directory cannot be written.
    """
    need_plots()
    if not shadows:
        raise UsageError("TT402", "there is no shadow to draw", fix="give {20: shadow(...), 40: shadow(...)}")
    if not set.intersection(*({report.name for report in one if not report.is_sink} for one in shadows.values())):
        raise UsageError("TT402", "the shadows have no gate in common", fix="give shadows of one dataflow with several bounds")
    from tracetypes.compiler.gates.figures import draw_sweep

    with _directory(directory) as place:
        return draw_sweep({float(bound): one.reports for bound, one in shadows.items()}, place, label)


def need_plots() -> None:
    """Raise :class:`UsageError` ``TT401`` without matplotlib."""
    try:
        import tracetypes.compiler.gates.figures  # noqa: F401
    except ModuleNotFoundError as error:
        fix = "pip install 'tracetypes[plots]'"
        raise UsageError("TT401", f"pictures need matplotlib, which is not here ({error})", fix=fix) from None


@contextmanager
def _directory(directory: str | Path) -> Iterator[Path]:
    """A directory that is there. Raises :class:`UsageError` ``TT402``."""
    place = Path(directory)
    try:
        place.mkdir(parents=True, exist_ok=True)
        yield place
    except OSError as error:
        text = f"pictures cannot be written to {place}: {error.strerror or error}"
        raise UsageError("TT402", text, fix="give a directory that can be written") from None


# ----------------------------------------------------------------------------------------------------- comparing


@attrs.frozen(eq=False)
class _Place:
    """A gate or a sink. ``entry`` and ``exit``: the taps before and behind it. ``outputs``: those whose containers are compared,
    by ``function``. ``learned``: its bound, if that is learned."""

    name: str
    entry: str
    exit: str
    outputs: Sequence[str]
    function: Variation[float, Any]
    learned: Learned | None = None


class _Learning:
    """What a learned gate looks at, from marker to marker. ``impacts`` and ``stale``: as in :class:`Decisions`."""

    def __init__(self, bound: Learned, tap: str) -> None:
        self.bound, self.tap = bound, tap
        self.impact = Change(bound.impact, accumulates=bound.accumulates)
        self.error = Change(bound.variation, accumulates=bound.accumulates)
        self.impacts: list[float] = []
        self.stale: list[float] = []

    def see(self, gated: Mapping[str, Feed], correct: Mapping[Any, float]) -> None:
        """Before the gate decides. ``correct``: the container of its outputs without gates."""
        self.impacts.append(self.impact.see(_joined(gated, [self.tap])))
        self.stale.append(self.error.see(correct))

    def ran(self) -> None:
        """It let a marker through."""
        self.impact.reset()
        self.error.reset()


def need_gates(graph: Graph) -> dict[int, Gate]:
    """The gates of a graph, by number. Raises :class:`UsageError` ``TT121`` if there is none."""
    gates = {node.id: node for node in graph.nodes if isinstance(node, Gate)}
    if not gates:
        fix = "put one in front of a step: stream.latest(sequence(percent=20))"
        raise UsageError("TT121", "the dataflow has no gate", fix=fix)
    return gates


def compare_gates(
    checked: Checked,
    streams: Mapping[str, Sequence[Element]],
    error: Variation[float, Any] | None = None,
    *,
    complete: bool = True,
) -> Shadow:
    """A report of each gate and each sink. ``streams`` and ``complete``: as of :func:`tracetypes.interpret`, which runs them
    twice. ``error``: of gates that name none, and of sinks; None: :func:`tracetypes.impacts.relative_error`. Raises
    :class:`UsageError` ``TT121`` without a gate, and ``TT402`` for one that looks at the load of the machine."""
    graph = checked.graph
    gates, bounds = need_gates(graph), learned_gates(graph)
    places = _places_of(graph, gates, bounds, error or relative_error())
    learning = {bound.name: _Learning(bound, f"{id_}.impact") for id_, bound in bounds.items()}
    taps = _taps(graph, gates, bounds)
    gated = Tapped(checked, taps).run(streams, complete=complete)
    ungated = Tapped(checked, taps, gates).run(streams, complete=complete)
    steps, times = steps_of(graph, bounds), list[int]()
    errors: list[list[float]] = [[] for _ in places]
    needed: list[set[str]] = []
    for marker in markers_of(ungated):  # a gate adds no marker
        times.append(marker)
        for feed in gated.values():
            feed.take(marker)
        for one, own in zip(places, errors, strict=True):
            correct = _joined(ungated, one.outputs)
            own.append(variation(one.function, correct, _joined(gated, one.outputs)))
            if one.learned is not None:
                learning[one.learned.name].see(gated, correct)
        needed.append(needed_steps(steps, {name: one.stale[-1] for name, one in learning.items()}))
        for one in places:
            if one.learned is not None and marker in gated[one.exit].blocks:
                learning[one.learned.name].ran()
    reports = (
        _report(one, times, gated, ungated, tuple(own), needed, learning) for one, own in zip(places, errors, strict=True)
    )
    return Shadow(tuple(reports), tuple(times))


def _places_of(
    graph: Graph, gates: Mapping[int, Gate], bounds: Mapping[int, Learned], default: Variation[float, Any]
) -> list[_Place]:
    """All gates and sinks, with names of their own."""
    all_: list[_Place] = []
    for number, (id_, gate) in enumerate(gates.items()):
        bound = bounds.get(id_)
        name = gate.name or (f"gate {number}" if bound is None else bound.name)
        outputs = [f"{id_}.out.{one}" for one in outputs_of(graph, gate)]
        function = default if bound is None else bound.variation
        all_.append(_Place(name, f"{id_}.in", f"{id_}.through", outputs, function, bound))
    for node in graph.nodes:
        if isinstance(node, Sink):
            tap = f"{node.id}.sink"
            all_.append(_Place(f"sink {node.name}", tap, tap, [tap], default))
    return all_


def _taps(graph: Graph, gates: Mapping[int, Gate], bounds: Mapping[int, Learned]) -> list[Tap]:
    """What is looked at."""
    taps = [Tap(f"{id_}.in", gate.inputs[0]) for id_, gate in gates.items()]
    taps += [Tap(f"{id_}.through", id_) for id_ in gates]
    taps += [Tap(f"{id_}.out.{one}", one) for id_, gate in gates.items() for one in outputs_of(graph, gate)]
    taps += [Tap(f"{id_}.impact", gates[id_].inputs[0], one.columns, one.rows) for id_, one in bounds.items()]
    return taps + [Tap(f"{node.id}.sink", node.inputs[0]) for node in graph.nodes if isinstance(node, Sink)]


def _report(
    one: _Place,
    times: Sequence[int],
    gated: Mapping[str, Feed],
    ungated: Mapping[str, Feed],
    errors: tuple[float, ...],
    needed: Sequence[set[str]],
    learning: Mapping[str, _Learning],
) -> ShadowReport:
    """``needed``: the steps that had to run, at each marker."""
    without, came, ran = (
        tuple(time in feeds[tap].blocks for time in times)
        for feeds, tap in ((ungated, one.entry), (gated, one.entry), (gated, one.exit))
    )
    if one.learned is None:
        return ShadowReport(one.name, without, came, ran, errors, is_sink=one.entry == one.exit)
    own = learning[one.learned.name]
    had = tuple(here and own.bound.name in steps for here, steps in zip(came, needed, strict=True))
    later = behind_first(ran)
    decisions = Decisions(tuple(own.impacts), tuple(own.stale), had, pearson(own.impacts[later], own.stale[later]))
    return ShadowReport(one.name, without, came, ran, errors, own.bound.error, decisions)


def _joined(feeds: Mapping[str, Feed], names: Sequence[str]) -> dict[Any, float]:
    """Several containers as one."""
    return {(name, *at): number for name in names for at, number in feeds[name].values.items()}
