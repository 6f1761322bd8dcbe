"""Laws of the silence behind the end of a source: ``linger`` and ``next_due``."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

from tracetypes.equations.equality import copied
from tracetypes.equations.messages import message_of
from tracetypes.equations.subject import Abandon, Collector, Elements, Subject, items_in, text_of
from tracetypes.errors import LawBroken
from tracetypes.markers import EventTime, Marker, Time, TimeUnit
from tracetypes.operator_calls import call_operator
from tracetypes.pauses import catch_up
from tracetypes.records import show
from tracetypes.silence import blocks_of
from tracetypes.templates import overrides
from tracetypes.trace import Element, Item, blocks

__all__ = ["WHEN", "Timed", "answers_panes", "answers_whole_windows", "says_when_it_is_due", "speaks_no_longer"]

LATER: Final = (1, 2, 3, 10, 100, 10_000, 1_000_000)
"""More silent blocks, by their distance from those that the operator lingers for."""

WHEN: Final = {"next_due": "does anything", "next_emission": "may emit"}
"""Methods that say which markers matter to a key without items, and for what."""

MOST: Final = 300
"""A silence of more blocks is not tried."""

VISITS: Final = 2000
"""Of keys, in the silence behind items of a run."""

Timed = Callable[[Any], Time]
"""The event time of a value."""


def _placed(items: Iterable[Item], time: Timed, unit: TimeUnit, period: int) -> list[Element]:
    """Items in the blocks of their times, in the order of their times, with a marker behind each block."""
    how = EventTime(period, 0, time, unit)
    try:
        timed = sorted(((how.time_of(item.value), at, item) for at, item in enumerate(items)), key=lambda one: one[:2])
    except Exception:
        raise Abandon from None  # a value without a time is a reject
    elements: list[Element] = []
    last: int | None = None
    for micros, _, item in timed:
        if last is not None and how.block(micros) != last:
            elements.append(Marker(last))
        last = how.block(micros)
        elements.append(item)
    return elements if last is None else [*elements, Marker(last)]


def _of_few_keys(stream: Elements, most: int) -> Elements:
    """The items of the first keys, and the markers up to the end of the last block with an item."""
    few = set(list(dict.fromkeys(item.key for item in items_in(stream)))[:most])
    some = [one for one in stream if isinstance(one, Marker) or one.key in few]
    last = max(at for at, one in enumerate(some) if isinstance(one, Item))
    return tuple(one for at, one in enumerate(some) if at <= last or isinstance(some[at - 1], Item))


def _silence(stream: Sequence[Element], period: int, count: int) -> list[Element]:
    """``count`` markers behind the last one of a stream, and more."""
    last = max((one.micros for one in stream if isinstance(one, Marker)), default=0)
    return [Marker(last + at * period) for at in (*range(1, count + 1), *(count + more for more in LATER))]


def _period(linger: int | dt.timedelta) -> int:
    """A period in which a time that an operator lingers for has few blocks."""
    if isinstance(linger, int):
        return 1_000_000
    return max(1, linger // dt.timedelta(microseconds=1) // 4)


def speaks_no_longer(
    time: Timed | None, unit: TimeUnit, markers: int | None, subject: Subject, stream: Elements, law: str
) -> LawBroken | None:
    """In longer silence than an operator lingers for it emits nothing. ``markers``: their period in microseconds, where they
    fit the times of the values, and the items are those of a run. There an operator that never ends is cut off as it says."""
    subject.world.reset()
    linger = subject.op.linger()
    period = markers or _period(linger)
    count = blocks_of(linger, period)
    if count > MOST or not items_in(stream):
        return None
    if markers is not None:
        stream = _of_few_keys(stream, max(1, VISITS // (count + len(LATER))))
    whole = list(stream) if time is None else _placed(items_in(stream), time, unit, period)
    if not whole or not isinstance(whole[-1], Marker):
        whole += _silence(whole, period, 1)[:1]
    silence = _silence(whole, period, count)
    out = subject.run([*whole, *silence])
    if markers is not None and out and isinstance(out[-2:][0], Item):
        return None
    for block in blocks(out):
        if block.marker in silence[count:] and block.items:
            text = f"{linger} block{'s' * (linger != 1)}" if isinstance(linger, int) else str(linger)
            return LawBroken(
                "TT314",
                message_of(
                    f"{subject.name}: it says that it lingers for {text}, and emits later",
                    law,
                    [
                        ("items", text_of(whole)),
                        ("silence", f"{count} blocks, and more"),
                        ("emitted", f"{text_of(block.items)} at {block.marker}"),
                        ("expected", "nothing"),
                    ],
                ),
                fix="let linger() return how long it may emit behind its last item; or emit nothing for old items",
            )
    return None


def says_when_it_is_due(subject: Subject, stream: Elements, law: str) -> LawBroken | None:
    """Without the markers before ``next_due`` an ordered operator emits the same; and with the last of those before
    ``next_emission``."""
    linger = subject.op.linger()
    count = min(blocks_of(linger, _period(linger)), MOST)
    whole = [*stream, *_silence(stream, _period(linger), count)]
    visited = _run(subject, whole)
    for method, what in ((name, what) for name, what in WHEN.items() if overrides(subject.op, name)):
        left_out = _run(subject, whole, method)
        if not subject.equal(visited, left_out):
            return LawBroken(
                "TT314",
                message_of(
                    f"{subject.name}: {method} is defined, but a marker before it matters",
                    law,
                    [
                        ("items", text_of(whole)),
                        ("at each marker", text_of([one for one in visited if isinstance(one, Item)])),
                        ("when due", text_of([one for one in left_out if isinstance(one, Item)])),
                    ],
                ),
                fix=f"let {method} return the earliest time of a marker at which on_marker {what}; or do not define it",
            )
    return None


def answers_whole_windows(subject: Subject, stream: Elements, law: str) -> LawBroken | None:
    """An operator that tumbles answers the same when the blocks of each window are joined."""
    size, offset = subject.op.tumbles()
    linger = subject.op.linger()
    count = linger + 1 if isinstance(linger, int) else 2
    if count > MOST or size % count:
        return None
    by_block = list(_in_blocks(stream))
    apart: list[Element] = []
    for end in range(1, max((end for end, _ in by_block), default=0) + count + 1):
        apart += [item for at, item in by_block if at == end]
        apart.append(Marker(offset + end * (size // count)))
    whole = subject.run(apart)
    subject.world.reset()
    op, emitter = subject.op, Collector(subject.op, subject.gives)
    open_: dict[Any, Any] = {}
    for element in copied(apart):
        at = repr(element)
        if isinstance(element, Item):
            lifted = call_operator(op, "lift", at, op.lift, element.key, element.value)
            before = open_[element.key] if element.key in open_ else call_operator(op, "identity", at, op.identity)
            open_[element.key] = call_operator(op, "combine", at, op.combine, before, lifted)
        elif not (element.micros - offset) % size:
            for key, agg in open_.items():
                start = call_operator(op, "initial_state", at, op.initial_state)
                state = call_operator(op, "update_state", at, op.update_state, start, agg)
                call_operator(op, "on_marker", at, op.on_marker, state, key, element, emitter.pair)
            open_.clear()
            emitter.out.append(element)
        else:
            emitter.out.append(element)
    if subject.equal(whole, tuple(emitter.out)):
        return None
    return LawBroken(
        "TT314",
        message_of(
            f"{subject.name}: it says that it tumbles, and joined blocks change what it answers",
            law,
            [
                ("items", text_of(apart)),
                ("by blocks", text_of([one for one in whole if isinstance(one, Item)])),
                ("by windows", text_of([one for one in emitter.out if isinstance(one, Item)])),
            ],
        ),
        fix="answer whole windows from their items alone; or do not define tumbles()",
    )


def answers_panes(subject: Subject, stream: Elements, law: str) -> LawBroken | None:
    """The operator that it names for fewer markers answers the same of joined blocks."""
    coarser = subject.op.coarser()
    linger, by_block, panes = subject.op.linger(), list(_in_blocks(stream)), coarser.blocks
    if not isinstance(linger, int) or linger > MOST:
        return None
    apart, joined = list[Element](), list[Element]()
    period, offset = coarser.size // panes, coarser.offset
    last = max((end for end, _ in by_block), default=0) + linger + panes
    for end in range(1, last - last % panes + 1):
        items = [item for at, item in by_block if at == end]
        apart += [*items, Marker(offset + end * period)]
        joined += items if end % panes else [*items, Marker(offset + end * period)]
    of_all, of_some = subject.run(apart), subject.run(joined, coarser.op)
    left = tuple(one for one in of_all if isinstance(one, Item) or not (one.micros - offset) % coarser.size)
    if subject.equal(left, of_some):
        return None
    return LawBroken(
        "TT314",
        message_of(
            f"{subject.name}: it names an operator for joined blocks, which answers something else",
            law,
            [
                ("items", text_of(apart)),
                ("by blocks", text_of([one for one in of_all if isinstance(one, Item)])),
                ("by joined blocks", text_of([one for one in of_some if isinstance(one, Item)])),
            ],
        ),
        fix="let coarser() name an operator that emits the same at the markers of the grid; or do not define it",
    )


def _in_blocks(stream: Elements) -> Iterable[tuple[int, Item]]:
    """Items with the numbers of their blocks, from 1."""
    number = 1
    for element in stream:
        if isinstance(element, Item):
            yield number, element
        else:
            number += 1


def _run(subject: Subject, stream: Sequence[Element], method: str | None = None) -> Elements:
    """Runs an ordered operator; without the markers before the time that a ``method`` says of a key without items."""
    subject.world.reset()
    op, emitter = subject.op, Collector(subject.op, subject.gives)
    states: dict[Any, Any] = {}
    touched: set[Any] = set()
    last: Marker | None = None
    for item in copied(list(stream)):
        at = repr(item)
        if isinstance(item, Marker):
            for key in states:
                if method is not None and key not in touched:
                    due = call_operator(op, method, show(key), getattr(op, method), states[key], key)
                    if due is None or due > item.micros:
                        continue
                emit = partial(emitter.pair, key)
                if last is not None and method == "next_emission" and key not in touched:
                    states[key] = call_operator(op, "on_marker", at, catch_up, op, states[key], key, last, emit)
                states[key] = call_operator(op, "on_marker", at, op.on_marker, states[key], key, item, emit)
            touched.clear()
            emitter.out.append(item)
            last = item
        else:
            emit = partial(emitter.pair, item.key)
            if item.key not in states:
                states[item.key] = call_operator(op, "initial_state", at, op.initial_state)
            elif last is not None and method == "next_emission" and item.key not in touched:
                states[item.key] = call_operator(op, "on_marker", at, catch_up, op, states[item.key], item.key, last, emit)
            states[item.key] = call_operator(op, "on_item", at, op.on_item, states[item.key], item.key, item.value, emit)
            touched.add(item.key)
    return tuple(emitter.out)
