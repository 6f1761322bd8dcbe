"""Rows of sources as the elements of a stream: items, each in its block, and markers (data-trace-types, section 4).

The definition of which rows are late, which are rejects, and where markers stand. Slow and obvious, as the interpreter is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import attrs

from tracetypes.canonical import canonical
from tracetypes.check import Checked
from tracetypes.clocks import Clock, OtherSender, Verdict
from tracetypes.conformance import name_of
from tracetypes.elements import Piece, elements, mark, pieces
from tracetypes.errors import OperatorFailed, UsageError
from tracetypes.formats import Layout, ProgramLines
from tracetypes.marker_runs import NO_MARKERS, MarkerRuns, runs_of
from tracetypes.markers import EventTime, Marker
from tracetypes.nodes import (
    Merge,
    Output,
    RowPosition,
    Source,
    label,
    title,
)
from tracetypes.parsing import Row, line_of_dict, text_parser
from tracetypes.records import UNIT, Mismatch, show
from tracetypes.rejects import Rejected
from tracetypes.sort_keys import sort_key
from tracetypes.sources import reader
from tracetypes.trace import Element, Item, stretches

__all__ = [
    "Arranged",
    "Late",
    "Stream",
    "arrange",
    "arrange_parts",
    "arrange_rows",
    "first_open",
    "merge_channels",
    "overlapping",
    "streams_of",
    "woven",
]

Stream: TypeAlias = list[Piece[Element]]
"""The elements of a stream, with long pauses as one piece."""


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
        f"merge at {node.where}: the key {show(key)} comes from two ordered inputs, whose order is not known",
        fix="merge before .through(sort(by=...)), or give the inputs distinct record types as keys",
    )
