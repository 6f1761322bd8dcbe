"""A layered layout of a directed acyclic graph, from top to bottom: boxes that do not overlap, arrows that cross no box.

The way of Sugiyama, Tagawa and Toda (1981), in four steps: ranks by the longest path; in each layer an order with few
crossings, by barycentres; horizontal places that minimise the squared lengths of arrows, a layer at a time, which is an
isotonic regression and keeps the distances exactly, and chains made straight; heights. Every arrow has a slot of its own in
each layer that it passes, and its label has one in a layer between the boxes, so that nothing is ever drawn over anything
else.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import pairwise
from math import inf

import attrs

__all__ = ["Arrow", "Corner", "Label", "Layout", "Point", "Size", "layered"]

Size = tuple[float, float]
"""Width and height."""

Point = tuple[float, float]

APART = 28.0
"""Between boxes of a layer."""

GAP = 16.0
"""Between a layer of boxes and a layer of labels."""

PORTS = 26.0
"""Between the ends of arrows at one box, where it is wide enough."""


@attrs.frozen
class Label:
    """Room for the text of an arrow: the widths to the left and right of its line, and the height."""

    left: float = 4.0
    right: float = 4.0
    height: float = 0.0


@attrs.frozen
class Arrow:
    """From one box to another."""

    source: Hashable
    target: Hashable
    label: Label = Label()


@attrs.frozen
class Corner:
    """The top left corner of something."""

    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        """The horizontal middle."""
        return self.x + self.width / 2


@attrs.frozen
class Layout:
    """The places of boxes. For each arrow its points, which vertical lines and curves join, and the place of its label."""

    boxes: Mapping[Hashable, Corner]
    arrows: Sequence[Sequence[Point]]
    labels: Sequence[Corner]
    width: float
    height: float


@attrs.define(eq=False)
class _Slot:
    """A box, or where an arrow passes a layer: ``x`` is the line through it, ``left`` and ``right`` lie to its sides."""

    left: float
    right: float
    height: float
    is_box: bool
    up: list[_Joint] = attrs.Factory(list)
    down: list[_Joint] = attrs.Factory(list)
    layer: int = 0
    at: int = 0
    x: float = 0.0


@attrs.define(eq=False)
class _Joint:
    """A piece of an arrow between neighbouring layers. ``leaves``, ``enters``: where at its slots, from their lines."""

    upper: _Slot
    lower: _Slot
    leaves: float = 0.0
    enters: float = 0.0

    @property
    def is_alone(self) -> bool:
        """Whether it is the only one that leaves above, and the only one that arrives below."""
        return len(self.upper.down) == len(self.lower.up) == 1

    @property
    def weight(self) -> float:
        """How straight it should be: a chain most of all."""
        return 8.0 if self.is_alone else 1.0


def layered(sizes: Mapping[Hashable, Size], arrows: Sequence[Arrow]) -> Layout:
    """Lay out boxes of these sizes. The arrows must not form a cycle."""
    ranks = _ranks(list(sizes), arrows)
    layers: list[list[_Slot]] = [[] for _ in range(2 * max(ranks.values(), default=0) + 1)]
    boxes = {name: _Slot(width / 2, width / 2, height, True) for name, (width, height) in sizes.items()}
    for name, slot in boxes.items():
        layers[2 * ranks[name]].append(slot)
    ways: list[list[_Slot]] = []
    for arrow in arrows:
        top, bottom = 2 * ranks[arrow.source], 2 * ranks[arrow.target]
        passing = [_Slot(4, 4, 0, False) for _ in range(top + 1, bottom)]
        passing[0] = _Slot(arrow.label.left, arrow.label.right, arrow.label.height, False)
        for layer, slot in zip(layers[top + 1 : bottom], passing, strict=True):
            layer.append(slot)
        ways.append([boxes[arrow.source], *passing, boxes[arrow.target]])
        for upper, lower in pairwise(ways[-1]):
            joint = _Joint(upper, lower)
            upper.down.append(joint)
            lower.up.append(joint)
    _order(layers)
    _ports(layers)
    _spread(layers)
    return _finish(boxes, layers, ways)


# --------------------------------------------------------------------------------------------------- ranks


def _ranks(names: list[Hashable], arrows: Sequence[Arrow]) -> dict[Hashable, int]:
    """The layer of each box: as high as its inputs allow; but where that shortens arrows, right above what it feeds."""
    above: dict[Hashable, list[Hashable]] = {name: [] for name in names}
    below: dict[Hashable, list[Hashable]] = {name: [] for name in names}
    for arrow in arrows:
        above[arrow.target].append(arrow.source)
        below[arrow.source].append(arrow.target)
    missing = {name: len(above[name]) for name in names}
    ready = [name for name in names if not missing[name]]
    ranks: dict[Hashable, int] = {}
    for name in ready:
        ranks[name] = max((ranks[one] + 1 for one in above[name]), default=0)
        for one in below[name]:
            missing[one] -= 1
            if not missing[one]:
                ready.append(one)
    if len(ready) < len(names):
        raise ValueError("the arrows make a cycle")
    for name in reversed(ready):
        if len(below[name]) > len(above[name]):
            ranks[name] = min(ranks[one] for one in below[name]) - 1
    return ranks


# --------------------------------------------------------------------------------------------------- order


def _order(layers: list[list[_Slot]]) -> None:
    """Put each layer into an order with few crossings."""
    for at, layer in enumerate(layers):
        for slot in layer:
            slot.layer = at
    _number(layers)
    best, fewest = [list(layer) for layer in layers], _crossings(layers)
    for sweep in range(16):
        if not fewest:
            break
        for layer in layers[1:] if sweep % 2 == 0 else layers[-2::-1]:
            centre = _barycentre_above if sweep % 2 == 0 else _barycentre_below
            layer.sort(key=centre)
            _number([layer])
        count = _crossings(layers)
        if count < fewest:
            best, fewest = [list(layer) for layer in layers], count
    for layer, order in zip(layers, best, strict=True):
        layer[:] = order
    _number(layers)


def _number(layers: list[list[_Slot]]) -> None:
    for layer in layers:
        for at, slot in enumerate(layer):
            slot.at = at


def _barycentre_above(slot: _Slot) -> float:
    return sum(j.upper.at for j in slot.up) / len(slot.up) if slot.up else slot.at


def _barycentre_below(slot: _Slot) -> float:
    return sum(j.lower.at for j in slot.down) / len(slot.down) if slot.down else slot.at


def _crossings(layers: list[list[_Slot]]) -> int:
    count = 0
    for layer in layers:
        seen: list[int] = []
        for slot in layer:
            ends = sorted(joint.lower.at for joint in slot.down)
            count += sum(len(seen) - bisect_right(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
    return count


def _ports(layers: list[list[_Slot]]) -> None:
    """Spread the ends of several arrows over a box, in the order in which they come."""
    for slot in [slot for layer in layers for slot in layer if slot.is_box]:
        slot.up.sort(key=lambda joint: joint.upper.at)
        slot.down.sort(key=lambda joint: joint.lower.at)
        for edges in (slot.up, slot.down):
            step = min(PORTS, (slot.left + slot.right - 16) / max(len(edges), 1))
            for at, joint in enumerate(edges):
                offset = (at - (len(edges) - 1) / 2) * step
                if edges is slot.up:
                    joint.enters = offset
                else:
                    joint.leaves = offset


# --------------------------------------------------------------------------------------------------- places


def _spread(layers: list[list[_Slot]]) -> None:
    """Choose the lines of all slots."""
    for layer in layers:
        _place(layer, lambda slot: [(j.upper.x + j.leaves - j.enters, j.weight) for j in slot.up])
    slots = [slot for layer in layers for slot in layer]
    for _ in range(200):
        before = [slot.x for slot in slots]
        for order in (reversed(layers), layers):
            for layer in order:
                _place(layer, _pulls)
        if all(abs(slot.x - x) < 0.05 for slot, x in zip(slots, before, strict=True)):
            break
    for slot in slots:
        if not (slot.up and slot.up[0].is_alone):
            _straighten(slot, layers)
    least = min((slot.x - slot.left for slot in slots), default=0.0)
    for slot in slots:
        slot.x = round(slot.x - least, 1)


def _straighten(slot: _Slot, layers: list[list[_Slot]]) -> None:
    """Make one line of the chain that begins with a slot, as far as its neighbours leave room for that."""
    run: list[_Slot] = []
    low, high = -inf, inf
    while True:
        layer = layers[slot.layer]
        least = layer[slot.at - 1].x + _apart(layer[slot.at - 1], slot) if slot.at else -inf
        most = layer[slot.at + 1].x - _apart(slot, layer[slot.at + 1]) if slot.at + 1 < len(layer) else inf
        if run and max(low, least) > min(high, most):
            _align(run, low, high)
            run, low, high = [], -inf, inf
        run, low, high = [*run, slot], max(low, least), min(high, most)
        if not (slot.down and slot.down[0].is_alone):
            break
        slot = slot.down[0].lower
    _align(run, low, high)


def _align(run: list[_Slot], low: float, high: float) -> None:
    x = min(max(sum(slot.x for slot in run) / len(run), low), high)
    for slot in run:
        slot.x = x


def _apart(left: _Slot, right: _Slot) -> float:
    """The least distance of the lines of neighbours."""
    wide = left.is_box or right.is_box or left.height or right.height
    return left.right + (APART if wide else APART / 2) + right.left


def _pulls(slot: _Slot) -> list[tuple[float, float]]:
    above = [(j.upper.x + j.leaves - j.enters, j.weight) for j in slot.up]
    return above + [(j.lower.x + j.enters - j.leaves, j.weight) for j in slot.down]


def _place(layer: list[_Slot], neighbours: Callable[[_Slot], list[tuple[float, float]]]) -> None:
    """The places next to those that are wanted, in the order of the layer and at its distances: least squares, by pooling
    neighbours that would come too close (Ayer and others, 1955)."""
    pools: list[tuple[float, float, int]] = []
    """Mean, weight and number of slots that are moved together, less the distances before them."""
    before, distances = 0.0, []
    for left, slot in zip([None, *layer], layer, strict=False):
        if left is not None:
            before += _apart(left, slot)
        distances.append(before)
        weights = neighbours(slot)
        weight = sum(w for _, w in weights) or 0.01
        mean = sum(x * w for x, w in weights) / weight if weights else slot.x
        pools.append((mean - before, weight, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (x, w, n), (y, v, m) = pools[-2:]
            pools[-2:] = [((x * w + y * v) / (w + v), w + v, n + m)]
    places = [mean for mean, _, count in pools for _ in range(count)]
    for slot, place, distance in zip(layer, places, distances, strict=True):
        slot.x = place + distance


def _finish(boxes: Mapping[Hashable, _Slot], layers: list[list[_Slot]], ways: list[list[_Slot]]) -> Layout:
    spans: dict[_Slot, tuple[float, float]] = {}
    """Top and bottom of the layer of each slot."""
    y = 0.0
    for layer in layers:
        height = max((slot.height for slot in layer), default=0.0)
        spans |= dict.fromkeys(layer, (y, y + height))
        widest = max((abs(j.upper.x + j.leaves - j.lower.x - j.enters) for s in layer for j in s.down), default=0.0)
        y += height + GAP + min(widest / 12, 3 * GAP)
    bottom = max((b for _, b in spans.values()), default=0.0)

    def place(slot: _Slot) -> Corner:
        top, bottom = spans[slot]
        return Corner(slot.x - slot.left, (top + bottom - slot.height) / 2, slot.left + slot.right, slot.height)

    arrows = []
    for way in ways:
        source, target = place(way[0]), place(way[-1])
        edges = [next(j for j in upper.down if j.lower is lower) for upper, lower in pairwise(way)]
        points = [(way[0].x + edges[0].leaves, source.y + source.height)]
        for joint in edges:
            points.append((joint.upper.x + joint.leaves, spans[joint.upper][1]))
            points.append((joint.lower.x + joint.enters, spans[joint.lower][0]))
        points.append((way[-1].x + edges[-1].enters, target.y))
        arrows.append(points)
    return Layout(
        boxes={name: place(slot) for name, slot in boxes.items()},
        arrows=arrows,
        labels=[place(way[1]) for way in ways],
        width=max((slot.x + slot.right for slot in spans), default=0.0),
        height=bottom,
    )
