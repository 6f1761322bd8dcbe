"""What a submit would start and share, without doing it."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from tracetypes.compiler.workspace.classes import classified
from tracetypes.compiler.workspace.launches import Launch
from tracetypes.compiler.workspace.merge import merge
from tracetypes.compiler.workspace.new_flows import NO_START
from tracetypes.compiler.workspace.running import Running
from tracetypes.compiler.workspace.submission import submission
from tracetypes.errors import UsageError
from tracetypes.nodes import title

__all__ = ["DryRun", "dry_run"]

@attrs.frozen(kw_only=True)
class DryRun:
    """``start``: the operators that would start. ``shared``: those that run already, each with the flows that need it.
    ``segments``: how many of ``start`` would be segments of their own, each with a channel; the others are cheap, and are
    computed again by each reader. ``brings``: shared operators whose states the flow would take as they are."""

    start: tuple[str, ...]
    shared: tuple[tuple[str, tuple[str, ...]], ...]
    segments: int
    brings: tuple[str, ...]


def dry_run(running: Running, launch: Launch, *, exact: bool, is_visible: Callable[[str], bool]) -> DryRun:
    """What a submit would do if some flows were all that run. ``is_visible``: whether a flow counts, by its name. Nothing that
    the others run is looked at, so nothing can be learned of them. ``exact``: whether operators that keep a state start anew.
    Raises :class:`UsageError` ``TT402`` if one of these flows has the name."""
    flows = [one for one in running.flows.values() if is_visible(one.name)]
    needed = {instance for one in flows for instance in one.needs}
    visible = Running.of(running.version, [running.operators[one] for one in needed], flows)
    start = NO_START if exact else None
    submitted = submission(launch.flow, launch.checked, launch.identities, start=start, copies=launch.cheap)
    if launch.flow in visible.flows:
        fix = "give another name, or replace or remove that flow"
        raise UsageError("TT402", f"there is a flow {launch.flow!r} already", fix=fix)
    decision = merge(visible, submitted)
    nodes = launch.checked.graph.by_id
    names = {one.cls: title(nodes[one.ids[0]]) for one in classified(submitted)}
    return DryRun(
        start=tuple(title(nodes[one.id]) for one in decision.start),
        shared=tuple((names[one.cls], tuple(sorted(flow.name for flow in flows if one in flow.needs))) for one in decision.reuse),
        segments=sum(one.id not in launch.cheap for one in decision.start),
        brings=tuple(names[one.cls] for one in decision.brings),
    )
