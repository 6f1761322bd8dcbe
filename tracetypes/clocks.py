"""The clock of a source with event time: which rows are late, which are held, and how far event time has come.

A row that is very far ahead waits until later rows tell what it is. With ``per=`` each sender has a time of its own. Decisions
depend on the rows and their order alone, never on how they were cut into splits.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from heapq import heapify, heappop, heappush, heapreplace
from typing import Generic, TypeAlias, TypeVar

import attrs

from tracetypes.markers import EventTime, Marker, show_span

__all__ = ["Clock", "Device", "Held", "OtherSender", "Verdict"]

R = TypeVar("R")

Device: TypeAlias = Hashable
"""What ``per=`` returns for a row; None without it."""

ENOUGH = 3
"""Rows that are too far ahead, of one sender, after which event time has really jumped."""


@attrs.frozen
class Held(Generic[R]):
    """A row that waits. ``time``: microseconds."""

    time: int
    device: Device
    row: R
    key: Hashable = None


@attrs.frozen
class Verdict(Generic[R]):
    """What a row is: an item of the ``block`` that ends there, late because ``closed`` was sent before, or a reject with its
    ``reason``."""

    row: R
    time: int
    block: int
    closed: int | None = None
    reason: str = ""

    @property
    def is_item(self) -> bool:
        """Neither late nor a reject."""
        return self.closed is None and not self.reason


class OtherSender(Exception):
    """A key of an ordered source came from two senders, whose order is not known."""

    def __init__(self, key: Hashable) -> None:
        self.key = key
        super().__init__(f"the key {key!r} comes from two senders")


@attrs.define
class Clock(Generic[R]):
    """The clock of one part of a source. ``newest``: the newest time of an accepted row; ``closed``: the last marker that was
    sent; ``devices``: the newest time of each sender that is not idle; ``held``: in their order of arrival. ``owners``: of an
    ordered source, the sender and the last block of each key with an open block."""

    how: EventTime
    ordered: bool = False
    newest: int | None = None
    closed: int | None = None
    devices: dict[Device, int] = attrs.Factory(dict)
    held: list[Held[R]] = attrs.Factory(list)
    owners: dict[Hashable, tuple[Device, int]] = attrs.Factory(dict)
    _slowest: list[tuple[int, int, Device]] = attrs.Factory(list)
    """A heap of times, numbers and senders. A time may be older than that of the sender."""
    _numbers: int = 0

    def take(self, time: int, device: Device, row: R, key: Hashable = None) -> list[Verdict[R]]:
        """What is known once a row has come: of this row, and of rows that were held. Raises :class:`OtherSender`."""
        new = Held(time, device, row, key)
        ahead = self.how.reach
        if self.newest is None:
            return [self._accept(new)] if self.how.ahead is None else self._begin(new, ahead)
        reference = self.devices.get(device, self.newest) if self.how.per is not None else self.newest
        mine = [one for one in self.held if one.device == device]
        if time - reference > ahead:
            if len(mine) + 1 < ENOUGH:
                self.held.append(new)
                return []
            self._forget(mine)
            return self._jump([*mine, new])
        rejects: list[Verdict[R]] = []
        if mine and reference - time <= ahead:
            self._forget(mine)
            rejects = [self._wild(one, reference) for one in mine]
        return [*rejects, self._accept(new)]

    def beat(self, time: int) -> tuple[list[Verdict[R]], int | None]:
        """A heartbeat: everything before ``time`` has been sent. Rows that were held and are not too far ahead of it, and the
        block that it ends; None if that was closed before."""
        end, reached = self.how.heartbeat(time), time + self.how.delay
        if self.closed is not None and end <= self.closed:
            return [], None
        self.newest = reached if self.newest is None else max(self.newest, reached)
        near = [one for one in self.held if one.time - self.newest <= self.how.reach]
        self._forget(near)
        verdicts = self._jump(near)
        self._close(end if self.how.per is not None else max(end, self.how.frontier(self.newest)))
        return verdicts, end

    def end(self) -> list[Verdict[R]]:
        """The input has ended: rows that are held are accepted."""
        held, self.held = self.held, []
        return self._jump(held)

    def reach(self, marker: int) -> None:
        """Somebody else has closed a marker: other parts of the source, while this one was idle."""
        self.closed = marker if self.closed is None else max(self.closed, marker)

    def _begin(self, new: Held[R], ahead: int) -> list[Verdict[R]]:
        """The first two rows: the older one is where event time begins."""
        if not self.held:
            self.held.append(new)
            return []
        (first,) = self.held
        self.held = []
        if abs(new.time - first.time) <= ahead:
            return [self._accept(first), self._accept(new)]
        older, wild = (first, new) if first.time < new.time else (new, first)
        self.held = [wild]
        return [self._accept(older)]

    def _forget(self, some: Iterable[Held[R]]) -> None:
        gone = {id(one) for one in some}
        self.held = [one for one in self.held if id(one) not in gone]

    def _wild(self, one: Held[R], reference: int) -> Verdict[R]:
        ahead = show_span(one.time - reference)
        reason = f"its time is {ahead} ahead of the newest, {Marker(reference)}, and a row near that came after it"
        return Verdict(one.row, one.time, self.how.block(one.time), reason=reason)

    def _jump(self, some: list[Held[R]]) -> list[Verdict[R]]:
        """Accept rows however far apart they are: none makes another late."""
        closed = self.closed
        verdicts = [self._placed(one, closed) for one in some]
        for one in some:
            self._advance(one.device, one.time)
        return verdicts

    def _accept(self, one: Held[R]) -> Verdict[R]:
        own = self.devices.get(one.device) if self.how.per is not None else None
        closed = self.closed
        if own is not None:
            before = self.how.frontier(own)
            closed = before if closed is None else max(closed, before)
        verdict = self._placed(one, closed)
        self._advance(one.device, one.time)
        return verdict

    def _placed(self, one: Held[R], closed: int | None) -> Verdict[R]:
        block = self.how.block(one.time)
        if closed is not None and block <= closed:
            return Verdict(one.row, one.time, block, closed)
        if self.ordered and self.how.per is not None:
            self._own(one, block)
        return Verdict(one.row, one.time, block)

    def _own(self, one: Held[R], block: int) -> None:
        device, last = self.owners.get(one.key, (one.device, block))
        if device != one.device and (self.closed is None or last > self.closed):
            raise OtherSender(one.key)
        self.owners[one.key] = one.device, max(last, block)

    def _advance(self, device: Device, time: int) -> None:
        """A row of a sender was accepted, or late."""
        how = self.how
        self.newest = time if self.newest is None else max(self.newest, time)
        if how.per is None:
            self._close(how.frontier(self.newest))
            return
        if device not in self.devices:
            self.devices[device] = time
            self._numbers += 1
            heappush(self._slowest, (time, self._numbers, device))
        else:
            self.devices[device] = max(self.devices[device], time)
        while self._slowest:
            shown, number, slowest = self._slowest[0]
            time = self.devices[slowest]
            if shown < time:
                heapreplace(self._slowest, (time, number, slowest))
            elif how.idle is not None and self.newest - time > how.idle:
                heappop(self._slowest)
                del self.devices[slowest]
            else:
                self._close(how.frontier(time))
                return

    def _close(self, marker: int) -> None:
        if self.closed is not None and marker <= self.closed:
            return
        self.closed = marker
        if self.owners:
            self.owners = {key: (device, last) for key, (device, last) in self.owners.items() if last > marker}

    def settle(self) -> Clock[R]:
        """The same clock with as little as possible to store."""
        self._slowest = [(time, number, device) for number, (device, time) in enumerate(self.devices.items())]
        self._numbers = len(self._slowest)
        heapify(self._slowest)
        return self
