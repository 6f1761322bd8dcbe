"""The definition of what a graph means (data-trace-types, sections 4 and 5): slow, obvious, and no backend.

Every edge is labelled with a data trace, in topological order. Where the compiler has split an edge into channels, the
label is a nested tuple of traces, one a channel. Operators run their template's sequential algorithm on one of the
sequences that a trace stands for; the templates guarantee that it does not matter which.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, Final, TypeAlias, assert_never

import attrs

from tracetypes.blame import blamed, calls_in
from tracetypes.canonical import canonical, stable_hash
from tracetypes.check import Checked
from tracetypes.clocks import Clock, OtherSender, Verdict
from tracetypes.conformance import conformer, key_conformer, key_problem, name_of
from tracetypes.containers import gated, no_outside
from tracetypes.elements import Piece, elements, mark, pieces
from tracetypes.errors import LawBroken, OperatorFailed, UsageError, raised_at
from tracetypes.formats import Layout, ProgramLines
from tracetypes.marker_runs import NO_MARKERS, MarkerRuns, runs_of
from tracetypes.markers import EventTime, Marker, Markers
from tracetypes.nodes import (
    Apply,
    Fused,
    Gate,
    Gather,
    Merge,
    Node,
    Output,
    Receive,
    Restore,
    RowPosition,
    Sink,
    Sort,
    Source,
    Split,
    label,
    title,
)
from tracetypes.parsing import Row, line_of_dict, text_parser
from tracetypes.pauses import catch_up, start_after
from tracetypes.plain_values import indistinguishable
from tracetypes.records import UNIT, Mismatch, Schema, show
from tracetypes.rejects import Rejected
from tracetypes.self_description import SelfDescribing, name_of_operator
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
from tracetypes.sources import reader
from tracetypes.state_check import NO_KEY, aggregates_of, ran, states_of
from tracetypes.templates import OpKeyedOrdered, OpKeyedUnordered, OpStateless, as_operator, overrides
from tracetypes.trace import Element, Item, StreamType, Trace, stretches

__all__ = [
    "Arranged",
    "SinkTrace",
    "arrange",
    "arrange_parts",
    "arrange_rows",
    "interpret",
    "interpret_rows",
    "interpret_segment",
    "streams_of",
    "woven",
]

Stream: TypeAlias = list[Piece[Element]]
"""The elements of a stream, with long pauses as one piece."""

Channels: TypeAlias = "Stream | tuple[Channels, ...]"

OutsideOf: TypeAlias = Callable[[str, int, str], float]
"""What gates see of a machine: by the title of the gate, the marker (microseconds) and what it asks for."""


def _unseen(gate: str, marker: int, name: str) -> float:
    return no_outside(marker, name)


# ------------------------------------------------------------------------------------------------- sources


@attrs.frozen
class Late:
    """An item whose block was closed when it came. Times in microseconds."""

    key: Any
    value: Any
    block: int
    frontier: int

    @property
    def reason(self) -> str:
        """For the late output."""
        return f"its block ended at {Marker(self.block)}, and {Marker(self.frontier)} was already sent"


@attrs.frozen
class Arranged:
    """A source's stream, and what is not in it. ``rejects``: position of the row and reason. ``side_outputs``: the streams of
    late items and of rejects."""

    items: Sequence[Element]
    late: tuple[Late, ...]
    rejects: tuple[tuple[int, str], ...]
    side_outputs: Mapping[Output, Sequence[Element]]

    def streams(self, name: str) -> dict[str, Sequence[Element]]:
        """All streams of the source of that name, for :func:`interpret`."""
        return {name: self.items, **{label(name, output): stream for output, stream in self.side_outputs.items()}}


def arrange(source: Source, rows: Iterable[Row], *, drain: bool) -> Arranged:
    """The stream that a source sends for rows in their order of arrival: items, and markers as the source says.

    With ``drain`` the source ends: one final marker closes what is open. A marker among the rows of a source with event
    time is a heartbeat: an empty block that ends there, behind which nothing earlier follows.

    Late items and rejects are streams with the same markers. Each belongs to the first block that is not closed by the rows
    before it. Where the source ends and that block is still open, a final marker of their own closes it.
    """
    placed: list[tuple[int, int, Row]] = []
    late: list[Late] = []
    rejects: list[tuple[int, str]] = []
    side_outputs: dict[Output, list[tuple[int | None, Item]]] = {"late": [], "rejects": []}
    markers: list[int] = []
    runs = NO_MARKERS
    beats: list[int] = []
    how = source.markers
    clock: Clock[tuple[int, Row]] | None = None
    if isinstance(how, EventTime):
        clock = Clock(how, isinstance(source.ordered_by, RowPosition))

    def open_block() -> int | None:
        if clock is None:
            return len(markers)
        return None if clock.closed is None else clock.closed + clock.how.period

    def reject(at: int, text: str, reason: str) -> None:
        rejects.append((at, reason))
        side_outputs["rejects"].append((open_block(), Item(UNIT, Rejected.of(source.name, text, reason))))

    def decide(verdicts: Iterable[Verdict[tuple[int, Row]]]) -> None:
        for verdict in verdicts:
            at, row = verdict.row
            if verdict.reason:
                reject(at, row.text, verdict.reason)
            elif verdict.closed is not None:
                late.append(Late(row.key, row.value, verdict.block, verdict.closed))
                side_outputs["late"].append((open_block(), Item(row.key, row.value)))
            else:
                placed.append((verdict.block, at, row))

    for at, row in enumerate(rows):
        if row.kind == "reject":
            reject(at, row.text, row.reason)
        elif clock is not None and row.kind == "marker":
            verdicts, end = clock.beat(row.time)
            decide(verdicts)
            beats.extend(() if end is None else (end,))
        elif clock is not None:
            try:
                decide(clock.take(row.time, row.device, (at, row), row.key))
            except OtherSender as error:
                raise overlapping(source, error.key, "senders") from None
        elif row.kind == "marker":
            if markers and row.time <= markers[-1]:
                reject(at, str(row.time), f"marker {Marker(row.time)} does not lie after {Marker(markers[-1])}")
            else:
                markers.append(row.time)
        else:
            placed.append((len(markers), at, row))
    if clock is not None and isinstance(how, EventTime):
        if drain:
            decide(clock.end())
        times = sorted({*beats, *(b for b, _, _ in placed)})
        if clock.closed is not None and times:
            first, last = times[0], times[-1] if drain else clock.closed
            runs = MarkerRuns((range(first, last + 1, how.period),))
        streams = {output: _aside_by_time(how, aside, runs, times, drain) for output, aside in side_outputs.items()}
    else:
        open_, final = len(markers), markers[-1] + 1 if markers else 0
        ends = dict(enumerate(markers)) | ({open_: final} if drain else {})
        in_open = any(b == open_ for b, _, _ in placed)
        placed = [(ends.get(b, b + 2**63), at, row) for b, at, row in placed]
        streams = {}
        for output, aside in side_outputs.items():
            ended = drain and (in_open or any(b == open_ for b, _ in aside))
            blocks_ = [(ends.get(b or 0, 2**63), item) for b, item in aside]
            streams[output] = woven(blocks_, runs_of([*markers, final] if ended else markers))
        runs = runs_of([*markers, final] if drain and in_open else markers)
    placed.sort(key=_order_of(source))
    items = woven([(block, Item(row.key, row.value)) for block, _, row in placed], runs)
    return Arranged(items, tuple(late), tuple(rejects), streams)


def first_open(how: EventTime, newest: int | None) -> int | None:
    """The end of the first block that is not closed once an item of time ``newest`` was seen; None before the first item."""
    return None if newest is None else how.frontier(newest) + how.period


def _aside_by_time(
    how: EventTime, items: list[tuple[int | None, Item]], markers: MarkerRuns, times: list[int], drain: bool
) -> Sequence[Element]:
    """The stream of late items, or of rejects, with the first open block of each. ``times``: the blocks of the source."""
    first = times[0] if times else 0
    placed = [(first if block is None else max(block, first), item) for block, item in items]
    last = max((block for block, _ in placed), default=None)
    if drain and last is not None:
        last = max(last, markers[-1]) if markers else last
        markers = MarkerRuns((range(first, last + 1, how.period),))
    return woven(placed, markers)


def woven(placed: Iterable[tuple[int, Item]], markers: MarkerRuns) -> Sequence[Element]:
    """Items in the order of their blocks, and markers where the blocks end."""
    items: dict[int | None, list[Item]] = {}
    for block, item in placed:
        items.setdefault(block if not markers or block <= markers[-1] else None, []).append(item)
    return elements(_united(items, markers))


def _united(items: Mapping[int | None, list[Item]], markers: MarkerRuns) -> Stream:
    """Items by the end of their block (None: it is open) among the markers of a stream."""
    stream: Stream = []
    rest = markers
    for end in sorted(end for end in items if end is not None and items[end]):
        mark(stream, rest.up_to(end - 1))
        stream.extend(items[end])
        if end in markers:
            stream.append(Marker(end))
        rest = rest.after(end)
    mark(stream, rest)
    stream.extend(items.get(None, ()))
    return stream


def arrange_parts(source: Source, parts: Sequence[Iterable[Row]], *, drain: bool, ordered: bool = False) -> Arranged:
    """The stream of a source in parts (the partitions of a topic): MRG of what each part sends by itself.

    Whether an item is late is decided in its own part. The positions of rejected rows are those within their part.
    ``ordered``: somebody looks at the order. Then a key must come from one part only (``TT205``), unless a function of the
    value is the order.
    """
    arranged = [arrange(source, rows, drain=drain) for rows in parts]
    by_position = isinstance(source.ordered_by, RowPosition)
    items = merge_channels([one.items for one in arranged], drain, source if ordered and by_position else None)
    if ordered and not by_position:
        order = _order_of(source)
        ordered_items: Stream = []
        for block in stretches(items):
            if isinstance(block, MarkerRuns):
                ordered_items.append(block)
                continue
            placed = [(0, at, Row("item", item.key, item.value)) for at, item in enumerate(block.items)]
            ordered_items.extend(Item(row.key, row.value) for _, _, row in sorted(placed, key=order))
            ordered_items.extend(() if block.marker is None else (block.marker,))
        items = ordered_items
    late = tuple(late for one in arranged for late in one.late)
    side_outputs: dict[Output, Sequence[Element]] = {
        output: elements(merge_channels([one.side_outputs[output] for one in arranged], drain, None))
        for output in ("late", "rejects")
    }
    return Arranged(elements(items), late, tuple(reject for one in arranged for reject in one.rejects), side_outputs)


def _order_of(source: Source) -> Callable[[tuple[int, int, Row]], Any]:
    by = source.ordered_by
    if by is None or isinstance(by, RowPosition):
        return lambda placed: (placed[0], placed[1])
    from tracetypes.edges import edge_type
    from tracetypes.schemas import schema_of

    whole = canonical(schema_of(edge_type(source.edge).value))
    return lambda placed: (placed[0], sort_key(by(placed[2].value)), whole(placed[2].value))


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


def arrange_rows(checked: Checked, rows: Mapping[str, Sequence[Any]], *, drain: bool = True) -> dict[str, Arranged]:
    """What each source makes of its rows. Parameters and errors are those of :func:`interpret_rows`."""
    arranged: dict[str, Arranged] = {}
    for source in checked.graph.sources:
        read = _row_reader(source, checked.layout(source))
        read_rows = [attrs.evolve(read(row), text=repr(row)) for row in rows.get(source.name, ())]
        arranged[source.name] = arrange(source, read_rows, drain=drain)
    return arranged


def _row_reader(source: Source, layout: Layout) -> Callable[[Any], Row]:
    """Reads rows of the program."""
    read, parse = reader(source).read, text_parser(ProgramLines(), layout, None)

    def read_row(row: Any) -> Row:
        try:
            if (line := line_of_dict(layout, row)) is not None:
                return read(*parse(line))
        except Mismatch as error:
            return Row("reject", reason=str(error))
        except TypeError as error:
            raise UsageError("TT402", f"source {source.name!r}: {error}", fix="give dicts of values that JSON has") from error
        if not layout.keyed:
            return read(UNIT, row)
        if isinstance(row, tuple | list) and len(row) == 2:
            return read(*row)
        fix = f"give pairs of {name_of(layout.key)} and {name_of(layout.value)}"
        raise UsageError("TT402", f"source {source.name!r}: {show(row)} is none of its rows", fix=fix)

    return read_row


def streams_of(arranged: Mapping[str, Arranged]) -> dict[str, Sequence[Element]]:
    """The streams of all sources, for :func:`interpret`."""
    return {label: stream for name, one in arranged.items() for label, stream in one.streams(name).items()}


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


def merge_channels(
    inputs: Sequence[Iterable[Piece[Element]]], complete: bool, ordered: Merge | Source | None
) -> Stream:
    """MRG: all markers of all inputs, up to the last one that every input has reached; blocks are united.

    While the inputs go on, nothing behind that marker is sent: a slower input may still send a marker before it.
    """
    markers: list[range] = []
    frontier: int | None = None
    items: dict[int | None, list[Item]] = {}
    owner: dict[Any, int] = {}
    for at, channel in enumerate(inputs):
        last: int | None = None
        for block in stretches(pieces(channel)):
            if isinstance(block, MarkerRuns):
                markers.extend(block.ranges)
                last = block[-1]
                continue
            end = None if block.marker is None else block.marker.micros
            if end is not None:
                markers.append(range(end, end + 1))
                last = end
            items.setdefault(end, []).extend(block.items)
            if ordered is not None:
                for item in block.items:
                    if owner.setdefault(item.key, at) != at:
                        raise overlapping(ordered, item.key)
        if not complete:
            reached = -(2**63) if last is None else last
            frontier = reached if frontier is None else min(frontier, reached)
    ends = MarkerRuns(markers)
    if frontier is not None:
        ends = ends.up_to(frontier)
        items = {end: some for end, some in items.items() if end is not None and end <= frontier}
    return _united(items, ends)


def overlapping(node: Merge | Source, key: Any, parts: str = "partitions") -> OperatorFailed:
    """The error of an ordered merge that got one key from two inputs, or of a source from two of its ``parts``."""
    if isinstance(node, Source):
        return OperatorFailed(
            "TT205",
            f"{title(node)}: the key {show(key)} comes from two {parts}, whose order is not known",
            fix=f"send each key from one of the {parts}, or declare the source U[K, V] and .through(sort(by=...))",
        )
    return OperatorFailed(
        "TT205",
        f"MRG at {node.where}: the key {show(key)} comes from two ordered inputs, whose order is not known",
        fix="merge before .through(sort(by=...)), or give the inputs distinct record types as keys",
    )


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


def operator_failure(op: object, method: str, what: str, error: BaseException) -> OperatorFailed:
    """The error of an operator that raised: which operator, which method, which item or marker, and on which
    line of the author's. Of an operator of the library: which part of it that its author gave."""
    if isinstance(op, SelfDescribing) and type(op).__module__.startswith("tracetypes."):
        who = blamed(op, calls_in(error.__traceback__)).text
    else:
        who = f"{type(op).__name__}.{method}"
    text, fix = str(error), "correct the operator and run again: nothing of this step was kept, the run goes on where it was"
    if isinstance(error, TypeError) and text.startswith(_CALLS_OF_EMIT):
        emit = "emit(value)" if isinstance(op, OpKeyedOrdered) else "emit(key, value)"
        text, fix = _METHOD_OF_EMIT.sub("emit()", text), f"call {emit}; {fix}"
    return OperatorFailed(
        "TT202", f"{who} raised {type(error).__name__}: {text}\n    at:       {what}", fix=fix, where=raised_at(error)
    )


