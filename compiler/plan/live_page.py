"""What a page shows of something that runs: boxes with arrows between them, and tables. A workspace and a run give the same.

A :class:`LivePage` is data. :class:`Drawing` makes HTML of it, in parts and pieces: a part has the places of its pieces and what
is between them, and a piece is a box or a row. While the parts stay, a browser gets the pieces that have changed. It needs only
the core, because the process that draws it runs no operator.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from html import escape
from typing import Any, Final, Literal

import attrs

from tracetypes.compiler.plan.box_places import BoxPlaces, Place
from tracetypes.compiler.plan.drawing import STYLE

__all__ = [
    "RULES",
    "Box",
    "Column",
    "Drawing",
    "LivePage",
    "Row",
    "Shown",
    "Speeds",
    "Table",
    "count_text",
    "picture_of",
    "size_text",
]

COLOURS: Final = 8
"""Of owners. More owners than that share them."""


@attrs.frozen(kw_only=True)
class Box:
    """A box of the picture. ``name``: no other one ever has it; ``title``: for people. ``inputs``: the boxes that it reads, by
    name. ``lines``: two at most, below the title. ``facts``: what is seen when one points at it. ``words``: by which the filter
    finds it. ``look``: a dashed one is computed by each reader. ``stripes``: colours from 0 of those whom it belongs to, None is
    grey."""

    name: str
    title: str
    inputs: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    kind: Literal["source", "operator", "gate", "sink"] = "operator"
    look: Literal["plain", "dashed", "failed"] = "plain"
    stripes: tuple[int | None, ...] = ()


@attrs.frozen
class Column:
    """Of a table. ``about``: what is seen when one points at its name."""

    name: str
    is_number: bool = False
    about: str = ""


@attrs.frozen(kw_only=True)
class Row:
    """Of a table. ``name``: no other row has it. ``cells``: the first one is the heading of the row. ``words``: by which the
    filter finds it; None: it is always there. ``stripe``: as of a box; ``has_stripe``: whether it has one."""

    name: str
    cells: tuple[str, ...]
    words: str | None = None
    is_failed: bool = False
    has_stripe: bool = False
    stripe: int | None = None


@attrs.frozen(kw_only=True)
class Table:
    """A table below the picture. ``is_long``: it is shown when somebody opens it."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    is_long: bool = False


@attrs.frozen(kw_only=True)
class LivePage:
    """All that is on the page. ``heading``: what runs, and how it does. ``boxes``: each behind those that it reads."""

    heading: str
    boxes: tuple[Box, ...]
    tables: tuple[Table, ...] = ()

    @property
    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return attrs.asdict(self)

    @classmethod
    def of_plain(cls, plain: Mapping[str, Any]) -> LivePage:
        """From JSON."""
        boxes = tuple(Box(**{name: _tuple(one) for name, one in each.items()}) for each in plain["boxes"])
        tables = tuple(
            Table(
                title=each["title"],
                columns=tuple(Column(**one) for one in each["columns"]),
                rows=tuple(Row(**{name: _tuple(cell) for name, cell in one.items()}) for one in each["rows"]),
                is_long=each["is_long"],
            )
            for each in plain["tables"]
        )
        return cls(heading=plain["heading"], boxes=boxes, tables=tables)


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


# ----------------------------------------------------------------------------------------------------- as HTML

WIDTH, HEIGHT = 190, 66
"""Of a box, in pixels."""

ACROSS, DOWN = 214, 108
"""From one box to the next."""

EDGE: Final = 12

_HUES: Final = ("#0969da", "#bf3989", "#1a7f37", "#bc4c00", "#8250df", "#0e8a8a", "#9a6700", "#cf222e")
"""Of owners. Each has a contrast of 3 or more to a white and to a black ground."""

RULES: Final = (
    STYLE
    + """
.tt-box.tt-failed { stroke: #d1242f; stroke-width: 2px; }
.tt-box.tt-dashed { stroke-dasharray: 5 4; }
.tt-box.tt-gate { stroke: #b98a00; }
.tt-flow { outline: none; }
.tt-flow:focus .tt-box { stroke-width: 3.5px; }
.tt-stripe { fill: #8b949e; }
"""
    + "".join(f".tt-stripe.tt-colour-{number} {{ fill: {hue}; }}\n" for number, hue in enumerate(_HUES))
)
"""How the picture looks."""


