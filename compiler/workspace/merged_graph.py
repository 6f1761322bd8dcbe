"""The picture of the merged graph: each operator that runs once, with the flows that need it. It needs only the core, because the
process of the service that draws it runs no operator."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

import attrs

from tracetypes.compiler.plan.drawing import STYLE
from tracetypes.compiler.workspace.box_places import BoxPlaces, Place

__all__ = ["RULES", "OperatorView", "picture_of"]


@attrs.frozen(kw_only=True)
class OperatorView:
    """An operator that runs. ``name``: no other one ever has it; ``title``: for people. ``inputs``: what it reads, by name.
    ``flows``: that need it. ``state``: of its segment, None for one that each reader computes again. ``written``: rows that
    it has sent since the process has started. ``kept``: bytes that its channel keeps for its readers. ``error``: what it failed
    of."""

    name: str
    title: str
    inputs: tuple[str, ...]
    flows: tuple[str, ...]
    state: str | None
    written: int
    kept: int
    error: str | None
    others: int = 0
    """How many flows need it that are not named, because they are of other owners."""


WIDTH, HEIGHT = 190, 50
"""Of a box, in pixels."""

ACROSS, DOWN = 214, 92
"""From one box to the next."""

EDGE: Final = 12

RULES: Final = (
    STYLE
    + """
.tt-box.tt-failed { stroke: #d1242f; stroke-width: 2px; }
.tt-box.tt-again { stroke-dasharray: 5 4; }
.tt-flow rect { outline: none; }
.tt-flow:focus .tt-box { stroke-width: 3px; }
"""
)
"""How the picture looks."""


def picture_of(operators: Sequence[OperatorView], places: BoxPlaces, *, has_style: bool = True) -> str:
    """The graph as SVG. ``operators``: each behind those that it reads. ``places``: of the picture before. ``has_style``: whether
    :data:`RULES` is in it, or on the page. A box has the name of its operator and the flows that need it as attributes."""
    at = places.of({one.name: one.inputs for one in operators})
    width = 2 * EDGE + ACROSS * max((one.column + 1 for one in at.values()), default=1)
    height = 2 * EDGE + DOWN * max((one.row + 1 for one in at.values()), default=1)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="tt-merged" width="{width}" height="{height}"'
        f' viewBox="0 0 {width} {height}" role="img" aria-label="{len(operators)} operators">',
        f"<style>{RULES}</style>" if has_style else "",
        f'<rect class="tt-ground" width="{width}" height="{height}"/>',
    ]
    parts += [_arrow(at[above], at[one.name]) for one in operators for above in one.inputs]
    parts += [_box(one, at[one.name]) for one in operators]
    return "\n".join([*parts, "</svg>"])


def _corner(place: Place) -> tuple[int, int]:
    return EDGE + place.column * ACROSS, EDGE + place.row * DOWN


def _arrow(above: Place, below: Place) -> str:
    (x, y), (to_x, to_y) = _corner(above), _corner(below)
    x, y, to_x = x + WIDTH // 2, y + HEIGHT, to_x + WIDTH // 2
    middle = (y + to_y) // 2
    return f'<path class="tt-arrow" d="M{x} {y} C{x} {middle} {to_x} {middle} {to_x} {to_y}"/>'


def _box(one: OperatorView, place: Place) -> str:
    x, y = _corner(place)
    words = ["tt-box"]
    words += ["tt-source"] if not one.inputs else ["tt-sink"] if one.title.startswith("sink ") else []
    words += ["tt-failed"] if one.error is not None else ["tt-again"] if one.state is None else []
    count = len(one.flows) + one.others
    names = [*one.flows, *([f"{one.others} of other owners"] if one.others else [])]
    below = f"{one.written:,} rows" if one.state == "running" else one.state or "part of each reader"
    facts = [one.title, f"{count} {'flow' if count == 1 else 'flows'}: {', '.join(names)}", below]
    facts += [f"its channel keeps {one.kept:,} bytes"] if one.kept else []
    facts += [one.error] if one.error is not None else []
    shared = f"{count} flows, " if count > 1 else ""
    return (
        f'<g class="tt-flow" tabindex="0" data-operator="{escape(one.name)}" data-flows="{escape(" ".join(one.flows))}">'
        f"<title>{escape(chr(10).join(facts))}</title>"
        f'<rect class="{" ".join(words)}" x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="6"/>'
        f'<text class="tt-title" x="{x + 10}" y="{y + 21}">{escape(_short(one.title, 20))}</text>'
        f'<text class="tt-text" x="{x + 10}" y="{y + 39}">{escape(_short(shared + below, 30))}</text></g>'
    )


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
