"""The merged graph: each operator that runs once, with the flows that need it, as boxes of a picture. It needs only the core,
because the process of the service that draws it runs no operator."""

from __future__ import annotations

import attrs

from tracetypes.compiler.plan.live_page import Box, count_text, size_text

__all__ = ["OperatorView", "box_of"]


@attrs.frozen(kw_only=True)
class OperatorView:
    """An operator that runs. ``name``: no other one ever has it; ``title``: for people. ``inputs``: what it reads, by name.
    ``flows``: that need it. ``state``: of its segment, None for one that each reader computes again. ``written``: rows that
    it has sent since the process has started. ``kept``: bytes that its channel keeps for its readers. ``error``: what it failed
    of last, until it has run for some minutes again. ``seconds``: of a processor, since the process has started. ``starts``: how
    often it has started since then. ``lag``: seconds of event time between its newest item and its last marker."""

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
    seconds: float = 0.0
    starts: int = 0
    lag: float | None = None


def box_of(one: OperatorView, speed: float | None = None, busy: float | None = None) -> Box:
    """An operator as a box. ``speed``: rows that it sends a second; ``busy``: its part of one processor; None: nobody has looked
    twice."""
    count = len(one.flows) + one.others
    names = [*one.flows, *([f"{one.others} of other owners"] if one.others else [])]
    shared = f"{count} {'flow' if count == 1 else 'flows'}"
    state = f"{one.written:,} rows" if one.state == "running" else one.state or "part of each reader"
    rate = "" if speed is None else f"{count_text(speed)} rows/s"
    load = "" if busy is None else f"{busy:.0%} busy"
    facts = [f"{shared}: {', '.join(names)}", *filter(None, [state, rate, load])]
    facts += [f"{one.seconds:,.1f} processor seconds"] if one.seconds else []
    facts += [f"{count_text(one.lag)} s behind its newest row"] if one.lag is not None else []
    facts += [f"its channel keeps {size_text(one.kept)}"] if one.kept else []
    facts += [f"started {one.starts} times"] if one.starts > 1 else []
    facts += [one.error] if one.error is not None else []
    first = ", ".join(filter(None, [shared if count > 1 else "", state]))
    second = ", ".join(filter(None, [rate, load])) if one.state == "running" else ""
    return Box(
        name=one.name,
        title=one.title,
        inputs=one.inputs,
        lines=(first, second) if second else (first,),
        facts=tuple(facts),
        words=(*one.flows, one.title),
        kind="source" if not one.inputs else "sink" if one.title.startswith("sink ") else "operator",
        look="failed" if one.state == "failed" else "dashed" if one.state is None else "plain",
    )
