"""Laws of keys without items: ``skips_untouched`` and ``forgets_idle``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from tracetypes.equations.equality import copied, same
from tracetypes.equations.messages import message_of
from tracetypes.equations.subject import Collector, Elements, Subject, items_in, text_of
from tracetypes.errors import LawBroken
from tracetypes.markers import Marker
from tracetypes.operator_calls import call_operator
from tracetypes.records import show
from tracetypes.trace import Element

__all__ = ["is_silent_when_idle", "is_silent_when_unseen", "leaves_unseen_keys", "skips_without_trace"]


def _visit(
    subject: Subject, stream: Elements, *, skipping: bool
) -> tuple[Elements, list[tuple[Any, Marker, Sequence[Element]]]]:
    """Table 3 of the paper, without the visits of untouched keys if ``skipping``; and what such visits emitted."""
    subject.world.reset()
    op, emitter = subject.op, Collector(subject.op, subject.gives)
    states: dict[Any, Any] = {}
    aggregates: dict[Any, Any] = {}
    noise: list[tuple[Any, Marker, Sequence[Element]]] = []
    start = call_operator(op, "initial_state", "the start", op.initial_state)
    for item in copied(list(stream)):
        at = repr(item)
        if isinstance(item, Marker):
            for key in states:
                if key not in aggregates and skipping:
                    continue
                agg = aggregates[key] if key in aggregates else call_operator(op, "identity", at, op.identity)
                states[key] = call_operator(op, "update_state", at, op.update_state, states[key], agg)
                before = len(emitter.out)
                call_operator(op, "on_marker", at, op.on_marker, states[key], key, item, emitter.pair)
                if key not in aggregates and len(emitter.out) > before:
                    noise.append((key, item, emitter.out[before:]))
            aggregates.clear()
            if not skipping:
                start = call_operator(op, "update_state", at, op.update_state, start, op.identity())
            emitter.out.append(item)
        else:
            if item.key not in states:
                states[item.key] = start
            call_operator(op, "on_item", at, op.on_item, states[item.key], item.key, item.value, emitter.pair)
            lifted = call_operator(op, "lift", at, op.lift, item.key, item.value)
            if item.key not in aggregates:
                aggregates[item.key] = call_operator(op, "identity", at, op.identity)
            aggregates[item.key] = call_operator(op, "combine", at, op.combine, aggregates[item.key], lifted)
    return tuple(emitter.out), noise


def is_silent_when_idle(subject: Subject, stream: Elements, law: str) -> LawBroken | None:
    _, noise = _visit(subject, stream, skipping=False)
    if not noise:
        return None
    key, marker, emitted = noise[0]
    return LawBroken(
        "TT307",
        message_of(
            f"{subject.name}: skips_untouched is declared, but a key without items in a block emits at its marker",
            law,
            [
                ("items", text_of(stream)),
                ("emitted", f"{text_of(emitted)} at {marker} for the key {show(key)}"),
                ("expected", "nothing"),
            ],
        ),
        fix="remember in the state whether the block held anything, and emit only then; or remove skips_untouched = True",
    )


def skips_without_trace(subject: Subject, stream: Elements, law: str) -> LawBroken | None:
    visited, _ = _visit(subject, stream, skipping=False)
    skipped, _ = _visit(subject, stream, skipping=True)
    if subject.equal(visited, skipped):
        return None
    return LawBroken(
        "TT307",
        message_of(
            f"{subject.name}: skips_untouched is declared, but leaving the identity update out changes the output",
            law,
            [("items", text_of(stream)), ("visited", text_of(visited)), ("skipped", text_of(skipped))],
        ),
        fix="let update_state(state, identity()) change nothing that is ever emitted; or remove skips_untouched = True",
    )


def is_silent_when_unseen(subject: Subject, stream: Elements, law: str) -> LawBroken | None:
    subject.world.reset()
    op, emitter = subject.op, Collector(subject.op, subject.gives)
    keys = {repr(item.key): item.key for item in items_in(stream)}.values()
    start = call_operator(op, "initial_state", "the start", op.initial_state)
    markers = 0
    for item in stream:
        if not isinstance(item, Marker):
            continue
        at = repr(item)
        start = call_operator(op, "update_state", at, op.update_state, start, call_operator(op, "identity", at, op.identity))
        markers += 1
        for key in keys:
            call_operator(op, "on_marker", at, op.on_marker, start, key, item, emitter.pair)
            if emitter.out:
                lines = [
                    ("key", show(key)),
                    (
                        "state",
                        f"{show(start)}, from initial_state() and {markers} identity update{'s' * (markers > 1)}",
                    ),
                    ("emitted", f"{text_of(emitter.out)} at {item}"),
                    ("expected", "nothing"),
                ]
                what = f"{subject.name}: forgets_idle is declared, but a key that was never seen would emit at a marker"
                fix = "emit only where the state holds something of the key's items; or remove forgets_idle = True"
                return LawBroken("TT307", message_of(what, law, lines), fix=fix)
    return None


def leaves_unseen_keys(subject: Subject, stream: Elements, law: str) -> LawBroken | None:
    """Of an ordered operator."""
    subject.world.reset()
    op = subject.op
    keys = {repr(item.key): item.key for item in items_in(stream)}.values()
    for marker in stream:
        if not isinstance(marker, Marker):
            continue
        for key in keys:
            emitter = Collector(op, subject.gives)
            start = call_operator(op, "initial_state", "the start", op.initial_state)
            emit = partial(emitter.pair, key)
            result = call_operator(op, "on_marker", repr(marker), op.on_marker, start, key, marker, emit)
            start = call_operator(op, "initial_state", "the start", op.initial_state)
            if emitter.out or not same(result, start):
                what = f"emits {text_of(emitter.out)}" if emitter.out else f"makes {show(result)} of it"
                lines = [
                    ("key", show(key)),
                    ("state", f"{show(start)}, from initial_state()"),
                    ("on_marker", f"{what} at {marker}"),
                    ("expected", "nothing emitted, and the same state"),
                ]
                text = f"{subject.name}: forgets_idle is declared, but on_marker does something for a key that was never seen"
                fix = "let on_marker return initial_state() as it is, and emit nothing for it; or remove forgets_idle = True"
                return LawBroken("TT307", message_of(text, law, lines), fix=fix)
    return None
