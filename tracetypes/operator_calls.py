"""The sequential algorithms of the templates, as the definition runs them, and what is said of an operator that fails
(data-trace-types, section 4.2).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from tracetypes.blame import blamed, calls_in
from tracetypes.conformance import conformer, key_conformer, key_problem
from tracetypes.elements import Piece, mark
from tracetypes.errors import LawBroken, OperatorFailed, raised_at
from tracetypes.marker_runs import MarkerRuns
from tracetypes.markers import Marker
from tracetypes.pauses import catch_up, start_after
from tracetypes.plain_values import indistinguishable
from tracetypes.records import Mismatch, show
from tracetypes.self_description import SelfDescribing, name_of_operator
from tracetypes.state_check import NO_KEY, aggregates_of, ran, states_of
from tracetypes.templates import OpKeyedOrdered, OpKeyedUnordered, OpStateless, overrides
from tracetypes.trace import Element, Item, StreamType

__all__ = [
    "BEFORE_ALL",
    "Emitter",
    "call_operator",
    "emitted_wrongly",
    "operator_failure",
    "run_ordered",
    "run_stateless",
    "run_unordered",
]


def operator_failure(op: object, method: str, what: str, error: BaseException) -> OperatorFailed:
    """The error of an operator that raised: which operator, which method, which item or marker, and on which
    line of the author's. Of an operator of the library: which part of it that its author gave."""
    if isinstance(op, SelfDescribing) and type(op).__module__.startswith("tracetypes."):
        who = blamed(op, calls_in(error.__traceback__)).text
    else:
        who = f"{type(op).__name__}.{method}"
    text, fix = str(error), "correct the operator and run again: nothing of this step was kept, the run goes on where it was"
    if isinstance(error, TypeError) and text.startswith(_CALLS_OF_EMIT):
        emit = "emit(value)" if isinstance(op, OpKeyedOrdered) else "emit(key, value)"
        text, fix = _METHOD_OF_EMIT.sub("emit()", text), f"call {emit}; {fix}"
    return OperatorFailed(
        "TT202", f"{who} raised {type(error).__name__}: {text}\n    at:       {what}", fix=fix, where=raised_at(error)
    )


_CALLS_OF_EMIT: Final = (
    "emit() missing",
    "emit() takes",
    "emit() got",
    "list.append() takes exactly one argument (2 given)",
    "generator.send() takes exactly one argument (2 given)",
)
"""How Python begins to say that an emitter was called with other arguments."""


_METHOD_OF_EMIT: Final = re.compile(r"list\.append\(\)|generator\.send\(\)")


def emitted_wrongly(op: object, error: Mismatch | str, key: Any, value: Any) -> OperatorFailed:
    """The error of an operator that emitted what its type does not allow."""
    name = name_of_operator(op)
    fix = f"emit what the type arguments of {name} say, or change them"
    if value is None:
        fix += "; a function returns None where a path of it has no return"
    return OperatorFailed("TT206", f"{name} emitted ({show(key)}, {show(value)}): {error}", fix=fix)


class Emitter:
    """Collects what an operator emits, made to fit its output type."""

    def __init__(self, op: object, stream: StreamType) -> None:
        self.op, self.schema = op, stream.key
        self.fit_key, self.fit_value = key_conformer(stream.key), conformer(stream.value)
        self.out: list[Any] = []
        """The pieces of the stream that comes out."""
        self.refused: OperatorFailed | None = None
        """The first emission that did not fit. The author's code may have caught the error."""

    def pair(self, key: Any, value: Any) -> None:
        try:
            key, value_ = self.fit_key(key), self.fit_value(value)
        except Mismatch as error:
            raise self.refuse(error, key, value) from None
        if problem := key_problem(self.schema, key):
            raise self.refuse(problem, key, value)
        self.out.append(Item(key, value_))

    pair.__qualname__ = "emit"  # what authors call it, in the messages of Python

    def refuse(self, problem: Mismatch | str, key: Any, value: Any) -> OperatorFailed:
        """The error of an emission that does not fit."""
        error = emitted_wrongly(self.op, problem, key, value)
        self.refused = self.refused or error
        return error

    def judge(self) -> None:
        """Raise the error of an emission that did not fit, also where the author's code has caught it: the item would be lost."""
        if self.refused is not None:
            raise self.refused


def run_stateless(
    op: OpStateless[Any, Any, Any, Any], channel: Iterable[Piece[Element]], emitter: Emitter, emits_at_markers: bool
) -> None:
    """``emits_at_markers``: of several copies of one operator only one emits at markers (design, corner 1)."""

    def visit(marker: Marker) -> None:
        if emits_at_markers:
            call_operator(op, "on_marker", f"marker {marker}", op.on_marker, marker, emitter.pair)
        emitter.out.append(marker)

    def due() -> int | None:
        return BEFORE_ALL if emits_at_markers and overrides(op, "on_marker") else None

    for item in channel:
        if isinstance(item, MarkerRuns):
            _visit(item, emitter, due, visit)
        elif isinstance(item, Marker):
            visit(item)
        else:
            odd = call_operator(op, "on_item", f"item {item}", op.on_item, item.key, item.value, emitter.pair)
            ran(op, "on_item", item.key, odd)


BEFORE_ALL: Final = -(2**63)
"""Due at any marker."""


