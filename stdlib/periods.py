"""The periods of the markers of a stream, which say how long its blocks are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tracetypes.errors import UsageError
from tracetypes.graph import Stream
from tracetypes.markers import EventTime, show_span
from tracetypes.nodes import Gate, Source, ancestors, title

__all__ = ["multiples_of", "period_of", "periods_of"]


def multiples_of(period: int, spans: Mapping[str, int]) -> None:
    """Refuse a window whose size, slide or offset (microseconds) is no multiple of the period of the markers."""
    names = {span: name for name, span in reversed([*spans.items()])}  # a tumbling window has one size and no slide
    wrong = [f"{name} is {show_span(span)}" for span, name in names.items() if span % period]
    if wrong:
        fits = show_span(math.gcd(*spans.values()))
        raise UsageError(
            "TT125",
            f"{' and '.join(sorted(wrong))}, and markers come every {show_span(period)}",
            fix=f"let the sources send a marker every {fits}, the greatest common divisor of size, slide and offset, or at a "
            "period that divides it; say windows by size=, not by panes=",
        )


def periods_of(upstream: Stream[Any]) -> set[int | None]:
    """The periods in microseconds of the markers of all sources of a stream; None for markers in band."""
    sources = [node for node in ancestors(upstream.flow.graph, upstream.id) if isinstance(node, Source)]
    return {source.markers.period if isinstance(source.markers, EventTime) else None for source in sources}


def period_of(upstream: Stream[Any], declared: int | None = None) -> int:
    """The period of the markers of a stream in microseconds. ``declared``: what the author says of markers in band."""
    gate = next((node for node in ancestors(upstream.flow.graph, upstream.id) if isinstance(node, Gate)), None)
    if gate is not None:
        raise UsageError(
            "TT121",
            f"the {title(gate)} upstream ({gate.where}) joins blocks: they are not of one length",
            fix="aggregate before the gate, or use time_window or session, which look at the times of values",
        )
    periods = periods_of(upstream)
    sizes = sorted(period for period in periods if period is not None)
    if len(sizes) > 1:
        raise UsageError(
            "TT121",
            f"the sources upstream send markers every {' and '.join(map(show_span, sizes))}: their blocks are not of one length",
            fix="give all sources every(seconds=...) of one period",
        )
    if None in periods and declared is None:
        raise UsageError(
            "TT121",
            "a source upstream sends its markers in band: it is not known which of them end a window",
            fix="pass period= (seconds) if they are regular, or use every(seconds=...)",
        )
    if sizes and declared not in (None, sizes[0]):
        raise UsageError(
            "TT121",
            f"period is {show_span(declared or 0)}, and the sources upstream send markers every {show_span(sizes[0])}",
            fix="leave period= out",
        )
    return sizes[0] if declared is None else declared
