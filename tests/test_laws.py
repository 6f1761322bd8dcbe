"""check_laws finds every seeded defect and says it so that a person understands; lawful operators pass."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import itertools
import math
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples.sensors import LOCATIONS, JoinFilterMap, LinearInterpolation, MaxOfAverages, Measurement
from tracetypes import (
    UNIT,
    DataError,
    Dataflow,
    ExactSum,
    LawBroken,
    Marker,
    OperatorFailed,
    OpKeyedOrdered,
    OpKeyedUnordered,
    OpStateless,
    U,
    Unit,
    UsageError,
    every,
    testing,
)
from tracetypes.canonical import canonical
from tracetypes.conformance import conformer, key_problem
from tracetypes.equations.equality import same
from tracetypes.laws.strategies import keys_of
from tracetypes.schemas import schema_of
from tracetypes.templates import Linger, Operator
from tracetypes.testing import check_deployments, check_flow, check_laws, law_tests, laws, values

ROOT = Path(__file__).resolve().parent.parent
Emit = Callable[[str, Any], None]

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")


@attrs.frozen
class Fold(OpKeyedUnordered[str, V, str, V, V | None, V | None], Generic[V]):
    """The state is the aggregate of the last block that held anything; None is neutral. Subclasses say how to add."""

    def lift(self, key: str, value: V) -> V | None:
        return value

    def identity(self) -> V | None:
        return None

    def add(self, a: V, b: V) -> V:
        raise NotImplementedError

    def combine(self, a: V | None, b: V | None) -> V | None:
        if a is None or b is None:
            return b if a is None else a
        return self.add(a, b)

    def initial_state(self) -> V | None:
        return None

    def update_state(self, state: V | None, agg: V | None) -> V | None:
        return agg

    def on_marker(self, new_state: V | None, key: str, marker: Marker, emit: Callable[[str, V], None]) -> None:
        if new_state is not None:
            emit(key, new_state)


class Sums(OpKeyedUnordered[str, V, str, V, A, A], Generic[V, A]):
    """The sum since the start, which is state and aggregate alike."""

    def initial_state(self) -> A:
        return self.identity()

    def update_state(self, state: A, agg: A) -> A:
        return self.combine(state, agg)


def broken(op: Operator, law: str | None = None, **options: Any) -> LawBroken:
    """How the operator breaks the law of that name, or the first that it breaks."""

    def check() -> None:
        if law is None:
            check_laws(op, max_examples=40, **options)
        else:
            next(one for one in laws(op, **options) if one.name == law).check(150)

    with pytest.raises(LawBroken) as caught:
        check()
    text = str(caught.value)
    print(text, end="\n\n")
    assert len(text.splitlines()) <= 14, text
    assert max(map(len, text.splitlines())) <= 260, text
    return caught.value


def lines(error: LawBroken, label: str) -> list[str]:
    """What stands behind a label of the message."""
    found = re.findall("^    " + re.escape(f"{label + ':':<9} ") + "(.*)$", str(error), re.MULTILINE)
    return [str(one).rstrip() for one in found]


# ---------------------------------------------------------------------------------------------- the monoid


class Concatenation(Fold[str]):
    def add(self, a: str, b: str) -> str:
        return a + b


class LastWins(Fold[int]):
    def add(self, a: int, b: int) -> int:
        return b


class ListOfAll(Fold[tuple[int, ...]]):
    def add(self, a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
        return a + b


class PairwiseMean(Fold[float]):
    def add(self, a: float, b: float) -> float:
        return (a + b) / 2


class Difference(Fold[int]):
    def add(self, a: int, b: int) -> int:
        return abs(a - b)


class FloatSum(Fold[float]):
    def add(self, a: float, b: float) -> float:
        return a + b


class FloatMax(Fold[float]):
    def add(self, a: float, b: float) -> float:
        return max(a, b)


@attrs.frozen
class Subtraction(Sums[int, int]):
    def lift(self, key: str, value: int) -> int:
        return value

    def identity(self) -> int:
        return 0

    def combine(self, a: int, b: int) -> int:
        return a - b

    def on_marker(self, new_state: int, key: str, marker: Marker, emit: Emit) -> None:
        emit(key, new_state)


@attrs.frozen
class MaximumFromZero(Subtraction):
    def combine(self, a: int, b: int) -> int:
        return max(a, b)


@attrs.frozen
class IntegerSum(Subtraction):
    def combine(self, a: int, b: int) -> int:
        return a + b


def test_concatenation_is_not_commutative() -> None:
    error = broken(Concatenation())
    assert error.code == "TT303"
    assert lines(error, "law") == ["combine(a, b) == combine(b, a)"]
    assert lines(error, "left") == ["'ab'"]
    assert lines(error, "right") == ["'ba'"]
    assert "    a:        'a', from lift('a', 'a')" in str(error)
    assert "OpKeyedOrdered" in error.fix


def test_last_wins_is_not_commutative() -> None:
    error = broken(LastWins())
    assert error.code == "TT303"
    assert {*lines(error, "left"), *lines(error, "right")} == {"0", "1"}


def test_a_list_is_no_bag() -> None:
    error = broken(ListOfAll())
    assert error.code == "TT303"
    assert "collections.Counter" in error.fix


def test_subtraction_has_no_identity_on_both_sides() -> None:
    error = broken(Subtraction())
    assert error.code == "TT301"
    assert "combine(identity(), a) is not a" in str(error)
    assert lines(error, "a") == ["1, from lift('a', 1)"]
    assert lines(error, "left") == ["-1"]
    assert broken(Subtraction(), "associativity").code == "TT302"
    assert broken(Subtraction(), "commutativity").code == "TT303"


def test_zero_is_not_neutral_for_a_maximum() -> None:
    error = broken(MaximumFromZero())
    assert error.code == "TT301"
    assert lines(error, "a") == ["-1, from lift('a', -1)"]
    assert lines(error, "left") == ["0"]
    assert "None" in error.fix


def test_difference_is_not_associative() -> None:
    error = broken(Difference())
    assert error.code == "TT302"
    assert len(re.findall("^    [abc]: ", str(error), re.MULTILINE)) == 3


def test_a_pairwise_mean_is_not_associative() -> None:
    error = broken(PairwiseMean(), items=st.tuples(st.just("a"), st.sampled_from([0.0, 1.0, 2.0])))
    assert error.code == "TT302"
    assert "sums and counts, not means" in error.fix
    assert "ExactSum" in error.fix


def test_a_float_sum_is_not_associative_and_the_fix_is_exact_sum() -> None:
    error = broken(FloatSum())
    assert error.code == "TT302"
    assert "tracetypes.ExactSum" in error.fix
    assert lines(error, "left") != lines(error, "right")


def test_maxima_of_floats_stumble_over_nan_and_minus_zero() -> None:
    error = broken(FloatMax())
    assert error.code == "TT303"
    assert "NaN" in error.fix
    ordinary = st.tuples(st.just("a"), st.sampled_from([1.0, 0.0, -0.0]))
    error = broken(FloatMax(), items=ordinary)
    assert error.code == "TT306"
    assert "-0.0" in error.fix
    check_laws(
        FloatMax(), items=st.tuples(st.just("a"), st.sampled_from([1.0, 0.0, 0.1, -7.5, math.inf])), max_examples=40
    )


# ---------------------------------------------------------------------------------------------- purity


class Gathering(Sums[int, list[int]]):
    """combine changes its left argument."""

    def lift(self, key: str, value: int) -> list[int]:
        return [value]

    def identity(self) -> list[int]:
        return []

    def combine(self, a: list[int], b: list[int]) -> list[int]:
        a.extend(b)
        a.sort()
        return a

    def on_marker(self, new_state: list[int], key: str, marker: Marker, emit: Emit) -> None:
        emit(key, len(new_state))


@attrs.frozen
class FrozenGathering(Gathering):
    pass


@attrs.frozen
class CarefulGathering(Gathering):
    def combine(self, a: list[int], b: list[int]) -> list[int]:
        return sorted(a + b)


@attrs.frozen
class ChangingState(CarefulGathering):
    def on_item(self, last_state: list[int], key: str, value: int, emit: Emit) -> None:
        last_state.append(value)


@attrs.frozen
class Numbering(OpStateless[str, int, str, int]):
    count: ClassVar[int] = 0

    def on_item(self, key: str, value: int, emit: Callable[[str, int], None]) -> None:
        Numbering.count += 1
        emit(key, Numbering.count)


HEARD: list[int] = []


@attrs.frozen
class Hearsay(OpStateless[str, int, str, int]):
    def on_item(self, key: str, value: int, emit: Callable[[str, int], None]) -> None:
        if value in HEARD:
            emit(key, value)
        else:
            HEARD.append(value)


@attrs.frozen
class Forgetful(OpStateless[str, int, str, int]):
    """Only an item of 1 after an item of 0 shows the memory."""

    last: dict[str, int] = attrs.Factory(dict)

    def on_item(self, key: str, value: int, emit: Callable[[str, int], None]) -> None:
        if value == 1 and self.last.get(key) == 0:
            emit(key, value)
        self.last[key] = value


@attrs.frozen
class DefaultArgument(IntegerSum):
    def lift(self, key: str, value: int, seen: list[int] = []) -> int:  # noqa: B006
        seen.append(value)
        return value if len(seen) < 3 else 0


TICKETS = itertools.count()


@attrs.frozen
class Tickets(OpStateless[str, int, str, int]):
    """Its memory is of a kind that cannot be put back."""

    def on_item(self, key: str, value: int, emit: Callable[[str, int], None]) -> None:
        emit(key, next(TICKETS))


@attrs.frozen
class CountingMarkers(OpStateless[str, int, str, int]):
    seen: ClassVar[list[int]] = []

    def on_item(self, key: str, value: int, emit: Callable[[str, int], None]) -> None:
        pass

    def on_marker(self, marker: Marker, emit: Callable[[str, int], None]) -> None:
        self.seen.append(0)
        emit("markers", len(self.seen))


def test_combine_must_not_change_its_arguments() -> None:
    error = broken(FrozenGathering())
    assert error.code == "TT304"
    assert "FrozenGathering.combine is not pure: it changes its argument a" in str(error)
    assert lines(error, "call") == ["combine(a=[], b=[0])"]
    assert lines(error, "before") == ["a = []"]
    assert lines(error, "after") == ["a = [0]"]


def test_on_item_must_not_change_the_last_state() -> None:
    error = broken(ChangingState())
    assert error.code == "TT304"
    assert "changes its argument last_state" in str(error)


def test_a_counter_on_the_class_is_memory() -> None:
    error = broken(Numbering())
    assert error.code == "TT304"
    assert lines(error, "call") == ["on_item(key='a', value=0)"]
    assert lines(error, "at first") == ["emitted ('a', 1)"]
    assert lines(error, "after") == ["the same call"]
    assert lines(error, "then") == ["emitted ('a', 2)"]
    assert lines(error, "memory") == ["Numbering.count was 0 and became 2"]
    assert "OpStateless has no memory" in error.fix
    assert Numbering.count == 0, "what the operator remembered is undone"


def test_a_global_list_is_memory() -> None:
    error = broken(Hearsay())
    assert error.code == "TT304"
    assert lines(error, "memory") == ["HEARD was [] and became [0]"]
    assert HEARD == []


def test_memory_on_self_is_found_even_where_no_output_shows_it() -> None:
    error = broken(Forgetful())
    assert error.code == "TT304"
    assert lines(error, "memory") == ["self.last was {} and became {'a': 0}"]
    error = broken(Forgetful(), "order insensitivity")
    assert error.code == "TT306"
    assert sorted(lines(error, "order 1") + lines(error, "order 2")) == [
        "('a', 0) ('a', 1) #10",
        "('a', 1) ('a', 0) #10",
    ]
    assert sorted(lines(error, "gives")) == ["#10", "('a', 1) #10"]


def test_a_mutable_default_is_memory() -> None:
    error = broken(DefaultArgument())
    assert error.code == "TT304"
    assert lines(error, "after") == ["the same call, twice"]
    assert lines(error, "then") == ["returned 0"]
    assert lines(error, "memory")[0].startswith("the default of DefaultArgument.lift(seen) was [] and became [")


def test_memory_that_cannot_be_put_back_is_found_all_the_same() -> None:
    error = broken(Tickets())
    assert error.code == "TT304"
    assert "Tickets.on_item is not pure" in str(error)


def test_markers_count_too() -> None:
    error = broken(CountingMarkers())
    assert error.code == "TT304"
    assert lines(error, "call") == ["on_marker(marker=#10)"]


def test_a_cache_is_no_impurity() -> None:
    check_laws(Cached(), max_examples=50)


CACHE: dict[int, int] = {}


@attrs.frozen
class Cached(OpStateless[str, int, str, int]):
    def on_item(self, key: str, value: int, emit: Callable[[str, int], None]) -> None:
        if value not in CACHE:
            CACHE[value] = value * value
        emit(key, CACHE[value])


# ---------------------------------------------------------------------------------------------- keys, order


@attrs.frozen
class SharedLast(OpKeyedOrdered[str, int, int, None]):
    """The class remembers the last value, whatever its key."""

    last: ClassVar[dict[str, int]] = {}

    def initial_state(self) -> None:
        return None

    def on_item(self, state: None, key: str, value: int, emit: Callable[[int], None]) -> None:
        emit(self.last.get("last", -1))
        self.last["last"] = value


START: list[int] = []


@attrs.frozen
class SharedStart(OpKeyedOrdered[str, int, int, list[int]]):
    """Every key gets the same list."""

    def initial_state(self) -> list[int]:
        return START

    def on_item(self, state: list[int], key: str, value: int, emit: Callable[[int], None]) -> list[int]:
        state.append(value)
        emit(len(state))
        return state


@attrs.frozen
class OwnStart(SharedStart):
    def initial_state(self) -> list[int]:
        return []


@attrs.frozen
class NeighbourhoodWatch(IntegerSum):
    """on_item tells how many keys were seen so far: unordered, and still not per key."""

    keys: ClassVar[set[str]] = set()

    def on_item(self, last_state: int, key: str, value: int, emit: Emit) -> None:
        self.keys.add(key)
        emit(key, len(self.keys))


@attrs.frozen
class FirstOfBlock(OpStateless[str, int, str, int]):
    """Emits only the first item: the order decides which."""

    taken: ClassVar[list[bool]] = []

    def on_item(self, key: str, value: int, emit: Callable[[str, int], None]) -> None:
        if not self.taken:
            emit(key, value)
            self.taken.append(True)


def test_a_key_must_not_read_what_another_left_on_the_class() -> None:
    error = broken(SharedLast())
    assert error.code == "TT305"
    (items,) = lines(error, "items")
    assert len(re.findall(r"\('[ab]', 0\)", items)) == 2
    assert "-1" in lines(error, "together")[0]
    assert lines(error, "apart")[0].count("-1") == 2
    assert lines(error, "memory") == ["SharedLast.last was {} and became {'last': 0}"]


def test_two_keys_must_not_get_the_same_initial_state() -> None:
    error = broken(SharedStart())
    assert error.code == "TT305"
    assert lines(error, "items") == ["('a', 0) ('b', 0) #10"]
    assert lines(error, "together") == ["('a', 1) ('b', 2) #10"]
    assert lines(error, "apart") == ["('a', 1) ('b', 1) #10"]
    assert lines(error, "memory") == ["START was [] and became [0, 0]"]
    assert "build a new object" in error.fix
    assert START == []


def test_keys_of_unordered_operators_are_independent_too() -> None:
    error = broken(NeighbourhoodWatch(), "key locality")
    assert error.code == "TT305"
    assert lines(error, "items") == ["('a', 0) ('b', 0) #10"]
    assert lines(error, "memory") == ["NeighbourhoodWatch.keys was set() and became {'a', 'b'}"]
    assert broken(NeighbourhoodWatch()).code == "TT304"


def test_an_order_sensitive_stateless_operator() -> None:
    error = broken(FirstOfBlock(), "order insensitivity")
    assert error.code == "TT306"
    assert len(lines(error, "gives")) == 2
    assert lines(error, "order 1")[0].count("(") == 2
    assert broken(FirstOfBlock()).code == "TT304"


# ---------------------------------------------------------------------------------------------- skips_untouched


@attrs.frozen
class TouchedMean(OpKeyedUnordered[str, float, str, float, tuple[ExactSum, int, bool], tuple[ExactSum, int]]):
    """The mean of everything so far, told at the end of every block that held something."""

    skips_untouched: ClassVar[bool] = True

    def lift(self, key: str, value: float) -> tuple[ExactSum, int]:
        return ExactSum.of(value), 1

    def identity(self) -> tuple[ExactSum, int]:
        return ExactSum(), 0

    def combine(self, a: tuple[ExactSum, int], b: tuple[ExactSum, int]) -> tuple[ExactSum, int]:
        return a[0] + b[0], a[1] + b[1]

    def initial_state(self) -> tuple[ExactSum, int, bool]:
        return ExactSum(), 0, False

    def update_state(self, state: tuple[ExactSum, int, bool], agg: tuple[ExactSum, int]) -> tuple[ExactSum, int, bool]:
        return state[0] + agg[0], state[1] + agg[1], agg[1] > 0

    def on_marker(self, new_state: tuple[ExactSum, int, bool], key: str, marker: Marker, emit: Emit) -> None:
        total, count, touched = new_state
        if touched:
            emit(key, total.value() / count)


@attrs.frozen
class Talkative(TouchedMean):
    """Says it may be skipped, and emits at every marker."""

    def on_marker(self, new_state: tuple[ExactSum, int, bool], key: str, marker: Marker, emit: Emit) -> None:
        emit(key, new_state[0].value() / new_state[1])


@attrs.frozen
class Ageing(OpKeyedUnordered[str, int, str, int, tuple[int, bool], int]):
    """Says it may be skipped, and counts the blocks that passed."""

    skips_untouched: ClassVar[bool] = True

    def lift(self, key: str, value: int) -> int:
        return 1

    def identity(self) -> int:
        return 0

    def combine(self, a: int, b: int) -> int:
        return a + b

    def initial_state(self) -> tuple[int, bool]:
        return 0, False

    def update_state(self, state: tuple[int, bool], agg: int) -> tuple[int, bool]:
        return state[0] + 1, agg > 0

    def on_marker(self, new_state: tuple[int, bool], key: str, marker: Marker, emit: Emit) -> None:
        if new_state[1]:
            emit(key, new_state[0])


@attrs.frozen
class AgeingSinceSeen(Ageing):
    """Counts from the first item on, so that only later idle blocks show; and on_item shows it first."""

    def update_state(self, state: tuple[int, bool], agg: int) -> tuple[int, bool]:
        return (state[0] + 1 if state[0] or agg else 0), agg > 0

    def on_item(self, last_state: tuple[int, bool], key: str, value: int, emit: Emit) -> None:
        emit(key, -last_state[0])

    def on_marker(self, new_state: tuple[int, bool], key: str, marker: Marker, emit: Emit) -> None:
        pass


@attrs.frozen
class Timeout(TouchedMean):
    """Speaks up when a key was idle for long: only markers far apart show it."""

    def on_marker(self, new_state: tuple[ExactSum, int, bool], key: str, marker: Marker, emit: Emit) -> None:
        if not new_state[2] and marker.timestamp > 500:
            emit(key, 0.0)


def test_a_skipped_key_must_be_silent() -> None:
    error = broken(Talkative())
    assert error.code == "TT307"
    assert re.fullmatch(r"\('a', 0\.0\) #\d+ #\d+", lines(error, "items")[0])
    assert re.fullmatch(r"\('a', 0\.0\) at #\d+ for the key 'a'", lines(error, "emitted")[0])
    assert "skips_untouched = True" in error.fix
    assert broken(Timeout(), "idle keys are silent").code == "TT307"


def test_a_skipped_visit_must_leave_no_trace() -> None:
    error = broken(Ageing(), "idle keys leave no trace")
    assert error.code == "TT307"
    assert re.fullmatch(r"#\d+ \('a', 0\) #\d+", lines(error, "items")[0]), "the initial state counts too"
    assert "('a', 2)" in lines(error, "visited")[0]
    assert "('a', 1)" in lines(error, "skipped")[0]
    error = broken(AgeingSinceSeen(), "idle keys leave no trace")
    assert error.code == "TT307"
    assert re.fullmatch(r"\('a', 0\) #\d+ #\d+ \('a', 0\) #\d+", lines(error, "items")[0])


# ---------------------------------------------------------------------------------------------- forgets_idle


@attrs.frozen
class LastTwo(OpKeyedUnordered[str, int, str, int, tuple[int, int], int]):
    """How many items the last two blocks held, where they held any."""

    forgets_idle: ClassVar[bool] = True

    def lift(self, key: str, value: int) -> int:
        return 1

    def identity(self) -> int:
        return 0

    def combine(self, a: int, b: int) -> int:
        return a + b

    def initial_state(self) -> tuple[int, int]:
        return 0, 0

    def update_state(self, state: tuple[int, int], agg: int) -> tuple[int, int]:
        return agg, state[0]

    def on_marker(self, new_state: tuple[int, int], key: str, marker: Marker, emit: Callable[[str, int], None]) -> None:
        if new_state != (0, 0):
            emit(key, sum(new_state))


@attrs.frozen
class TellsZero(LastTwo):
    """Says that idle keys may be forgotten, and tells their zero."""

    def on_marker(self, new_state: tuple[int, int], key: str, marker: Marker, emit: Callable[[str, int], None]) -> None:
        emit(key, sum(new_state))


@attrs.frozen
class TellsZeroOfOne(LastTwo):
    """The same for one key, and late."""

    def on_marker(self, new_state: tuple[int, int], key: str, marker: Marker, emit: Callable[[str, int], None]) -> None:
        if new_state != (0, 0) or (key == "b" and marker.timestamp > 500):
            emit(key, sum(new_state))


@attrs.frozen
class Alarm(LastTwo):
    """Speaks up at the fifth marker, also for a key that was never seen: its state counts them."""

    def update_state(self, state: tuple[int, int], agg: int) -> tuple[int, int]:
        return min(state[0] + 1, 5), agg

    def on_marker(self, new_state: tuple[int, int], key: str, marker: Marker, emit: Callable[[str, int], None]) -> None:
        if new_state[1] or new_state[0] == 5:
            emit(key, new_state[1])


def test_a_key_never_seen_must_be_silent() -> None:
    check_laws(LastTwo(), max_examples=60)
    error = broken(TellsZero())
    assert error.code == "TT307"
    assert lines(error, "state") == ["(0, 0), from initial_state() and 1 identity update"]
    assert re.fullmatch(r"\('a', 0\) at #\d+", lines(error, "emitted")[0])
    assert "forgets_idle = True" in error.fix
    assert lines(broken(TellsZeroOfOne(), "keys never seen are silent"), "key") == ["'b'"]
    late = lines(broken(Alarm(), "keys never seen are silent"), "state")
    assert late == ["(5, 0), from initial_state() and 5 identity updates"]


def test_the_law_is_for_those_who_promise_it() -> None:
    assert "keys never seen are silent" in [law.name for law in laws(LastTwo())]
    assert "keys never seen are silent" not in [law.name for law in laws(Talkative())]


# ---------------------------------------------------------------------------------------------- total, types


@attrs.frozen
class Ratio(OpStateless[str, int, str, float]):
    def on_item(self, key: str, value: int, emit: Callable[[str, float], None]) -> None:
        emit(key, 1 / value)


@attrs.frozen
class MeanOfNothing(TouchedMean):
    skips_untouched: ClassVar[bool] = False

    def on_marker(self, new_state: tuple[ExactSum, int, bool], key: str, marker: Marker, emit: Emit) -> None:
        emit(key, new_state[0].value() / (new_state[1] - 2))


@attrs.frozen
class PickyCombine(Fold[int]):
    def add(self, a: int, b: int) -> int:
        if b > 9:
            raise ValueError("too much")
        return max(a, b)


@attrs.frozen
class WrongType(OpStateless[str, int, str, str]):
    def on_item(self, key: str, value: int, emit: Callable[[str, Any], None]) -> None:
        emit(key, value if value == 3 else str(value))


@attrs.frozen
class NoKey(OpStateless[str, float, float, int]):
    def on_item(self, key: str, value: float, emit: Callable[[float, int], None]) -> None:
        emit(value, 0)


@attrs.frozen
class Cube(OpStateless[str, int, str, int]):
    """Leaves 64 bits for some values; every deployment refuses that alike."""

    def on_item(self, key: str, value: int, emit: Callable[[str, int], None]) -> None:
        emit(key, value**9)


def test_an_exception_is_shown_with_its_item() -> None:
    error = broken(Ratio())
    assert error.code == "TT308"
    assert "Ratio.on_item raised ZeroDivisionError: division by zero" in str(error)
    assert lines(error, "at") == ["item ('a', 0)"]
    assert lines(error, "items") == ["('a', 0) #10"]
    assert "check_laws(op, items=" in error.fix


def test_an_assumption_restricts_the_items() -> None:
    check_laws(Ratio(), items=st.tuples(st.sampled_from("ab"), st.integers(1, 9)), max_examples=50)


def test_exceptions_at_markers_and_in_combine() -> None:
    error = broken(MeanOfNothing())
    assert error.code == "TT308"
    assert "MeanOfNothing.on_marker raised ZeroDivisionError" in str(error)
    assert broken(PickyCombine()).code == "TT308"


def test_the_other_laws_leave_exceptions_to_total() -> None:
    for law in laws(Ratio()):
        if law.name != "total":
            law.check(50)


def test_an_emission_of_the_wrong_type() -> None:
    error = broken(WrongType())
    assert error.code == "TT309"
    assert "WrongType emitted ('a', 3): value is 3, expected str" in str(error)
    assert lines(error, "items") == ["('a', 3) #10"]
    error = broken(NoKey())
    assert error.code == "TT309"
    assert "NaN" in str(error)


@attrs.frozen(eq=False, slots=False)
class Noted:
    """Its equality looks at more than its field."""

    n: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Noted) and self.n == other.n and hasattr(self, "note") == hasattr(other, "note")

    __hash__ = None  # type: ignore[assignment]


@attrs.frozen
class Notes(OpStateless[str, int, str, Noted]):
    def on_item(self, key: str, value: int, emit: Emit) -> None:
        noted = Noted(value)
        object.__setattr__(noted, "note", "!")
        emit(key, noted)


def test_a_record_that_is_not_equal_to_a_copy_of_its_fields() -> None:
    error = broken(Notes())
    assert error.code == "TT309"
    assert "has 'note', which is no field of Noted: a copy does not have it" in str(error)


def test_numbers_beyond_64_bits_are_not_judged() -> None:
    check_laws(Cube(), max_examples=50)


def test_an_operator_must_be_frozen() -> None:
    error = broken(Gathering())
    assert error.code == "TT309"
    assert "decorate Gathering with @attrs.frozen" in error.fix


# ---------------------------------------------------------------------------------------------- lawful operators


class Maximum(Fold[int]):
    def add(self, a: int, b: int) -> int:
        return max(a, b)


@attrs.frozen
class ExactTotal(Sums[float, ExactSum]):
    def lift(self, key: str, value: float) -> ExactSum:
        return ExactSum.of(value)

    def identity(self) -> ExactSum:
        return ExactSum()

    def combine(self, a: ExactSum, b: ExactSum) -> ExactSum:
        return a + b

    def on_item(self, last_state: ExactSum, key: str, value: float, emit: Emit) -> None:
        if last_state.value() > value:
            emit(key, value)

    def on_marker(self, new_state: ExactSum, key: str, marker: Marker, emit: Emit) -> None:
        emit(key, new_state.value())


@attrs.frozen
class Bag(Sums[str, collections.Counter[str]]):
    def lift(self, key: str, value: str) -> collections.Counter[str]:
        return collections.Counter([value])

    def identity(self) -> collections.Counter[str]:
        return collections.Counter()

    def combine(self, a: collections.Counter[str], b: collections.Counter[str]) -> collections.Counter[str]:
        return a + b

    def on_marker(self, new_state: collections.Counter[str], key: str, marker: Marker, emit: Emit) -> None:
        for word, count in new_state.items():
            emit(word, f"{key}{count}")


@attrs.frozen
class Uncopyable(OpKeyedOrdered[str, int, int, Any]):
    def initial_state(self) -> Any:
        return (n for n in range(9))

    def on_item(self, state: Any, key: str, value: int, emit: Callable[[int], None]) -> Any:
        return state


class PlainBox:
    """No ==: compared by its fields."""

    def __init__(self, total: int, lowest: float) -> None:
        self.total, self.lowest = total, lowest


@attrs.frozen
class Boxes(Sums[int, PlainBox]):
    def lift(self, key: str, value: int) -> PlainBox:
        return PlainBox(value, math.nan)

    def identity(self) -> PlainBox:
        return PlainBox(0, math.nan)

    def combine(self, a: PlainBox, b: PlainBox) -> PlainBox:
        return PlainBox(a.total + b.total, math.nan)

    def on_marker(self, new_state: PlainBox, key: str, marker: Marker, emit: Emit) -> None:
        emit(key, new_state.total)


@attrs.frozen
class Twice(OpStateless[K, V, K, V], Generic[K, V]):
    def on_item(self, key: K, value: V, emit: Callable[[K, V], None]) -> None:
        emit(key, value)
        emit(key, value)

    def on_marker(self, marker: Marker, emit: Callable[[K, V], None]) -> None:
        pass


@attrs.frozen
class Previous(OpKeyedOrdered[K, V, V, list[V]], Generic[K, V]):
    """The state is changed in place, which is allowed."""

    def initial_state(self) -> list[V]:
        return []

    def on_item(self, state: list[V], key: K, value: V, emit: Callable[[V], None]) -> list[V]:
        if state:
            emit(state.pop())
        state.append(value)
        return state

    def on_marker(self, state: list[V], key: K, marker: Marker, emit: Callable[[V], None]) -> list[V]:
        for value in state:
            emit(value)
        return state


PLACES = st.tuples(
    st.just(UNIT),
    st.builds(Measurement, id=st.sampled_from([*list(LOCATIONS)[:5], "?"]), scalar=values(float), ts=values(int)),
)

test_the_paper = law_tests(LinearInterpolation(), MaxOfAverages(), max_examples=50)
test_the_paper_on_places_it_knows = law_tests(JoinFilterMap(LOCATIONS), items=PLACES, max_examples=50)
test_lawful = law_tests(
    IntegerSum(),
    Maximum(),
    ExactTotal(),
    TouchedMean(),
    Bag(),
    Boxes(),
    CarefulGathering(),
    OwnStart(),
    max_examples=25,
)


@attrs.frozen
class Point:
    x: float
    y: int | None
    tags: tuple[str, ...]


@attrs.frozen
class Positive:
    n: int = attrs.field()

    @n.validator
    def _positive(self, _: object, n: int) -> None:
        if n <= 0:
            raise ValueError(n)


@dataclasses.dataclass(frozen=True)
class Day:
    date: dt.date
    at: dt.datetime
    raw: bytes


class Pair(NamedTuple):
    one: bool
    two: Unit


def test_generic_operators_are_told_their_types() -> None:
    check_laws(Twice[str, Point](), types=(str, Point), max_examples=30)
    check_laws(Previous[Point, Day](), types=(Point, Day), max_examples=30)
    with pytest.raises(
        UsageError, match=r"TT406 Twice is generic: the types K, V are not known(.|\n)*types=\(str, int\)"
    ):
        check_laws(Twice[str, int].__origin__())  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="TT406 IntegerSum takes"):
        check_laws(IntegerSum(), types=(int, int))
    with pytest.raises(DataError, match="TT106"):
        check_laws(Twice[str, Any](), types=(str, dict))


# ---------------------------------------------------------------------------------------------- how it is run


def test_a_law_reads_as_an_equation() -> None:
    found = laws(TouchedMean())
    assert [law.name for law in found] == [
        "frozen",
        "total",
        "types",
        "purity",
        "identity",
        "commutativity",
        "associativity",
        "order insensitivity",
        "key locality",
        "idle keys are silent",
        "idle keys leave no trace",
    ]
    by_name = {law.name: law for law in found}
    assert by_name["associativity"].equation == "combine(a, combine(b, c)) == combine(combine(a, b), c)"
    assert str(by_name["identity"]) == "TouchedMean: identity"
    assert all("\n" not in law.equation for law in found)
    assert not any("idle" in law.name for law in laws(IntegerSum()))
    assert [law.name for law in laws(OwnStart())] == ["frozen", "total", "types", "key locality", "purity"]


def test_each_law_is_a_test_with_a_readable_name(request: pytest.FixtureRequest) -> None:
    names = [item.name for item in request.session.items]
    if len(names) > 50:
        assert "test_lawful[IntegerSum-associativity]" in names
        assert "test_lawful[TouchedMean-idle_keys_are_silent]" in names


def test_the_same_counter_example_every_time() -> None:
    first, again = (broken(FloatSum(), "associativity") for _ in range(2))
    assert str(first) == str(again)


def test_it_says_nothing_else(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(LawBroken) as caught:
        check_laws(Concatenation(), max_examples=30)
    assert capfd.readouterr() == ("", "")
    assert not getattr(caught.value, "__notes__", [])
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_what_is_not_an_operator_and_what_does_not_fit() -> None:
    with pytest.raises(UsageError, match="TT406 3 is no operator"):
        check_laws(3, max_examples=20)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"TT407 items drew \('a', 'x'\)(.|\n)*pairs \(str, int\)"):
        check_laws(IntegerSum(), items=st.just(("a", "x")), max_examples=20)
    with pytest.raises(UsageError, match=r"TT407 items drew \(None, 0\)"):
        check_laws(IntegerSum(), items=st.just((None, 0)), max_examples=20)
    with pytest.raises(UsageError, match=r"TT406 Twice has keys of type list\[int\] in U\[list\[int\], int\]"):
        check_laws(Twice[Any, int](), types=(list[int], int), max_examples=20)
    with pytest.raises(UsageError, match=r"TT407 .*cannot be copied") as caught:
        check_laws(Uncopyable(), items=st.just(("a", 0)), max_examples=20)
    assert not getattr(caught.value, "__notes__", [])
    with pytest.raises(UsageError, match=r"TT407 .*no example could be judged: every item failed, .*ZeroDivision"):
        laws(Ratio(), items=st.just(("a", 0)))[2].check(20)


def test_without_hypothesis_it_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['hypothesis'] = None\n"
        "import tracetypes\n"
        "try: import tracetypes.testing\n"
        "except tracetypes.UsageError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("TT401 ")
    assert "pip install 'tracetypes[test]'" in done.stdout


# ---------------------------------------------------------------------------------------------- values, equality


@pytest.mark.parametrize(
    "annotation",
    [
        bool,
        int,
        float,
        str,
        bytes,
        dt.datetime,
        dt.date,
        Unit,
        int | None,
        list[float],
        tuple[str, ...],
        Point,
        Day,
        Pair,
        Point | Pair,
        list[Point | None],
        Positive,
    ],
    ids=str,
)
def test_values_fit_their_schema(annotation: Any) -> None:
    schema = schema_of(annotation)
    fit, order = conformer(schema), canonical(schema)

    @settings(max_examples=40, derandomize=True, database=None)
    @given(values(annotation), values(schema), keys_of(schema))
    def fits(value: Any, also: Any, key: Any) -> None:
        order(fit(value))
        fit(also)
        assert key is None or key_problem(schema, key) is None

    fits()


def drawn(annotation: Any) -> list[Any]:
    found: list[Any] = []

    @settings(max_examples=400, derandomize=True, database=None)
    @given(values(annotation))
    def collect(value: Any) -> None:
        found.append(value)

    collect()
    return found


def test_the_awkward_values_are_among_them() -> None:
    floats = drawn(float)
    assert any(f != f for f in floats)
    assert {math.inf, -math.inf, 0.1, 1e16} <= set(floats)
    assert any(f == 0 and math.copysign(1, f) < 0 for f in floats)
    assert {0, -1, 1000, -1000} <= set(drawn(int))
    assert max(map(abs, drawn(int))) == 1000
    texts = drawn(str)
    assert "" in texts
    assert any(not text.isascii() for text in texts)
    assert None in drawn(int | None)


def test_a_flow_of_which_every_example_fails_says_why_and_not_that_all_laws_hold() -> None:
    flow = Dataflow("failing")
    numbers = flow.source("in", U[Unit, int], markers=every(seconds=1, time=lambda value: 1 // 0))
    flow.sink("out", numbers)
    assert check_deployments(flow, max_examples=4) == 0  # rows without a time are rejects, which agree
    flow = Dataflow("failing")
    numbers = flow.source("in", U[Unit, int], markers=every(seconds=1, time=lambda value: 0))
    flow.sink("out", numbers.through(Fails()))
    rows = {"in": st.just([1, 2])}
    with pytest.raises(UsageError, match=r"TT407 dataflow 'failing': .*, e.g. TT202 Fails.on_item raised ZeroDivisionError"):
        check_deployments(flow, rows=rows, max_examples=4)
    said: list[str] = []
    assert check_flow(flow, rows=rows, max_examples=4, say=said.append) == 1
    assert any(line.startswith("unknown failing: deployments: TT407") for line in said)
    flow = Dataflow("empty")
    flow.sink("out", flow.source("in", U[Unit, int], markers=every(seconds=1, time=lambda value: 0)))
    said.clear()
    assert check_flow(flow, rows={"in": st.just([])}, max_examples=4, say=said.append) == 0
    assert said[0].startswith("unknown empty: deployments: TT407 dataflow 'empty': no row was drawn")
    assert said[1:] == ["1 unknown: no example could be judged"]


@attrs.frozen
class Fails(OpStateless[Unit, int, Unit, int]):
    def on_item(self, key: Unit, value: int, emit: Callable[[Unit, int], None]) -> None:
        emit(key, value // (value - value))


def test_a_record_that_no_value_fits_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="TT407"):
        check_laws(Twice[str, Never](), types=(str, Never), max_examples=20)


@attrs.frozen
class Never:
    n: int = attrs.field()

    @n.validator
    def _never(self, _: object, n: int) -> None:
        raise ValueError(n)


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (math.nan, math.nan, True),
        ([1, (math.nan, {"a": math.nan})], [1, (math.nan, {"a": math.nan})], True),
        (Point(math.nan, None, ()), Point(math.nan, None, ()), True),
        (Point(math.nan, None, ()), Point(math.nan, 1, ()), False),
        (PlainBox(1, math.nan), PlainBox(1, math.nan), True),
        (PlainBox(1, math.nan), PlainBox(2, math.nan), False),
        (0.0, -0.0, True),
        ([1], (1,), False),
        ([1], [1, 2], False),
        (len, len, True),
        (len, print, False),
        ({"a": 1}, {"b": 1}, False),
    ],
)
def test_equality(one: object, other: object, equal: bool) -> None:
    assert same(one, other) is equal
    assert same(other, one) is equal


# ---------------------------------------------------------------------------------------------- the guide


def test_the_guide_shows_what_is_really_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it checks holds, which a part of the examples shows."""
    monkeypatch.setattr(testing, "check_laws", partial(check_laws, max_examples=30))
    monkeypatch.setattr(testing, "check_deployments", partial(check_deployments, max_examples=10))
    guide = (ROOT / "docs" / "laws.md").read_text(encoding="utf-8")
    space: dict[str, Any] = {"__name__": "guide"}
    for block in re.findall(r"^```python\n(.*?)^```", guide, re.MULTILINE | re.DOTALL):
        exec(block, space)
    shown = re.findall(r"^```text\n(.*?)\n```", guide, re.MULTILINE | re.DOTALL)
    for name in ("Energy", "Changed"):
        assert str(broken(space[name]())) in shown
    assert str(broken(SharedStart())).replace("SharedStart", "Streak") in shown
    check_laws(space["ExactEnergy"](), max_examples=30)
    space["test_recovery"]()
    for law in laws(TouchedMean()):
        assert f"| {law.name} |" in guide
        assert law.code in guide