_CALLS_OF_EMIT: Final = (
    "emit() missing",
    "emit() takes",
    "emit() got",
    "list.append() takes exactly one argument (2 given)",
    "generator.send() takes exactly one argument (2 given)",
)
"""How Python begins to say that an emitter was called with other arguments."""

_METHOD_OF_EMIT: Final = re.compile(r"list\.append\(\)|generator\.send\(\)")


def emitted_wrongly(op: object, error: Mismatch | str, key: Any, value: Any) -> OperatorFailed:
    """The error of an operator that emitted what its type does not allow."""
    name = name_of_operator(op)
    return OperatorFailed(
        "TT206",
        f"{name} emitted ({show(key)}, {show(value)}): {error}",
        fix=f"emit what the type arguments of {name} say, or change them",
    )


class Emitter:
    """Collects what an operator emits, made to fit its output type."""

    def __init__(self, op: object, stream: StreamType) -> None:
        self.op, self.schema = op, stream.key
        self.fit_key, self.fit_value = key_conformer(stream.key), conformer(stream.value)
        self.out: list[Any] = []
        """The pieces of the stream that comes out."""
        self.refused: OperatorFailed | None = None
        """The first emission that did not fit. The author's code may have caught the error."""

    def pair(self, key: Any, value: Any) -> None:
        try:
            key, value_ = self.fit_key(key), self.fit_value(value)
        except Mismatch as error:
            raise self.refuse(error, key, value) from None
        if problem := key_problem(self.schema, key):
            raise self.refuse(problem, key, value)
        self.out.append(Item(key, value_))

    pair.__qualname__ = "emit"  # what authors call it, in the messages of Python

    def refuse(self, problem: Mismatch | str, key: Any, value: Any) -> OperatorFailed:
        """The error of an emission that does not fit."""
        error = emitted_wrongly(self.op, problem, key, value)
        self.refused = self.refused or error
        return error

    def judge(self) -> None:
        """Raise the error of an emission that did not fit, also where the author's code has caught it: the item would be lost."""
        if self.refused is not None:
            raise self.refused


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