@attrs.frozen
class Shown:
    """A page as HTML. ``parts``: by the id of their place. ``frames``: the same without the pieces; while a frame stays, its
    pieces stay where they are. ``pieces``: by name, for each part."""

    parts: Mapping[str, str]
    frames: Mapping[str, str]
    pieces: Mapping[str, Mapping[str, str]]

    def since(self, last: Shown | None) -> dict[str, Any]:
        """What a browser needs that has the last one: parts as a whole, or pieces. Empty if nothing has changed."""
        parts, pieces = dict[str, str](), dict[str, str]()
        for name, text in self.parts.items():
            if last is None or last.frames.get(name) != self.frames[name]:
                parts[name] = text
            else:
                before = last.pieces[name]
                pieces |= {piece: one for piece, one in self.pieces[name].items() if before.get(piece) != one}
        return {what: found for what, found in (("parts", parts), ("pieces", pieces)) if found}


class Drawing:
    """The pictures of one viewer, one after the other: a box keeps its place while it is there."""

    def __init__(self) -> None:
        self._places = BoxPlaces()

    def of(self, page: LivePage) -> Shown:
        """A page as HTML."""
        graph, frame, boxes = _graph(page.boxes, self._places)
        tables = [_table(number, table) for number, table in enumerate(page.tables)]
        heading = escape(page.heading)
        return Shown(
            {"heading": heading, "graph": graph, "tables": "".join(text for text, _, _ in tables)},
            {"heading": heading, "graph": frame, "tables": "".join(frame for _, frame, _ in tables)},
            {"heading": {}, "graph": boxes, "tables": {name: row for _, _, rows in tables for name, row in rows.items()}},
        )


def picture_of(boxes: Sequence[Box], places: BoxPlaces) -> str:
    """The picture alone, with its style. ``places``: of the picture before."""
    return _graph(boxes, places, f"<style>{RULES}</style>")[0]


def _graph(boxes: Sequence[Box], places: BoxPlaces, style: str = "") -> tuple[str, str, dict[str, str]]:
    """The picture, the same without its boxes, and these."""
    at = places.of({one.name: one.inputs for one in boxes})
    width = 2 * EDGE + ACROSS * max((one.column + 1 for one in at.values()), default=1)
    height = 2 * EDGE + DOWN * (max((one.row + 1 for one in at.values()), default=1)) - (DOWN - HEIGHT)
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="tt-merged" width="{width}" height="{height}"'
        f' viewBox="0 0 {width} {height}" role="group" aria-label="{count_text(len(boxes))} operators">{style}',
        f'<rect class="tt-ground" width="{width}" height="{height}"/>',
        *(_arrow(at[above], at[one.name]) for one in boxes for above in one.inputs),
    ]
    pieces = {f"box {one.name}": _box(one, at[one.name]) for one in boxes}
    frame = "\n".join([*head, *(f"{name} {at[name.removeprefix('box ')]}" for name in pieces)])
    return "\n".join([*head, *pieces.values(), "</svg>"]), frame, pieces


def _corner(place: Place) -> tuple[int, int]:
    return EDGE + place.column * ACROSS, EDGE + place.row * DOWN


def _arrow(above: Place, below: Place) -> str:
    (x, y), (to_x, to_y) = _corner(above), _corner(below)
    x, y, to_x = x + WIDTH // 2, y + HEIGHT, to_x + WIDTH // 2
    middle = (y + to_y) // 2
    return f'<path class="tt-arrow" d="M{x} {y} C{x} {middle} {to_x} {middle} {to_x} {to_y}"/>'


