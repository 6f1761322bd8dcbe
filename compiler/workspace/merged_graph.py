"""The merged graph of a workspace: each operator that runs once, with the flows that need it."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Final

import attrs

from tracetypes.compiler.plan.drawing import STYLE
from tracetypes.compiler.workspace.box_places import BoxPlaces, Place
from tracetypes.compiler.workspace.operator_segments import name_of
from tracetypes.compiler.workspace.reconciler import Reconciler

__all__ = ["OperatorView", "drawn", "operators_of"]


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


def operators_of(reconciler: Reconciler) -> tuple[OperatorView, ...]:
    """All operators that run, each behind those that it reads."""
    running, host = reconciler.running, reconciler.host
    states = host.states()
    flows: dict[str, list[str]] = {}
    found: dict[str, OperatorView] = {}
    for flow in sorted(running.flows.values(), key=lambda one: one.name):
        for instance in flow.needs:
            operator = running.operators[instance]
            name = name_of(operator)
            flows.setdefault(name, []).append(flow.name)
            if name in found:
                continue
            hosted, error = host.segments.get(name), host.error(name) if name in states else None
            found[name] = OperatorView(
                name=name,
                title=reconciler.title(instance),
                inputs=tuple(name_of(running.operators[one]) for one in operator.inputs),
                flows=(),
                state=states[name].value if name in states else None,
                written=0 if hosted is None else hosted.summary.written,
                kept=max((one.size for one in host.kept_for(name).values()), default=0),
                error=None if error is None else str(error),
            )
    return tuple(attrs.evolve(one, flows=tuple(flows[one.name])) for one in found.values())


WIDTH, HEIGHT = 190, 50
"""Of a box, in pixels."""

ACROSS, DOWN = 214, 92
"""From one box to the next."""

EDGE: Final = 12

RULES: Final = """
.tt-box.tt-failed { stroke: #d1242f; stroke-width: 2px; }
.tt-box.tt-again { stroke-dasharray: 5 4; }
.tt-flow rect { outline: none; }
.tt-flow:focus .tt-box { stroke-width: 3px; }
"""


def drawn(
    operators: tuple[OperatorView, ...],
    places: BoxPlaces,
    group_of: Callable[[OperatorView], str] = lambda one: " ".join(one.flows),
) -> str:
    """The graph as SVG. ``places``: of the picture before. ``group_of``: of an operator, by which it is found and coloured: the
    attribute ``data-flows`` of its box."""
    at = places.of({one.name: one.inputs for one in operators})
    width = 2 * EDGE + ACROSS * max((one.column + 1 for one in at.values()), default=1)
    height = 2 * EDGE + DOWN * max((one.row + 1 for one in at.values()), default=1)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="tt-merged" width="{width}" height="{height}"'
        f' viewBox="0 0 {width} {height}" role="img" aria-label="{len(operators)} operators">',
        f"<style>{STYLE}{RULES}</style>",
        f'<rect class="tt-ground" width="{width}" height="{height}"/>',
    ]
    parts += [_arrow(at[above], at[one.name]) for one in operators for above in one.inputs]
    parts += [_box(one, at[one.name], group_of(one)) for one in operators]
    return "\n".join([*parts, "</svg>"])


def _corner(place: Place) -> tuple[int, int]:
    return EDGE + place.column * ACROSS, EDGE + place.row * DOWN


def _arrow(above: Place, below: Place) -> str:
    (x, y), (to_x, to_y) = _corner(above), _corner(below)
    x, y, to_x = x + WIDTH // 2, y + HEIGHT, to_x + WIDTH // 2
    middle = (y + to_y) // 2
    return f'<path class="tt-arrow" d="M{x} {y} C{x} {middle} {to_x} {middle} {to_x} {to_y}"/>'


def _box(one: OperatorView, place: Place, group: str) -> str:
    x, y = _corner(place)
    words = ["tt-box"]
    words += ["tt-source"] if not one.inputs else ["tt-sink"] if one.title.startswith("sink ") else []
    words += ["tt-failed"] if one.error is not None else ["tt-again"] if one.state is None else []
    count = len(one.flows)
    below = f"{one.written:,} rows" if one.state == "running" else one.state or "computed again by each reader"
    facts = [one.title, f"{count} {'flow' if count == 1 else 'flows'}: {', '.join(one.flows)}", below]
    facts += [f"its channel keeps {one.kept:,} bytes"] if one.kept else []
    facts += [one.error] if one.error is not None else []
    shared = f"{count} flows, " if count > 1 else ""
    return (
        f'<g class="tt-flow" tabindex="0" data-operator="{escape(one.name)}" data-flows="{escape(group)}">'
        f"<title>{escape(chr(10).join(facts))}</title>"
        f'<rect class="{" ".join(words)}" x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="6"/>'
        f'<text class="tt-title" x="{x + 10}" y="{y + 21}">{escape(_short(one.title, 20))}</text>'
        f'<text class="tt-text" x="{x + 10}" y="{y + 39}">{escape(_short(shared + below, 30))}</text></g>'
    )


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
