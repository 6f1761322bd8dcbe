"""A segment that may start: its plan with all that it reads, writes and reports to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from tracetypes.compiler.backend.channel_retention import ChannelRetention
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.runtime.messages import Difference
from tracetypes.compiler.store.metrics import Batch
from tracetypes.compiler.store.run_store import RunStore

__all__ = ["OpenSegment", "Reports"]


@attrs.frozen(eq=False)
class Reports:
    """Who hears what segments do. ``on_epoch``: called after each epoch. ``on_difference``: called with traced operators that
    go on in Python, and with what was committed before."""

    on_epoch: Callable[[Batch], None]
    on_difference: Callable[[Difference, str], None]


@attrs.frozen(eq=False, kw_only=True)
class OpenSegment:
    """A segment before its start. ``shown``: its name in what it reports; empty for one that is alone. ``inputs``: by source,
    opened by the backend. ``receives``: the channels that it reads, by name. ``sends``: the channel that it feeds. ``store``:
    its earlier progress and its output. ``drain``, ``follow`` and ``verify`` as for a run. ``leaves``: when it is drained, a
    channel whose sender goes on ends for it where it is."""

    name: str
    shown: str
    plan: Plan
    inputs: Mapping[str, Any]
    receives: Mapping[str, ChannelRetention]
    sends: ChannelRetention | None
    store: RunStore
    reports: Reports
    drain: bool
    follow: bool
    verify: bool
    leaves: bool = False