def run_stateless(
    op: OpStateless[Any, Any, Any, Any], channel: Iterable[Piece[Element]], emitter: Emitter, emits_at_markers: bool
) -> None:
    """``emits_at_markers``: of several copies of one operator only one emits at markers (design, corner 1)."""

    def visit(marker: Marker) -> None:
        if emits_at_markers:
            call_operator(op, "on_marker", f"marker {marker}", op.on_marker, marker, emitter.pair)
        emitter.out.append(marker)

    def due() -> int | None:
        return BEFORE_ALL if emits_at_markers and overrides(op, "on_marker") else None

    for item in channel:
        if isinstance(item, MarkerRuns):
            _visit(item, emitter, due, visit)
        elif isinstance(item, Marker):
            visit(item)
        else:
            odd = call_operator(op, "on_item", f"item {item}", op.on_item, item.key, item.value, emitter.pair)
            ran(op, "on_item", item.key, odd)


BEFORE_ALL: Final = -(2**63)
"""Due at any marker."""


def _visit(
    markers: MarkerRuns,
    emitter: Emitter,
    due: Callable[[], int | None],
    visit: Callable[[Marker], None],
    leave_out: Callable[[MarkerRuns], None] = lambda markers: None,
) -> None:
    """A pause: visit the markers at which something may be due. ``due``: a time before which nothing is, None for never;
    ``leave_out``: is told of those between."""
    rest = markers
    while rest:
        time = due()
        marker = None if time is None else rest.next(time)
        between = rest if marker is None else rest.up_to(marker - 1)
        if between:
            mark(emitter.out, between)
            leave_out(between)
        if marker is not None:
            visit(Marker(marker))
        rest = rest.after(between[-1] if marker is None else marker)


