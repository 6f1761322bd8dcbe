"""Containers of streams inside a dataflow, looked at while the interpreter runs it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import attrs

from tracetypes.adaptive_bounds import Adaptive
from tracetypes.bounds import ALWAYS, Group, parts_of
from tracetypes.check import Checked
from tracetypes.containers import columns_of, mean, numbers_in
from tracetypes.errors import UsageError
from tracetypes.interpreter import interpret
from tracetypes.nodes import Gate, Graph, Merge, Node, Sink
from tracetypes.trace import Element, blocks

__all__ = ["Feed", "Numbers", "Tap", "Tapped", "Together", "markers_of", "outputs_of", "refuse_load"]


@attrs.frozen(eq=False)
class Tap:
    """A stream whose container is looked at. ``name``: of the tap. ``columns``: of the values; none stands for all that are
    numbers. ``rows``: a function of the key, or None. ``by``: the same; the container then has a mean for each of its results."""

    name: str
    stream: int
    columns: tuple[str, ...] = ()
    rows: Any = None
    by: Any = None


class Tapped:
    """A dataflow with a sink at each stream that has a tap. ``opened``: the numbers of gates that let all markers through.
    ``sinks``: their names, by stream."""

    def __init__(self, checked: Checked, taps: Sequence[Tap], opened: Collection[int] = ()) -> None:
        nodes: list[Node] = []
        for node in checked.graph.nodes:
            if isinstance(node, Gate):
                node = attrs.evolve(node, bound=ALWAYS) if node.id in opened else node
                refuse_load(node)
            nodes.append(node)
        types, next_ = dict(checked.types), max(checked.types) + 1
        self.sinks: dict[int, str] = {}
        for tap in taps:
            self.sinks.setdefault(tap.stream, tap.name)
        for number, (stream, name) in enumerate(self.sinks.items(), next_):
            nodes.append(Sink(id=number, where=checked.graph.node(stream).where, inputs=(stream,), name=name))
            types[number] = checked.types[stream]
        self.checked, self.taps = Checked(attrs.evolve(checked.graph, nodes=tuple(nodes)), types), tuple(taps)

    def run(self, streams: Mapping[str, Sequence[Element]], *, complete: bool = True) -> Mapping[str, Feed]:
        """What comes to each tap, by name. ``streams`` and ``complete``: as of :func:`tracetypes.interpret`."""
        traces = interpret(self.checked, streams, complete=complete)
        return self.feeds({name: traces[name].items for name in self.sinks.values()})

    def feeds(self, elements: Mapping[str, Sequence[Any]]) -> Mapping[str, Feed]:
        """What comes to each tap, by name. ``elements``: of the sinks."""
        return {tap.name: Feed(self.checked, tap, elements[self.sinks[tap.stream]]) for tap in self.taps}


def refuse_load(gate: Gate) -> None:
    """Raise :class:`UsageError` ``TT402`` for a gate that looks at the load of the machine, which a replay does not know."""
    if any(isinstance(one, Adaptive) and one.load for one in parts_of(gate.bound)):
        text = f"{gate.where}: {gate.bound} looks at the load of the machine, which a replay does not know"
        raise UsageError("TT402", text, fix="give it load=False: then it looks at the items only")


class Feed:
    """What comes to a tap. ``blocks``: items by marker, in microseconds. ``values``: the container behind the markers that were
    taken: numbers by key and column. ``writes``: those of the last one."""

    def __init__(self, checked: Checked, tap: Tap, elements: Sequence[Any]) -> None:
        schema = checked.streams[tap.stream].value
        self.columns = tap.columns or columns_of(schema)
        self.numbers, self.rows, self.by = numbers_in(self.columns, schema), tap.rows, tap.by
        self.blocks = {block.marker.micros: block.items for block in blocks(elements) if block.marker is not None}
        self.values: dict[tuple[Any, str], float] = {}
        self.writes: dict[tuple[Any, str], float] = {}
        self.groups: dict[tuple[Any, str], dict[Any, float]] = {}

    def take(self, marker: int) -> None:
        """The block of a marker, if it has one."""
        self.writes = {}
        for item in self.blocks.get(marker, ()):
            if self.rows is None or self.rows(item.key):
                for column, number in zip(self.columns, self.numbers(item.value), strict=True):
                    self.writes[item.key, column] = number
        if self.by is not None:
            self.writes = self.means(self.by)
        self.values |= self.writes

    def means(self, by: Group) -> dict[tuple[Any, str], float]:
        """The mean of each group of keys that was written."""
        for (key, column), number in self.writes.items():
            self.groups.setdefault((by(key), column), {})[key] = number
        places = {(by(key), column) for key, column in self.writes}
        return {place: mean(list(self.groups[place].values())) for place in places}


class Numbers(Mapping[Any, float]):
    """The container of some taps behind a marker. ``places``: of each key, which is a tap's name, a key and a column; those of
    later containers share it. ``column``: the numbers (float64) at these places."""

    def __init__(self, places: Mapping[Any, int], column: Any) -> None:
        self.places, self.column = places, column

    def __getitem__(self, key: Any) -> float:
        place = self.places[key]
        if place >= len(self.column):
            raise KeyError(key)
        return float(self.column[place])

    def __len__(self) -> int:
        return len(self.column)

    def __iter__(self) -> Iterator[Any]:
        return islice(self.places, len(self.column))

    def changes(self, before: Mapping[Any, Any]) -> list[tuple[Any, Any]]:
        """What differs from a container before, with what it was."""
        if not (isinstance(before, Numbers) and before.places is self.places):
            return [(number, before.get(key)) for key, number in self.items() if number != before.get(key)]
        import numpy as np

        count = len(before)
        at = np.flatnonzero(self.column[:count] != before.column)
        changed = zip(self.column[at].tolist(), before.column[at].tolist(), strict=True)
        return [*changed, *((number, None) for number in self.column[count:].tolist())]


class Together:
    """The container of some taps, kept up to date. Needs numpy."""

    def __init__(self) -> None:
        import numpy as np

        self.places: dict[Any, int] = {}
        self.column: Any = np.empty(16)

    def take(self, feeds: Iterable[tuple[str, Feed]]) -> Numbers:
        """What the feeds of some taps, by name, wrote at the last marker."""
        for name, feed in feeds:
            for at, number in feed.writes.items():
                place = self.places.setdefault((name, *at), len(self.places))
                if place == len(self.column):
                    self.column = _larger(self.column)
                self.column[place] = number
        return Numbers(self.places, self.column[: len(self.places)].copy())


def _larger(column: Any) -> Any:
    """With room for as many numbers again."""
    import numpy as np

    return np.concatenate([column, np.empty(len(column))])


def markers_of(feeds: Mapping[str, Feed]) -> Iterator[int]:
    """All markers in order. At each, all containers are those behind it."""
    for marker in sorted({marker for feed in feeds.values() for marker in feed.blocks}):
        for feed in feeds.values():
            feed.take(marker)
        yield marker


def outputs_of(graph: Graph, gate: Node) -> list[int]:
    """The streams behind a gate that enter the next gate, merge or sink: the outputs of its step."""
    found: dict[int, None] = {}
    waiting = [gate.id]
    looked_at = set(waiting)
    while waiting:
        here = waiting.pop()
        for node in graph.consumers[here]:
            if isinstance(node, Gate | Sink | Merge):
                found[here] = None
            elif node.id not in looked_at:
                looked_at.add(node.id)
                waiting.append(node.id)
    return sorted(found)