# ------------------------------------------------------------------------------------------------- silence


@attrs.frozen
class Timer(OpKeyedOrdered[str, int, int, int | None]):
    """Emits the last item of a key when ``gap`` seconds have passed since; the item is its own time."""

    gap: int
    lasting: Linger
    due_in: int

    def initial_state(self) -> int | None:
        return None

    def on_item(self, state: int | None, key: str, value: int, emit: Callable[[int], None]) -> int | None:
        return value

    def on_marker(self, state: int | None, key: str, marker: Marker, emit: Callable[[int], None]) -> int | None:
        if state is None or marker.timestamp < state + self.gap:
            return state
        emit(state)
        return None

    def linger(self) -> Linger:
        return self.lasting

    def next_due(self, state: int | None, key: str) -> int | None:
        return None if state is None else (state + self.due_in) * 1_000_000


TIMES = st.tuples(st.sampled_from("ab"), st.integers(0, 30))


def timer(gap: int, lasting: Linger, due_in: int) -> None:
    check_laws(Timer(gap, lasting, due_in), items=TIMES, time=lambda value: value, max_examples=40)


@pytest.mark.parametrize("due_in", [0, 6, 7])
def test_an_operator_that_says_how_long_it_lingers(due_in: int) -> None:
    timer(7, dt.timedelta(seconds=7), due_in)