def _box(one: Box, place: Place) -> str:
    x, y = _corner(place)
    words = ["tt-box", f"tt-{one.kind}", f"tt-{one.look}"]
    stripes = [
        f'<rect class="tt-stripe{_colour(colour)}" x="{x + 1}" y="{y + 8 + number * 50 // len(one.stripes)}" width="4" '
        f'height="{50 // len(one.stripes)}"/>'
        for number, colour in enumerate(one.stripes)
    ]
    lines = [
        f'<text class="tt-text" x="{x + 11}" y="{y + 39 + 17 * number}">{escape(_short(line, 29))}</text>'
        for number, line in enumerate(one.lines[:2])
    ]
    label, hover = escape(", ".join([one.title, *one.lines])), escape("\n".join([one.title, *one.facts]))
    return (
        f'<g class="tt-flow" tabindex="0" role="img"'
        f' data-piece="box {escape(one.name)}" data-words="{escape(" ".join(one.words))}"'
        f' aria-label="{label}"><title>{hover}</title>'
        f'<rect class="{" ".join(words)}" x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="6"/>{"".join(stripes)}'
        f'<text class="tt-title" x="{x + 11}" y="{y + 21}">{escape(_short(one.title, 20))}</text>{"".join(lines)}</g>'
    )


def _colour(colour: int | None) -> str:
    return "" if colour is None else f" tt-colour-{colour % COLOURS}"


def _table(number: int, table: Table) -> tuple[str, str, dict[str, str]]:
    """A table, the same without its rows, and these."""
    heads = "".join(
        f'<th scope="col"{_of_number(one)}{_about(one)}>{escape(one.name)}</th>' for one in table.columns
    )
    pieces = {f"row {number} {row.name}": _row(f"row {number} {row.name}", table.columns, row) for row in table.rows}
    head = f'<details class="tt-table"{"" if table.is_long else " open"}><summary>{escape(table.title)}</summary>'
    head += f"<table><thead><tr>{heads}</tr></thead><tbody>"
    return f"{head}{''.join(pieces.values())}</tbody></table></details>", head + "\n".join(pieces), pieces


def _row(name: str, columns: Sequence[Column], row: Row) -> str:
    stripe = f'<svg class="tt-mark" width="10" height="10" aria-hidden="true">{_mark(row)}</svg> ' if row.has_stripe else ""
    cells = [f'<th scope="row">{stripe}{escape(row.cells[0])}</th>']
    cells += [
        f'<td{_of_number(column)} data-name="{escape(column.name)}">{escape(cell)}</td>'
        for column, cell in zip(columns[1:], row.cells[1:], strict=True)
    ]
    words = "" if row.words is None else f' data-words="{escape(row.words)}"'
    state = ' class="tt-failed"' if row.is_failed else ""
    return f'<tr data-piece="{escape(name)}"{words}{state}>{"".join(cells)}</tr>'


def _mark(row: Row) -> str:
    return f'<rect class="tt-stripe{_colour(row.stripe)}" width="10" height="10" rx="2"/>'


def _of_number(column: Column) -> str:
    return ' class="tt-number"' if column.is_number else ""


def _about(column: Column) -> str:
    return f' title="{escape(column.about)}"' if column.about else ""


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def count_text(number: float) -> str:
    """A number for people: without digits that nobody reads."""
    if abs(number) >= 10 or number == int(number):
        return f"{number:,.0f}"
    return f"{number:,.1f}"


def size_text(size: int) -> str:
    """Bytes for people."""
    amount = float(size)
    for unit in ("B", "kB", "MB"):
        if amount < 1000:
            return f"{amount:,.{0 if unit == 'B' else 1}f} {unit}"
        amount /= 1000
    return f"{amount:,.1f} GB"


class Speeds:
    """How fast counts grow, each by its name: over the last seconds, and at least from one look to the next."""

    def __init__(self, seconds: float = 5.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._looks: dict[str, deque[tuple[float, float]]] = {}

    def of(self, name: str, count: float) -> float:
        """A second. 0 at the first look, and where a count starts anew."""
        now, looks = self._clock(), self._looks.setdefault(name, deque())
        if looks and count < looks[-1][1]:
            looks.clear()
        looks.append((now, count))
        while len(looks) > 2 and looks[1][0] <= now - self._seconds:
            looks.popleft()
        (then, before) = looks[0]
        passed = now - then
        return (count - before) / passed if passed > 0 else 0.0

    def keep(self, names: Collection[str]) -> None:
        """Forget all others."""
        for gone in self._looks.keys() - set(names):
            del self._looks[gone]
