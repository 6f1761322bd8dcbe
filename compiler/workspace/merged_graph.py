"""The merged graph: each operator that runs once, with the flows that need it, as boxes of a picture. It needs only the core,
because the process of the service that draws it runs no operator."""

from __future__ import annotations

import attrs

from tracetypes.compiler.plan.live_page import Box, size_text

__all__ = ["OperatorView", "box_of"]


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


def box_of(one: OperatorView) -> Box:
    """An operator as a box."""
    count = len(one.flows) + one.others
    names = [*one.flows, *([f"{one.others} of other owners"] if one.others else [])]
    shared = f"{count} {'flow' if count == 1 else 'flows'}"
    state = f"{one.written:,} rows" if one.state == "running" else one.state or "part of each reader"
    facts = [f"{shared}: {', '.join(names)}", state]
    facts += [f"its channel keeps {size_text(one.kept)}"] if one.kept else []
    facts += [one.error] if one.error is not None else []
    return Box(
        name=one.name,
        title=one.title,
        inputs=one.inputs,
        lines=(shared, state) if count > 1 else (state,),
        facts=tuple(facts),
        words=one.flows,
        kind="source" if not one.inputs else "sink" if one.title.startswith("sink ") else "operator",
        look="failed" if one.error is not None else "dashed" if one.state is None else "plain",
    )
