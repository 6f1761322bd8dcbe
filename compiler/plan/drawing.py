"""The typed graph as a picture: SVG without fonts, scripts or images of its own, for light and dark backgrounds.

:class:`Figure` draws boxes and arrows at the places that :mod:`tracetypes.compiler.plan.layout` finds;
:func:`typed_graph` makes a figure of a checked graph. Needs only the core: a graph can be drawn without Spark and
numpy.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Hashable, Sequence
from html import escape
from pathlib import Path
from typing import Protocol

import attrs

from tracetypes.check import Checked
from tracetypes.compiler.plan.layout import Arrow, Corner, Label, Point, Size, layered
from tracetypes.markers import show_markers
from tracetypes.nodes import (
    Apply,
    Fused,
    Gate,
    Gather,
    Merge,
    Node,
    Receive,
    Restore,
    RowPosition,
    Sink,
    Sort,
    Source,
    Split,
    title,
)
from tracetypes.records import show
from tracetypes.redaction import redact
from tracetypes.templates import TEMPLATES

__all__ = ["STYLE", "Badge", "Box", "Figure", "Group", "Pill", "hover_of", "node_shape", "svg", "typed_graph"]

_COLOURS = {  # what: light, dark
    "ground": ("#ffffff", "#0d1117"),
    "ink": ("#1f2328", "#e6edf3"),
    "faint": ("#59636e", "#9198a1"),
    "line": ("#818b98", "#767e88"),
    "ordered": ("#0a4fb3", "#79c0ff"),
    "box": ("#f6f8fa", "#1c2128"),
    "source": ("#ddf4ff", "#0f2744"),
    "source-line": ("#54aeff", "#388bfd"),
    "sink": ("#f5e9ff", "#2a1c47"),
    "sink-line": ("#b98be8", "#a371f7"),
    "pill": ("#fff3c4", "#3b2f0b"),
    "pill-line": ("#b98a00", "#d29922"),
    "native": ("#c6f3d1", "#123d22"),
    "native-ink": ("#0f5323", "#7ee2a0"),
    "python": ("#ffdfc6", "#4d2a0e"),
    "python-ink": ("#7a2e00", "#ffb77c"),
    "group": ("#ffffff", "#0d1117"),
}

_RULES = """
.tt-ground {{ fill: {ground}; }}
.tt-title {{ font: 600 14px {mono}; fill: {ink}; }}
.tt-text {{ font: 12px {sans}; fill: {faint}; }}
.tt-type {{ font: 12px {mono}; fill: {faint}; }}
.tt-type.tt-ordered {{ fill: {ordered}; }}
.tt-box {{ fill: {box}; stroke: {line}; stroke-width: 1.2px; }}
.tt-box.tt-source {{ fill: {source}; stroke: {source-line}; }}
.tt-box.tt-sink {{ fill: {sink}; stroke: {sink-line}; }}
.tt-pill {{ fill: {pill}; stroke: {pill-line}; stroke-width: 1.2px; }}
.tt-group {{ fill: {group}; stroke: {line}; stroke-width: 1.2px; stroke-dasharray: 5 4; }}
.tt-arrow {{ fill: none; stroke: {line}; stroke-width: 1.5px; }}
.tt-arrow.tt-ordered {{ stroke: {ordered}; }}
.tt-head {{ fill: {line}; }}
.tt-head.tt-ordered {{ fill: {ordered}; }}
.tt-badge {{ fill: {line}; }}
.tt-badge.tt-native {{ fill: {native}; }}
.tt-badge.tt-python {{ fill: {python}; }}
.tt-told {{ font: 600 11px {sans}; fill: {ground}; }}
.tt-told.tt-native {{ fill: {native-ink}; }}
.tt-told.tt-python {{ fill: {python-ink}; }}
"""

_MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
_SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"


def _rules(at: int) -> str:
    return _RULES.format(mono=_MONO, sans=_SANS, **{name: pair[at] for name, pair in _COLOURS.items()})


STYLE = f"{_rules(0)}@media (prefers-color-scheme: dark) {{{_rules(1)}}}\n"
"""Style of all figures. Colours are written out, for many viewers of SVG know no variables."""

_MARGIN = 20.0
_TITLE, _ROW, _PILL = 20.0, 17.0, 26.0
_INSIDE = 14.0
"""Between the border of a box and its text."""


def _columns(text: str) -> int:
    """Columns of a text in a font of one width."""
    return sum(2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text)


def _wide(text: str, size: float) -> float:
    """An upper estimate: the viewer's font is not known. Fonts of one width have 0.6 em a column, or less, others a little
    more where they are bold."""
    return _columns(text) * size * 0.66


def _wrapped(text: str, most: int, lines: int = 3) -> list[str]:
    """A text in lines, broken behind commas and blanks; what does not fit becomes an ellipsis."""
    texts = [""]
    for word in text.replace(" ", " \0").split("\0"):
        if texts[-1] and _columns(texts[-1] + word.rstrip()) > most:
            texts.append("")
        texts[-1] += word
    texts = [line.rstrip() for line in texts]
    if len(texts) > lines:
        texts = [*texts[: lines - 1], f"{texts[lines - 1]} …"]
    return [line if _columns(line) <= most + 2 else line[: most - 1] + "…" for line in texts]


def _text(kind: str, x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _rect(kind: str, at: Corner, radius: float) -> str:
    return (
        f'<rect class="{kind}" x="{at.x:.1f}" y="{at.y:.1f}" width="{at.width:.1f}" height="{at.height:.1f}" '
        f'rx="{radius:g}"/>'
    )


def _hovering(hover: str, body: str) -> str:
    return f"<g><title>{escape(hover)}</title>{body}</g>" if hover else f"<g>{body}</g>"


# --------------------------------------------------------------------------------------------------- shapes


class Shape(Protocol):
    """What can be drawn."""

    @property
    def size(self) -> Size: ...

    def svg(self, at: Corner) -> str:
        """The shape at a place."""
        ...


@attrs.frozen
class Badge:
    """A word at the corner of a box. ``kind``: ``native``, ``python`` or nothing."""

    word: str
    kind: str = ""

    @property
    def width(self) -> float:
        """The width with the room around the word."""
        return _wide(self.word, 11) + 14


@attrs.frozen
class Box:
    """A box with a title, lines under it and a badge. ``kind``: ``source``, ``sink`` or nothing."""

    title: str
    lines: tuple[str, ...] = ()
    badge: Badge | None = None
    kind: str = ""
    hover: str = ""

    @property
    def _rows(self) -> tuple[list[str], list[str]]:
        return _wrapped(self.title, 40), [row for line in self.lines for row in _wrapped(line, 46)]

    @property
    def size(self) -> Size:
        """Of the whole box."""
        titles, rows = self._rows
        widest = max(_wide(row, 14) for row in titles)
        widest += 0 if self.badge is None else 12 + self.badge.width
        widest = max(widest, *(_wide(row, 12) for row in rows), 92)
        return widest + 2 * _INSIDE, len(titles) * _TITLE + len(rows) * _ROW + 16

    def svg(self, at: Corner) -> str:
        """The box at a place."""
        titles, rows = self._rows
        parts, y = [_rect(f"tt-box tt-{self.kind}" if self.kind else "tt-box", at, 7)], at.y + 8
        for row in titles:
            parts.append(_text("tt-title", at.x + _INSIDE, y + 15, row))
            y += _TITLE
        for row in rows:
            parts.append(_text("tt-text", at.x + _INSIDE, y + 12.5, row))
            y += _ROW
        if self.badge is not None:
            kind, width = self.badge.kind, self.badge.width
            corner = Corner(at.x + at.width - width - 8, at.y + 8, width, 18)
            parts.append(_rect(f"tt-badge tt-{kind}" if kind else "tt-badge", corner, 9))
            css = f"tt-told tt-{kind}" if kind else "tt-told"
            parts.append(_text(css, corner.middle, corner.y + 13, self.badge.word, "middle"))
        return _hovering(self.hover, "".join(parts))


@attrs.frozen
class Pill:
    """A movement of data: RR, HASH, SORT, MRG."""

    word: str
    hover: str = ""

    @property
    def size(self) -> Size:
        """Of the whole pill."""
        return _wide(self.word, 14) + 26, _PILL

    def svg(self, at: Corner) -> str:
        """The pill at a place."""
        word = _text("tt-title", at.middle, at.y + 18, self.word, "middle")
        return _hovering(self.hover, _rect("tt-pill", at, _PILL / 2) + word)


@attrs.define(eq=False)
class Figure:
    """Boxes by name, and arrows between them."""

    shapes: dict[Hashable, Shape] = attrs.Factory(dict)
    arrows: list[tuple[Arrow, Pill | _Type | None]] = attrs.Factory(list)

    def box(self, name: Hashable, shape: Shape) -> None:
        """Add a box."""
        self.shapes[name] = shape

    def arrow(self, source: Hashable, target: Hashable, text: Pill | str | None = None) -> None:
        """Add an arrow, with a pill on it or the type of an edge beside it."""
        label = _Type(text) if isinstance(text, str) else text
        room = Label() if label is None else label.room if isinstance(label, _Type) else _around(label.size)
        self.arrows.append((Arrow(source, target, room), label))

    def drawn(self) -> tuple[Size, str]:
        """The size, and the elements."""
        layout = layered({name: shape.size for name, shape in self.shapes.items()}, [arrow for arrow, _ in self.arrows])
        parts: list[str] = []
        for points, place, (_, label) in zip(layout.arrows, layout.labels, self.arrows, strict=True):
            parts.append(_arrow(points, isinstance(label, _Type) and label.is_ordered))
            if label is not None:
                parts.append(label.svg(place))
        parts += [shape.svg(layout.boxes[name]) for name, shape in self.shapes.items()]
        return (layout.width, layout.height), "\n".join(parts)


@attrs.frozen
class _Type:
    """The type of an edge, to the right of its line."""

    text: str

    @property
    def is_ordered(self) -> bool:
        return self.text.startswith("O[")

    @property
    def rows(self) -> list[str]:
        return _wrapped(self.text, 40)

    @property
    def room(self) -> Label:
        return Label(4, 10 + max(_wide(row, 12) for row in self.rows), len(self.rows) * _ROW)

    def svg(self, at: Corner) -> str:
        kind = "tt-type tt-ordered" if self.is_ordered else "tt-type"
        rows = [_text(kind, at.x + 14, at.y + n * _ROW + 12.5, row) for n, row in enumerate(self.rows)]
        return _hovering(self.text if "…" in "".join(self.rows) else "", "".join(rows))


def _around(size: Size) -> Label:
    return Label(size[0] / 2, size[0] / 2, size[1])


def _arrow(points: Sequence[Point], is_ordered: bool) -> str:
    """A line down through points, curved where it moves to the side, with a head that ends where it ends."""
    *points, (x, y) = points
    tip, (x0, y0) = 9.0, points[0]
    path = f"M{x0:.1f} {y0:.1f}"
    for x1, y1 in [*points[1:], (x, y - tip)]:
        if abs(x1 - x0) < 0.05:
            path += f"V{y1:.1f}"
        else:
            half = (y0 + y1) / 2
            path += f"C{x0:.1f} {half:.1f} {x1:.1f} {half:.1f} {x1:.1f} {y1:.1f}"
        x0, y0 = x1, y1
    kind = " tt-ordered" if is_ordered else ""
    head = f"M{x:.1f} {y:.1f}l-4.5 {-tip - 1:g}h9z"
    return f'<path class="tt-arrow{kind}" d="{path}"/><path class="tt-head{kind}" d="{head}"/>'


@attrs.frozen(eq=False)
class Group:
    """A figure inside a frame with a caption."""

    caption: str
    inside: Figure
    hover: str = ""

    @property
    def _drawn(self) -> tuple[Size, str]:
        return self.inside.drawn()

    @property
    def size(self) -> Size:
        """Of the frame."""
        (width, height), _ = self._drawn
        return max(width, _wide(self.caption, 12)) + 2 * _INSIDE, height + _ROW + 2 * _INSIDE

    def svg(self, at: Corner) -> str:
        """The frame at a place."""
        (width, _), body = self._drawn
        caption = _text("tt-text", at.x + _INSIDE, at.y + 20, self.caption)
        moved = f'<g transform="translate({at.middle - width / 2:.1f} {at.y + _ROW + _INSIDE:.1f})">\n{body}\n</g>'
        return _hovering(self.hover, _rect("tt-group", at, 9) + caption) + moved


def svg(figure: Figure, name: str, *, style: bool) -> str:
    """A figure as an SVG element, with its style, or without it if the page has it."""
    (width, height), body = figure.drawn()
    width, height = width + 2 * _MARGIN, height + 2 * _MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{escape(name)}">\n'
        + (f"<style>{STYLE}</style>\n" if style else "")
        + _rect("tt-ground", Corner(0, 0, width, height), 6)
        + f'\n<g transform="translate({_MARGIN:g} {_MARGIN:g})">\n{body}\n</g>\n</svg>\n'
    )


# --------------------------------------------------------------------------------------------- typed graphs


def typed_graph(checked: Checked) -> Figure:
    """The graph with the type of each edge: any checked graph, also a compiled one."""
    figure = Figure()
    for node in checked.graph.nodes:
        figure.box(node.id, node_shape(node))
        for upstream in node.inputs:
            figure.arrow(upstream, node.id, str(checked.types[upstream]))
    return figure


_OUTPUTS = {"items": "source", "late": "late items of the source", "rejects": "rejects of the source"}


def node_shape(node: Node, badge: Badge | None = None, more: str = "") -> Box | Pill:
    """A node as a shape. ``more``: an additional line in the box of an operator."""
    match node:
        case Source(name=name):
            lines = [_OUTPUTS[node.output], f"markers {show_markers(node.markers)}"]
            if node.ordered_by is not None and node.output == "items":
                by = "the position of rows" if isinstance(node.ordered_by, RowPosition) else "a function of the value"
                lines.append(f"ordered by {by}")
            return Box(name, tuple(lines), badge, "source", hover_of(node))
        case Sink(name=name):
            columns = [f"column {c}: {what}" for c, what in ((node.marker, "marker"), (node.position, "position")) if c]
            columns += [f"folders by {', '.join(node.partition_by)}"] if node.partition_by else []
            columns += ["flat columns"] if node.flat else []
            return Box(name, ("sink", *columns), badge, "sink", hover_of(node))
        case Apply(op=op):
            template = next((one.__name__ for one in TEMPLATES if isinstance(op, one)), "")
            copies = f"parallelism {node.parallelism}" if node.parallelism is not None else ""
            lines = [line for line in (template, copies, more) if line]
            return Box(title(node), tuple(lines), badge, hover=hover_of(node))
        case Fused():
            return Box("fused", tuple(title(step) for step in node.steps), badge, hover=hover_of(node))
        case Sort(parallelism=copies):
            return Pill("sort" if copies is None else f"sort, parallelism {copies}", hover_of(node))
        case Receive(name=name):
            return Box(name, ("channel",), badge, "source", hover_of(node))
        case Gate(bound=bound):
            return Box(title(node), (f"{bound}",), badge, hover=hover_of(node))
        case Merge() | Split() | Gather() | Restore():
            return Pill(title(node), hover_of(node))


def hover_of(node: Node) -> str:
    """The text shown when the mouse points at a node: its line in the program, and its parameters."""
    place = f"{Path(node.where.file).name}:{node.where.line}"
    return f"{redact(show(node.op, 10_000))[:200]}\n{place}" if isinstance(node, Apply) else f"{title(node)}\n{place}"