def run_ordered(op: OpKeyedOrdered[Any, Any, Any, Any], channel: Iterable[Piece[Element]], emitter: Emitter) -> None:
    """Key by key; in a pause at the markers that :meth:`~tracetypes.OpKeyedOrdered.next_due` says."""
    states: dict[Any, Any] = {}
    state = states_of(op).returned

    def visit(marker: Marker) -> None:
        here = f"marker {marker}"
        for key in states:
            emit = _same_key(emitter, key)
            at = f"key {key!r}, {here}"
            after = call_operator(op, "on_marker", at, op.on_marker, states[key], key, marker, emit)
            states[key] = state("on_marker", key, after)
        emitter.out.append(marker)

    def due() -> int | None:
        method = "next_emission" if overrides(op, "next_emission") else "next_due"
        if not states or not overrides(op, "on_marker"):
            return None
        if not overrides(op, method):
            return BEFORE_ALL
        times = (call_operator(op, method, f"key {key!r}", getattr(op, method), states[key], key) for key in states)
        return min((time for time in times if time is not None), default=None)

    def leave_out(markers: MarkerRuns) -> None:
        last = Marker(markers[-1])
        for key in states if overrides(op, "next_emission") else ():
            at = f"key {key!r}, marker {last}"
            states[key] = call_operator(op, "on_marker", at, catch_up, op, states[key], key, last)

    for item in channel:
        if isinstance(item, MarkerRuns):
            _visit(item, emitter, due, visit, leave_out)
        elif isinstance(item, Marker):
            visit(item)
        else:
            if item.key not in states:
                first = call_operator(op, "initial_state", f"item {item}", op.initial_state)
                states[item.key] = state("initial_state", item.key, first)
            emit = _same_key(emitter, item.key)
            at = f"item {item}"
            after = call_operator(op, "on_item", at, op.on_item, states[item.key], item.key, item.value, emit)
            states[item.key] = state("on_item", item.key, after)


