"""What stateless operators emit at markers: computed where blocks are closed, so that it is emitted once (design, corner 1)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, final

import attrs

from tracetypes.compiler.columns.batches import Batch
from tracetypes.compiler.plan.facts import emits_at_markers
from tracetypes.compiler.plan.plan import MergeStep, Region, StatelessStep
from tracetypes.compiler.runtime.epoch import Epoch
from tracetypes.compiler.runtime.frontier import KeyGroups
from tracetypes.compiler.runtime.stateless import conforming_emit, stateless
from tracetypes.compiler.runtime.watch import Watches
from tracetypes.errors import LawBroken, OperatorFailed
from tracetypes.markers import Marker
from tracetypes.operator_calls import operator_failure

__all__ = ["AtMarkers", "emitted_at_marker"]


@attrs.frozen
class AtMarker:
    """A stream at a marker. ``present``: it has the marker; ``passing``: the marker is one of the silence behind its end;
    ``end``: its last marker, None while it goes on; ``pairs``: what was emitted at the marker."""

    present: bool
    passing: bool
    end: int | None
    pairs: list[tuple[Any, Any]]

    @classmethod
    def united(cls, streams: Sequence[AtMarker], marker: Marker) -> AtMarker:
        """Of a merge, which goes on until its last input has ended."""
        ends = [one.end for one in streams if one.end is not None]
        end = max(ends) if len(ends) == len(streams) else None
        passing = any(one.passing for one in streams)
        present = any(one.present for one in streams) or (passing and (end is None or marker.micros <= end))
        return cls(present, passing and not present, end, [pair for one in streams for pair in one.pairs])


def emitted_at_marker(
    region: Region,
    marker: Marker,
    present: Collection[int],
    passing: Collection[int] = (),
    ends: Sequence[int | None] = (),
    watches: Watches | None = None,
) -> list[tuple[Any, Any]]:
    """What the stateless operators of a region emit at a marker that the leaves ``present`` have sent. ``passing``: leaves that
    have ended, and have it in their silence; ``ends``: by leaf, its last marker before its silence, None while it goes on.
    ``watches``: who checks their laws."""
    emissions: list[AtMarker] = []
    leaf = 0
    for node in region.nodes:
        match node:
            case MergeStep():
                emissions.append(AtMarker.united([emissions[at] for at in node.upstreams], marker))
            case StatelessStep():
                at = emissions[node.upstream]
                emissions.append(attrs.evolve(at, pairs=_spoken(node, marker, at.pairs, at.present, watches)))
            case _:
                emissions.append(AtMarker(leaf in present, leaf in passing, ends[leaf] if ends else None, []))
                leaf += 1
    return emissions[-1].pairs


def _spoken(
    mapped: StatelessStep, marker: Marker, pairs: list[tuple[Any, Any]], has: bool, watches: Watches | None
) -> list[tuple[Any, Any]]:
    """What one of them emits for what those before it emitted at the marker, and at the marker itself."""
    out: list[tuple[Any, Any]] = []
    op = mapped.op
    watched = op if watches is None else watches.watch(op, mapped.takes, mapped.stream).at_marker(len(pairs))
    put = stateless(mapped, lambda key, value, end, position: out.append((key, value)), watched.on_item)
    for key, value in pairs:
        put(key, value, marker.micros, 0)
    if has:
        emit, refused = conforming_emit(op, mapped.stream, lambda key, value: out.append((key, value)))
        try:
            watched.on_marker(marker, emit)
            if refused:
                raise refused[0]
        except (OperatorFailed, LawBroken):
            raise
        except Exception as error:
            raise operator_failure(op, "on_marker", f"marker {marker}", error) from error
    return out


@final
class AtMarkers:
    """What the stateless operators before a stage emit at markers."""

    def __init__(self, region: Region, groups: KeyGroups, watches: Watches | None) -> None:
        self.region, self.groups, self.watches = region, groups, watches

    @classmethod
    def of(cls, region: Region, groups: KeyGroups, watches: Watches | None) -> AtMarkers | None:
        """None where they emit nothing. ``watches``: who checks their laws."""
        return cls(region, groups, watches) if emits_at_markers(region) else None

    def batch(self, end: int, present: set[int], passing: set[int], epoch: Epoch) -> Batch:
        """The items of a key group at a marker that the links ``present`` have sent. ``passing``: links that have it in their
        silence."""
        emitted = emitted_at_marker(self.region, Marker(end), present, passing, epoch.ends, self.watches)
        own = self.groups.own(epoch.group, emitted)
        return Batch([key for key, _ in own], [value for _, value in own], [end] * len(own), None)