@pytest.mark.parametrize("gap", [8, 12, 300])
def test_an_operator_that_emits_later_than_it_says(gap: int) -> None:
    with pytest.raises(LawBroken, match=r"TT314 Timer: it says that it lingers for 0:00:04, and emits later"):
        timer(gap, dt.timedelta(seconds=4), 0)


def test_an_operator_that_is_due_earlier_than_it_says() -> None:
    with pytest.raises(LawBroken, match=r"TT314 Timer: next_due is defined, but a marker before it matters"):
        timer(7, dt.timedelta(seconds=7), 10)


@attrs.frozen
class Late(Timer):
    """Says that it emits later than it does, or that the last of several markers is enough."""

    first: bool = False

    def on_marker(self, state: int | None, key: str, marker: Marker, emit: Callable[[int], None]) -> int | None:
        if self.first and state is not None and marker.timestamp < state + self.gap:
            return state - 1
        return super().on_marker(state, key, marker, emit)

    def next_due(self, state: int | None, key: str) -> int | None:
        return None if state is None else -(2**62)

    def next_emission(self, state: int | None, key: str) -> int | None:
        return None if state is None else (state + self.due_in) * 1_000_000


def test_an_operator_that_says_when_it_emits() -> None:
    check_laws(Late(7, dt.timedelta(seconds=7), 7), items=TIMES, time=lambda value: value, max_examples=40)
    for op in (Late(7, dt.timedelta(seconds=7), 10), Late(7, 12, 7, True)):
        (law,) = [law for law in laws(op, items=TIMES) if law.name == "due"]
        with pytest.raises((LawBroken, OperatorFailed), match=r"TT314 Late.*next_emission"):
            law.check(150)


def test_without_times_only_numbers_of_blocks_are_tried() -> None:
    check_laws(Timer(9, dt.timedelta(seconds=4), 0), items=TIMES, max_examples=50)