def _same_key(emitter: Emitter, key: Any) -> Callable[[Any], None]:
    def emit(value: Any) -> None:
        emitter.pair(key, value)

    emit.__qualname__ = "emit"
    return emit


def run_unordered(
    op: OpKeyedUnordered[Any, Any, Any, Any, Any, Any], channel: Iterable[Piece[Element]], emitter: Emitter
) -> None:
    """Table 3 of the paper, word for word; and in a pause what the class declares (``skips_untouched``, ``forgets_idle``)."""
    states: dict[Any, Any] = {}
    aggregates: dict[Any, Any] = {}
    state, aggregate = states_of(op).returned, aggregates_of(op).returned
    start = state("initial_state", NO_KEY, call_operator(op, "initial_state", "the start", op.initial_state))
    idle: set[Any] = set()
    """In a pause: keys whose state is that of a key to come."""

    def visit(marker: Marker) -> None:
        nonlocal start
        here = f"marker {marker}"
        for key in states:
            if key in idle:
                continue
            at = f"key {key!r}, {here}"
            after = call_operator(op, "update_state", at, op.update_state, states[key], aggregates[key])
            states[key] = state("update_state", key, after)
            aggregates[key] = aggregate("identity", key, call_operator(op, "identity", at, op.identity))
            odd = call_operator(op, "on_marker", at, op.on_marker, states[key], key, marker, emitter.pair)
            ran(op, "on_marker", key, odd)
        nothing = call_operator(op, "identity", here, op.identity)
        after = call_operator(op, "update_state", here, op.update_state, start, nothing)
        start = state("update_state", NO_KEY, after)
        emitter.out.append(marker)

    def due() -> int | None:
        if op.skips_untouched:
            return None
        if op.forgets_idle:
            idle.update(key for key in states if key not in idle and indistinguishable(states[key], start))
        return BEFORE_ALL if len(idle) < len(states) else None

    def leave_out(markers: MarkerRuns) -> None:
        nonlocal start
        if not op.skips_untouched:
            at = f"{len(markers):,} empty blocks"
            start = call_operator(op, "update_state", at, start_after, op, start, len(markers))

    for item in channel:
        if isinstance(item, MarkerRuns):
            _visit(item, emitter, due, visit, leave_out)
            states.update(dict.fromkeys(idle, start))
            idle.clear()
        elif isinstance(item, Marker):
            visit(item)
        else:
            at = f"item {item}"
            if item.key not in states:
                nothing = aggregate("identity", item.key, call_operator(op, "identity", at, op.identity))
                states[item.key], aggregates[item.key] = start, nothing
            odd = call_operator(op, "on_item", at, op.on_item, states[item.key], item.key, item.value, emitter.pair)
            ran(op, "on_item", item.key, odd)
            lifted = aggregate("lift", item.key, call_operator(op, "lift", at, op.lift, item.key, item.value))
            after = call_operator(op, "combine", at, op.combine, aggregates[item.key], lifted)
            aggregates[item.key] = aggregate("combine", item.key, after)


def call_operator(op: object, method: str, what: str, function: Callable[..., Any], *args: Any) -> Any:
    """Call an author's method; what it raises becomes an :class:`OperatorFailed` that says where."""
    try:
        return function(*args)
    except (OperatorFailed, LawBroken):
        raise
    except Exception as error:
        raise operator_failure(op, method, what, error) from error
