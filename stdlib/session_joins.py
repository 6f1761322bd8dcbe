"""The join of two streams by sessions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, Literal, NotRequired, TypeAlias, TypedDict, TypeVar, Unpack, get_args, overload

import attrs

from tracetypes.check import edge_of
from tracetypes.edges import O, U
from tracetypes.graph import Stream, extend
from tracetypes.markers import Span, Time, TimeUnit
from tracetypes.stdlib.join_kinds import How, how_of, result_of
from tracetypes.stdlib.joins import Either, Joined, Times, by_time
from tracetypes.stdlib.sessions import SessionWindow
from tracetypes.stdlib.signatures import KeysOfTwoTypes
from tracetypes.stdlib.window_joins import Lists, SidesInOrder, matches
from tracetypes.stdlib.windows import seconds_as_micros
from tracetypes.templates import EmitValue

__all__ = ["SessionJoin", "session_join"]

K = TypeVar("K")
L = TypeVar("L")
A = TypeVar("A")
B = TypeVar("B")
R = TypeVar("R")

Held: TypeAlias = tuple[int, int, Lists[A, B]]
"""The first and the last time of a session in microseconds, and its items."""


@attrs.frozen
class SessionJoin(SessionWindow[K, Either[A, B], R, Lists[A, B]], Generic[K, A, B, R]):
    """See :func:`session_join`. The state is the items of the open session."""

    _word = "session_join"
    _in_python = "keeps all items of a session"

    how: How = "inner"
    joined: Any = None

    def type_arguments(self) -> Mapping[str, Any]:
        return {"R": self.joined}

    def on_item(self, state: Any, key: K, value: Either[A, B], emit: EmitValue[R]) -> Held[A, B]:
        time = self.time_of(value)
        if state is not None and time - state[1] > self.gap:
            self.end(state, emit)
            state = None
        first, last, lists = (time, time, self.aggregate.identity()) if state is None else state
        return min(first, time), max(last, time), self.aggregate.fold(lists, [value])

    def end(self, state: Held[A, B], emit: EmitValue[R]) -> None:
        for one in matches(self.how, *state[2]):
            emit(one)


class SessionsOfTwo(TypedDict, Generic[A, B]):
    """The sessions of :func:`session_join`."""

    gap: Span
    left_time: Callable[[A], Time]
    right_time: Callable[[B], Time]
    unit: NotRequired[TimeUnit]


@overload
def session_join(
    left: Stream[U[K, A]],
    right: Stream[U[K, B]],
    *,
    how: Literal["inner"] = "inner",
    **sessions: Unpack[SessionsOfTwo[A, B]],
) -> Stream[O[K, Joined[A, B]]]: ...


@overload
def session_join(  # type: ignore[overload-overlap]
    left: Stream[U[K, A]],
    right: Stream[U[K, B]],
    *,
    how: Literal["left"],
    **sessions: Unpack[SessionsOfTwo[A, B]],
) -> Stream[O[K, Joined[A, B | None]]]: ...


@overload
def session_join(  # type: ignore[overload-overlap]
    left: Stream[U[K, A]],
    right: Stream[U[K, B]],
    *,
    how: Literal["right"],
    **sessions: Unpack[SessionsOfTwo[A, B]],
) -> Stream[O[K, Joined[A | None, B]]]: ...


@overload
def session_join(  # type: ignore[overload-overlap]
    left: Stream[U[K, A]],
    right: Stream[U[K, B]],
    *,
    how: Literal["full"],
    **sessions: Unpack[SessionsOfTwo[A, B]],
) -> Stream[O[K, Joined[A | None, B | None]]]: ...


@overload
def session_join(  # type: ignore[overload-overlap]
    left: Stream[U[K, A]],
    right: Stream[U[K, B]],
    *,
    how: Literal["semi", "anti"],
    **sessions: Unpack[SessionsOfTwo[A, B]],
) -> Stream[O[K, A]]: ...


@overload
def session_join(
    left: Stream[U[K, A]],
    right: Stream[U[L, B]],
    *,
    how: How = "inner",
    **sessions: Unpack[SessionsOfTwo[A, B]],
) -> Stream[KeysOfTwoTypes[K, L]]: ...  # type: ignore[type-var]


def session_join(
    left: Stream[U[K, A]],
    right: Stream[U[Any, B]],
    *,
    how: How = "inner",
    gap: Span,
    left_time: Callable[[A], Time],
    right_time: Callable[[B], Time],
    unit: TimeUnit = "s",
) -> Stream[Any]:
    """The items of a key that lie in one session are partners: a session is a row of items of both streams of which each follows
    within ``gap`` (seconds or a timedelta) of the one before, whatever its stream.

    ``how`` and the types are those of :func:`~tracetypes.stdlib.window_join`, but the stream has an order. ``left_time``,
    ``right_time`` and ``unit``: as ``time`` and ``unit`` of :func:`tracetypes.every`. A session is answered when it is over, as
    that of :func:`~tracetypes.stdlib.session`: at the item that comes too late for it, or at the first marker that lies more
    than ``gap`` behind its last item, also behind the end of the input. The state of a key is the items of its open session: a
    session without an end is held as a whole. What is promised about items in different blocks: see
    :mod:`tracetypes.stdlib.joins`.

    Raises :class:`UsageError` ``TT121`` for another ``how``, a negative gap and sources of different periods.

    >>> flow, markers = Dataflow("joined"), every(seconds=10, time=lambda time: time)
    >>> left = flow.source("left", U[str, int], markers=markers)
    >>> right = flow.source("right", U[str, int], markers=markers)
    >>> second = lambda time: time
    >>> flow.sink("out", session_join(left, right, how="left", gap=3, left_time=second, right_time=second))
    >>> rows = {"left": [("a", 3), ("a", 8), ("a", 19)], "right": [("a", 5), ("a", 11)]}
    >>> found = interpret_rows(check(flow), rows)[0]["out"].items
    >>> [(one.value.left, one.value.right) if isinstance(one, Item) else one for one in found]
    [#10, (3, 5), (8, 5), (3, 11), (8, 11), #20, (19, None), #30]
    """
    how_of(how, get_args(How))
    times = Times(left_time, right_time, unit)
    results: Any = result_of(how, *(Any if edge is None else edge.value for edge in (edge_of(left), edge_of(right))))
    op: Any = SessionJoin(SidesInOrder(), seconds_as_micros("gap", gap, 0), times.of, "us", how, results)
    return extend(by_time(left, right, times, "session_join"), op)