def _visit(
    markers: MarkerRuns,
    emitter: Emitter,
    due: Callable[[], int | None],
    visit: Callable[[Marker], None],
    leave_out: Callable[[MarkerRuns], None] = lambda markers: None,
) -> None:
    """A pause: visit the markers at which something may be due. ``due``: a time before which nothing is, None for never;
    ``leave_out``: is told of those between."""
    rest = markers
    while rest:
        time = due()
        marker = None if time is None else rest.next(time)
        between = rest if marker is None else rest.up_to(marker - 1)
        if between:
            mark(emitter.out, between)
            leave_out(between)
        if marker is not None:
            visit(Marker(marker))
        rest = rest.after(between[-1] if marker is None else marker)


def run_ordered(op: OpKeyedOrdered[Any, Any, Any, Any], channel: Iterable[Piece[Element]], emitter: Emitter) -> None:
    """Key by key; in a pause at the markers that :meth:`~tracetypes.OpKeyedOrdered.next_due` says."""
    states: dict[Any, Any] = {}
    state = states_of(op).returned

    def visit(marker: Marker) -> None:
        here = f"marker {marker}"
        for key in states:
            emit = _same_key(emitter, key)
            at = f"key {key!r}, {here}"
            after = call_operator(op, "on_marker", at, op.on_marker, states[key], key, marker, emit)
            states[key] = state("on_marker", key, after)
        emitter.out.append(marker)

    def due() -> int | None:
        method = "next_emission" if overrides(op, "next_emission") else "next_due"
        if not states or not overrides(op, "on_marker"):
            return None
        if not overrides(op, method):
            return BEFORE_ALL
        times = (call_operator(op, method, f"key {key!r}", getattr(op, method), states[key], key) for key in states)
        return min((time for time in times if time is not None), default=None)

    def leave_out(markers: MarkerRuns) -> None:
        last = Marker(markers[-1])
        for key in states if overrides(op, "next_emission") else ():
            at = f"key {key!r}, marker {last}"
            states[key] = call_operator(op, "on_marker", at, catch_up, op, states[key], key, last)

    for item in channel:
        if isinstance(item, MarkerRuns):
            _visit(item, emitter, due, visit, leave_out)
        elif isinstance(item, Marker):
            visit(item)
        else:
            if item.key not in states:
                first = call_operator(op, "initial_state", f"item {item}", op.initial_state)
                states[item.key] = state("initial_state", item.key, first)
            emit = _same_key(emitter, item.key)
            at = f"item {item}"
            after = call_operator(op, "on_item", at, op.on_item, states[item.key], item.key, item.value, emit)
            states[item.key] = state("on_item", item.key, after)


def _same_key(emitter: Emitter, key: Any) -> Callable[[Any], None]:
    def emit(value: Any) -> None:
        emitter.pair(key, value)

    emit.__qualname__ = "emit"
    return emit


def run_unordered(
    op: OpKeyedUnordered[Any, Any, Any, Any, Any, Any], channel: Iterable[Piece[Element]], emitter: Emitter
) -> None:
    """Table 3 of the paper, word for word; and in a pause what the class declares (``skips_untouched``, ``forgets_idle``)."""
    states: dict[Any, Any] = {}
    aggregates: dict[Any, Any] = {}
    state, aggregate = states_of(op).returned, aggregates_of(op).returned
    start = state("initial_state", NO_KEY, call_operator(op, "initial_state", "the start", op.initial_state))
    idle: set[Any] = set()
    """In a pause: keys whose state is that of a key to come."""

    def visit(marker: Marker) -> None:
        nonlocal start
        here = f"marker {marker}"
        for key in states:
            if key in idle:
                continue
            at = f"key {key!r}, {here}"
            after = call_operator(op, "update_state", at, op.update_state, states[key], aggregates[key])
            states[key] = state("update_state", key, after)
            aggregates[key] = aggregate("identity", key, call_operator(op, "identity", at, op.identity))
            odd = call_operator(op, "on_marker", at, op.on_marker, states[key], key, marker, emitter.pair)
            ran(op, "on_marker", key, odd)
        nothing = call_operator(op, "identity", here, op.identity)
        after = call_operator(op, "update_state", here, op.update_state, start, nothing)
        start = state("update_state", NO_KEY, after)
        emitter.out.append(marker)

    def due() -> int | None:
        if op.skips_untouched:
            return None
        if op.forgets_idle:
            idle.update(key for key in states if key not in idle and indistinguishable(states[key], start))
        return BEFORE_ALL if len(idle) < len(states) else None

    def leave_out(markers: MarkerRuns) -> None:
        nonlocal start
        if not op.skips_untouched:
            at = f"{len(markers):,} empty blocks"
            start = call_operator(op, "update_state", at, start_after, op, start, len(markers))

    for item in channel:
        if isinstance(item, MarkerRuns):
            _visit(item, emitter, due, visit, leave_out)
            states.update(dict.fromkeys(idle, start))
            idle.clear()
        elif isinstance(item, Marker):
            visit(item)
        else:
            at = f"item {item}"
            if item.key not in states:
                nothing = aggregate("identity", item.key, call_operator(op, "identity", at, op.identity))
                states[item.key], aggregates[item.key] = start, nothing
            odd = call_operator(op, "on_item", at, op.on_item, states[item.key], item.key, item.value, emitter.pair)
            ran(op, "on_item", item.key, odd)
            lifted = aggregate("lift", item.key, call_operator(op, "lift", at, op.lift, item.key, item.value))
            after = call_operator(op, "combine", at, op.combine, aggregates[item.key], lifted)
            aggregates[item.key] = aggregate("combine", item.key, after)


def call_operator(op: object, method: str, what: str, function: Callable[..., Any], *args: Any) -> Any:
    """Call an author's method; what it raises becomes an :class:`OperatorFailed` that says where."""
    try:
        return function(*args)
    except (OperatorFailed, LawBroken):
        raise
    except Exception as error:
        raise operator_failure(op, method, what, error) from error
