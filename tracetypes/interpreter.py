"""The definition of what a graph means (data-trace-types, sections 4 and 5): slow, obvious, and no backend.

Every edge is labelled with a data trace, in topological order. Where the compiler has split an edge into channels, the
label is a nested tuple of traces, one a channel. Operators run their template's sequential algorithm on one of the
sequences that a trace stands for; the templates guarantee that it does not matter which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, TypeAlias, assert_never

import attrs

from tracetypes.arrangement import (
    Arranged,
    Stream,
    arrange_rows,
    merge_channels,
    streams_of,
)
from tracetypes.canonical import canonical, stable_hash
from tracetypes.check import Checked
from tracetypes.containers import gated, no_outside
from tracetypes.elements import Piece, elements, mark, pieces
from tracetypes.errors import OperatorFailed
from tracetypes.marker_runs import MarkerRuns
from tracetypes.markers import EventTime, Marker, Markers
from tracetypes.nodes import (
    Apply,
    Fused,
    Gate,
    Gather,
    Merge,
    Node,
    Receive,
    Restore,
    Sink,
    Sort,
    Source,
    Split,
    title,
)
from tracetypes.operator_calls import (
    Emitter,
    operator_failure,
    run_ordered,
    run_stateless,
    run_unordered,
)
from tracetypes.records import Schema, show
from tracetypes.silence import (
    NO_SILENCE,
    Need,
    Silence,
    Step,
    cut,
    emitted_in,
    linger_of,
    markers_in,
    needs,
    periods_in,
    split_at,
    unrolled,
)
from tracetypes.sort_keys import NoSortKey, sort_key
from tracetypes.templates import OpKeyedOrdered, OpKeyedUnordered, OpStateless, as_operator
from tracetypes.trace import Element, Item, Trace, stretches

__all__ = ["SinkTrace", "interpret", "interpret_rows", "interpret_segment", "item_order", "sort_order"]


Channels: TypeAlias = "Stream | tuple[Channels, ...]"

OutsideOf: TypeAlias = Callable[[str, int, str], float]
"""What gates see of a machine: by the title of the gate, the marker (microseconds) and what it asks for."""


def _unseen(gate: str, marker: int, name: str) -> float:
    return no_outside(marker, name)


# ------------------------------------------------------------------------------------------------- graphs


def interpret_rows(
    checked: Checked, rows: Mapping[str, Sequence[Any]], *, drain: bool = True, outside: OutsideOf = _unseen
) -> tuple[dict[str, Trace[Element]], dict[str, Arranged]]:
    """The traces at the sinks for the rows that come in at the sources, and what each source made of its rows.

    ``rows``: for each source its values in order of arrival; pairs ``(key, value)`` where the rows have a key column. Raises
    :class:`UsageError` ``TT402`` for a row that is no pair there.
    """
    arranged = arrange_rows(checked, rows, drain=drain)
    return interpret(checked, streams_of(arranged), complete=drain, outside=outside), arranged


def interpret(
    checked: Checked, inputs: Mapping[str, Sequence[Element]], *, complete: bool = True, outside: OutsideOf = _unseen
) -> dict[str, Trace[Element]]:
    """The trace at each sink, for a stream at each source (by name; of a source's late items and rejects by
    :func:`~tracetypes.nodes.label`).

    ``complete``: the sources have ended. Then a merge need not wait for markers of an input that will never come, and behind a
    stream of a source with event time whose last element is a marker there is silence (:mod:`.silence`). ``outside``: what gates
    see of a machine.
    """
    sent = interpret_segment(checked, inputs, {}, {}, complete=complete, outside=outside)
    return {name: output.trace for name, output in sent.items()}


@attrs.frozen
class SinkTrace:
    """What comes to a sink: its trace, and the silence behind it that the readers of a channel need."""

    trace: Trace[Element]
    silence: Silence


def interpret_segment(
    checked: Checked,
    inputs: Mapping[str, Sequence[Element]],
    silences: Mapping[str, Silence],
    beyond: Mapping[str, Need],
    *,
    complete: bool,
    outside: OutsideOf = _unseen,
) -> dict[str, SinkTrace]:
    """:func:`interpret` for a part of a graph. ``silences``: behind what comes by channels; ``beyond``: what the readers of what
    goes into channels need."""
    return _Interpreter(checked, inputs, silences, beyond, complete, outside).run()


class _Interpreter:
    def __init__(
        self,
        checked: Checked,
        inputs: Mapping[str, Sequence[Element]],
        silences: Mapping[str, Silence],
        beyond: Mapping[str, Need],
        complete: bool,
        outside: OutsideOf,
    ) -> None:
        self.outside = outside
        self.checked, self.inputs, self.complete, self.beyond = checked, inputs, complete, beyond
        self.received = silences
        self.steps = unrolled(checked.graph)
        periods = {*periods_in(self.steps), *(one.step for silence in silences.values() for one in silence)}
        self.needs = needs(self.steps, periods, beyond)
        self.ordered = _orders_read(self.steps, checked)
        self.sent: dict[str, SinkTrace] = {}

    def run(self) -> dict[str, SinkTrace]:
        labels: dict[int, Channels] = {}
        silences: dict[int, Silence] = {}
        for node, inputs in self.steps:
            silences_here = [cut(silences[i], self.needs.edge(i, node.id)) for i in inputs]
            labels[node.id], silences[node.id] = self.step(node, [labels[i] for i in inputs], silences_here)
        return self.sent

    def step(self, node: Node, inputs: list[Channels], silences: list[Silence]) -> tuple[Channels, Silence]:
        """The label of a node, and the silence behind it."""
        match node:
            case Source(markers=markers):
                stream = self.stream(node, node.label)
                need = self.needs.out.get(node.id, {})
                return stream, self.behind(stream, markers, need) if self.complete else NO_SILENCE
            case Receive(name=name):
                return self.stream(node, name), self.received.get(name, NO_SILENCE)
            case Merge():
                return self.merge(node, inputs, silences)
            case _:
                (channels,), (silence,) = inputs, silences
                return self.behind_one(node, channels, silence)

    def behind_one(
        self, node: Sink | Apply | Sort | Gate | Restore | Split | Gather | Fused, channels: Channels, silence: Silence
    ) -> tuple[Channels, Silence]:
        """:meth:`step` for a node that reads one stream."""
        match node:
            case Sink():
                assert isinstance(channels, list), "a sink reads one channel"
                trace: Trace[Element] = Trace(self.checked.streams[node.id], elements(channels))
                self.sent[node.name] = SinkTrace(trace, cut(silence, self.beyond.get(node.name, {})))
                return channels, NO_SILENCE
            case Apply():
                return self.apply(node, channels, silence)
            case Sort():
                value = self.checked.streams[node.id].value
                return _each(lambda channel: _sort(node, channel, value), channels), silence
            case Gate():
                assert isinstance(channels, list), "a gate reads one channel"
                value = self.checked.streams[node.id].value
                order, outside = item_order(node, value), partial(self.outside, title(node))
                return list(gated(node, channels, value, order, complete=self.complete, outside=outside)), silence
            case Restore():
                return channels, silence
            case Split():
                hashed = stable_hash(self.checked.streams[node.id].key)
                return _each_split(lambda channel: _split(node, channel, hashed), channels), silence
            case Gather():
                # The channels of one edge have the same markers: none waits for another.
                assert isinstance(channels, tuple)
                return _merge_all(list(channels), True, None), silence
            case Fused():
                raise TypeError("fused chains are taken apart")
            case _:
                assert_never(node)

    def stream(self, node: Node, label: str) -> Stream:
        """What comes in by that name."""
        return list(pieces(Trace(self.checked.streams[node.id], self.inputs.get(label, ())).items))

    def behind(self, stream: Stream, markers: Markers, need: Need) -> Silence:
        """The silence behind the stream of a source that has ended."""
        if not isinstance(markers, EventTime) or not stream or isinstance(stream[-1], Item):
            return NO_SILENCE
        period = markers.period
        first = _last_of(stream[-1]) + period
        return cut((range(first, first + need.get(period, 0) * period, period),), need)

    def apply(self, node: Apply, channels: Channels, silence: Silence) -> tuple[Channels, Silence]:
        """Run an operator, also at the markers of the silence that it lingers for."""
        last = emitted_in(silence, linger_of(node))
        lingering, rest = (NO_SILENCE, silence) if last is None else split_at(silence, last)
        counter = [0]

        def run(channel: Stream) -> Stream:
            counter[0] += 1
            return _apply(self.checked, node, channel, emits_at_markers=counter[0] == 1)

        return _each(run, _followed_by(channels, lingering)), rest

    def merge(self, node: Merge, inputs: list[Channels], silences: list[Silence]) -> tuple[Channels, Silence]:
        """MRG, up to where the last input has ended. What is left of silences goes on behind it."""
        ends = [end for channels in inputs if (end := _end_of(channels)) is not None]
        halves = [split_at(silence, max(ends)) if ends else (NO_SILENCE, NO_SILENCE) for silence in silences]
        up_to_there = [_followed_by(channels, before) for channels, (before, _) in zip(inputs, halves, strict=True)]
        rest = dict.fromkeys(one for _, after in halves for one in after)
        return _merge_all(up_to_there, self.complete, node if node.id in self.ordered else None), tuple(rest)


def _followed_by(channels: Channels, silence: Silence) -> Channels:
    """With the markers of a silence behind each channel."""
    if not silence:
        return channels
    behind: Stream = []
    mark(behind, markers_in(silence))
    return _each(lambda channel: [*channel, *behind], channels)


def _end_of(channels: Channels) -> int | None:
    """The last marker. All channels of an edge have the same ones."""
    while isinstance(channels, tuple):
        channels = channels[0]
    return next((_last_of(one) for one in reversed(channels) if not isinstance(one, Item)), None)


def _last_of(markers: Marker | MarkerRuns) -> int:
    """A marker, or the last one of a pause, in microseconds."""
    return markers.micros if isinstance(markers, Marker) else markers[-1]


def _orders_read(steps: Sequence[Step], checked: Checked) -> set[int]:
    """The nodes whose output is ordered, and read by somebody who looks at the order."""
    read: set[int] = set()
    for step, inputs in reversed(steps):
        looks = isinstance(step, Sink | Restore) or (isinstance(step, Apply) and isinstance(step.op, OpKeyedOrdered))
        if isinstance(step, Gate):
            looks = step.latest_by is None and (step.latest or step.bound.needs_latest)
        if looks or (isinstance(step, Merge | Split | Gather | Gate) and step.id in read):
            read.update(inputs)
    return {id for id in read if checked.types[id].ordered}


def _each(function: Callable[[Stream], Stream], channels: Channels) -> Channels:
    if isinstance(channels, tuple):
        return tuple(_each(function, channel) for channel in channels)
    return function(channels)


def _each_split(function: Callable[[Stream], tuple[Channels, ...]], channels: Channels) -> Channels:
    if isinstance(channels, tuple):
        return tuple(_each_split(function, channel) for channel in channels)
    return function(channels)


def _split(node: Split, channel: Iterable[Piece[Element]], hashed: Callable[[Any], int]) -> tuple[Channels, ...]:
    ways: list[Stream] = [[] for _ in range(node.ways)]
    turn = 0
    for item in channel:
        if not isinstance(item, Item):
            for way in ways:
                way.append(item)
        elif node.how == "RR":
            ways[turn % node.ways].append(item)
            turn += 1
        else:
            ways[hashed(item.key) % node.ways].append(item)
    return tuple(ways)


def _merge_all(inputs: Sequence[Channels], complete: bool, ordered: Merge | None) -> Channels:
    if any(isinstance(one, tuple) for one in inputs):
        assert all(isinstance(one, tuple) for one in inputs), "some inputs of a merge are split, others are not"
        columns = zip(*[one for one in inputs if isinstance(one, tuple)], strict=True)
        return tuple(_merge_all(list(column), complete, ordered) for column in columns)
    return merge_channels([list(one) for one in inputs], complete, ordered)  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------- operators


def _sort(node: Sort, channel: Iterable[Piece[Element]], value: Schema) -> Stream:
    order = sort_order(node, value)
    out: Stream = []
    for block in stretches(channel):
        if isinstance(block, MarkerRuns):
            out.append(block)
            continue
        by_key: dict[Any, list[tuple[Any, Item]]] = {}
        for item in block.items:
            by_key.setdefault(item.key, []).append((order(item.value), item))
        for items in by_key.values():
            items.sort(key=itemgetter(0))
            out.extend(item for _, item in items)
        if block.marker is not None:
            out.append(block.marker)
    return out


def sort_order(node: Sort | Gate, value: Schema) -> Callable[[Any], Any]:
    """The total order of a SORT, or of a gate's ``latest_by``: by the author's key, then by the canonical order of the value."""
    whole, by, word = canonical(value), node.by if isinstance(node, Sort) else node.latest_by, _word(node)
    assert by is not None

    def order(item: Any) -> Any:
        try:
            key = by(item)
        except OperatorFailed:
            raise
        except Exception as error:
            raise operator_failure(node, word, f"item {show(item)}", error) from error
        try:
            return sort_key(key), whole(item)
        except NoSortKey as error:
            raise OperatorFailed(
                "TT204",
                f"{title(node)} at {node.where}: {word} gave {show(key)} for {show(item)}: {error}",
                fix=f"let {word} return numbers other than NaN, texts, bytes, times, days, or tuples of these",
            ) from None

    return order


def item_order(node: Gate, value: Schema) -> Callable[[Sequence[Item]], Sequence[Item]]:
    """Puts the items of a block in front of a gate in order, as far as the gate looks at it."""
    if node.latest_by is None:
        return list
    order = sort_order(node, value)
    return lambda items: sorted(items, key=lambda item: order(item.value))


def _word(node: Sort | Gate) -> str:
    return "by" if isinstance(node, Sort) else "latest_by"


def _apply(checked: Checked, node: Apply, channel: Iterable[Piece[Element]], *, emits_at_markers: bool) -> Stream:
    emitter = Emitter(node.op, checked.streams[node.id])
    match op := as_operator(node.op):
        case OpStateless():
            run_stateless(op, channel, emitter, emits_at_markers=emits_at_markers)
        case OpKeyedOrdered():
            run_ordered(op, channel, emitter)
        case OpKeyedUnordered():
            run_unordered(op, channel, emitter)
    emitter.judge()
    return emitter.out


