"""Loops over ranges of values: Python, the tree and columns give the same; what a turn cannot do alone is refused."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.grammar.judging import ROW, Tally, judge
from tests.grammar.prelude import Row
from tests.grammar.writer import Text
from tracetypes.compiler.columns import evaluation, turns
from tracetypes.compiler.columns.column import Column
from tracetypes.compiler.columns.conversion import values_of
from tracetypes.compiler.columns.expressions import Rows
from tracetypes.compiler.tracing import expr
from tracetypes.compiler.tracing.expr import Branch, Call, Const, Emission, Input, Leaf, Loop, Pack, Tree, Undefined
from tracetypes.compiler.tracing.kinds import BOOLEAN, INTEGER
from tracetypes.compiler.tracing.operations.basic import ADD, LT, MUL, SUB
from tracetypes.compiler.tracing.tracer import Given, Untraceable, trace
from tracetypes.records import INT_MAX, INT_MIN, String

# ------------------------------------------------------------------------------------------------- programs

RANGES = (
    "v.i % 7",
    "1, v.i % 7 + 1",
    "len(v.s), v.j % 5 + 2",
    "v.j % 5, -3, -1",
    "v.i, v.j, 2**62",
    "v.j, v.i, -(2**62)",
    "v.i - 4, v.i + n",
    "0, 9, v.i % 4 - 2",
    "-2, clamp(v.j), v.i % 3 or 1",
    "v.b, 2 + v.c",
    "v.or_else() % 3",
)

TURNS = (
    "emit(key, Out(x, r, w, ok, m, v.ts, v.day))",
    "emit(str(x % 3), Out(x * v.i, v.f + x, v.s + str(x), x < v.j, None, v.ts, v.day))",
    "emit(w, Out(v.j // (x - 1), r / v.i, w, ok, x, v.ts + dt.timedelta(seconds=x % 100), v.day))",
    "emit(key, Out(abs(x), x / 2, w, bool(x), m, v.ts, v.day)); emit(v.t, Out(-x, r, w, not ok, v.oi, v.tu, v.day))",
    "y = x * 2; z = min(y, n)\n    emit(w, Out(z, y / 4, w[:1], ok, z, v.ts, v.day))",
    "if x % 2: continue\n    emit(key, Out(x, r, w, ok, m, v.ts, v.day))",
    "if x > v.i: emit(key, Out(x, r, w, ok, m, v.ts, v.day))\n    else: emit(w, Out(n, v.f, w, x == n, v.oi, v.ts, v.day))",
    "if v.oi is not None and v.oi < x: emit(key, Out(v.oi - x, r, w, ok, m, v.ts, v.day))",
    "k = PRICES.get(v.s, r) * x\n    emit(key, Out(x, k, w, k > 1.0, m, v.ts, v.day))",
    "for k in (x, n):\n        emit(key, Out(k, r, w, ok, m, v.ts, v.day))",
    "for k in range(x % 3):\n        emit(key, Out(k + x, r, w, ok, x - k, v.ts, v.day))",
    "found = [x, n]; found.append(x + 1)\n    emit(key, Out(sum(found), r, w, ok, max(found), v.ts, v.day))",
    "def more(y, by=x): return y + by\n    emit(key, Out(more(n), r, w, ok, more(1, by=2), v.ts, v.day))",
    "match x:\n        case 0: emit(w, Out(7, r, w, ok, m, v.ts, v.day))\n"
    "        case other: emit(w, Out(other, r, w, ok, m, v.ts, v.day))",
)

BETWEEN = (
    "",
    "if v.b:\n    return",
    "if v.i < 2:\n    n = v.i - 1",
    "emit(w, Out(1, r, w, ok, m, v.ts, v.day))",
    "n = n // (v.j + 1)",
)


@st.composite
def programs(draw: Callable[..., Any]) -> Text:
    """One or two loops, and what is around them."""
    lines = ["n, r, w, ok, m = v.j % 5, v.g, v.t, v.c, v.of and 3"]
    for _ in range(draw(st.integers(1, 2))):
        lines.append(draw(st.sampled_from(BETWEEN)))
        lines.append(f"for x in range({draw(st.sampled_from(RANGES))}):\n    {draw(st.sampled_from(TURNS))}")
    lines.append(draw(st.sampled_from(BETWEEN)))
    return Text("\n---\n" + "\n".join(lines), frozenset())


def test_programs_with_loops() -> None:
    tally = Tally()

    @settings(max_examples=150, deadline=None, derandomize=True, database=None)
    @given(programs(), st.none() | st.just(3))
    def judged(text: Text, coded: int | None) -> None:
        judge(text, "body", tally, coded=coded)

    judged()
    assert tally.traced >= 0.9 * tally.programs, tally.refused.most_common(9)
    assert tally.answered >= 0.97 * tally.rows
    assert tally.emitting >= 0.9 * tally.traced


# ---------------------------------------------------------------------------------------------------- bounds

A, B, C = (Input(("row", name), INTEGER) for name in "abc")
TURN, INNER = Input(("turn", 0), INTEGER), Input(("turn", 1), INTEGER)
ONE, ZERO = Const(1, INTEGER), Const(0, INTEGER)


def pair(*parts: Any) -> Emission:
    return Emission(None, Pack(tuple, (), parts))


TREES: Sequence[Tree] = (
    Leaf((Loop(A, B, C, TURN, Leaf((pair(TURN, A),))),), B),
    Leaf((pair(A), Loop(A, B, C, TURN, Leaf((pair(TURN), pair(Call(SUB, (TURN, A), INTEGER))))), pair(B))),
    Leaf((Loop(A, B, C, TURN, Leaf((pair(Call(MUL, (TURN, TURN), INTEGER)),))),)),
    Branch(
        Call(LT, (A, B), BOOLEAN),
        Leaf((Loop(ZERO, Call(SUB, (B, A), INTEGER), C, TURN, Leaf((pair(TURN, B),))),), A),
        Leaf((), B),
    ),
    Leaf(
        (
            Loop(
                A,
                B,
                C,
                TURN,
                Branch(
                    Call(LT, (ZERO, TURN), BOOLEAN),
                    Leaf((pair(TURN, ONE), Loop(ZERO, Const(3, INTEGER), ONE, INNER, Leaf((pair(INNER, TURN),))))),
                    Leaf((pair(ZERO, Call(ADD, (TURN, ONE), INTEGER)),)),
                ),
            ),
        )
    ),
)

NUMBERS = st.integers(-6, 6) | st.sampled_from((INT_MIN, INT_MIN + 1, INT_MAX, INT_MAX - 1, 2**62, -(2**62), 10**9))
BOUNDS = st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), min_size=1, max_size=6)


def length(start: int, stop: int, step: int) -> int:
    if step == 0:
        return 0
    return max(0, -((start - stop) // step)) if step > 0 else max(0, -((stop - start) // -step))


def agree(tree: Tree, rows: Sequence[tuple[int, int, int]]) -> None:
    """Columns give for rows what the tree gives for each, also by generated code; rows of too many turns have no value."""
    wanted, first, many = [], None, 0
    for number, row in enumerate(rows):
        bare = dict(zip("abc", row, strict=True))
        low, high = (0, row[1] - row[0]) if isinstance(tree, Branch) else row[:2]
        turned = length(low, high, row[2]) if not isinstance(tree, Branch) or row[0] < row[1] else 0
        many += turned
        try:
            if many > turns.MOST:
                raise Undefined("too many")
            wanted.append(expr.run(tree, lambda one, bare=bare: bare[one.path[1]]))  # type: ignore[misc]
        except Undefined:
            first = number if first is None else first
    arrays = {name: np.array(some, np.int64) for name, some in zip("abc", zip(*rows, strict=True), strict=True)}
    for _ in range(6):  # the code is generated on the way
        try:
            ran = evaluation.run(tree, lambda one: Column(INTEGER, arrays[one.path[1]]), len(rows))  # type: ignore[index]
        except Undefined as error:
            if error.args != (first,):
                raise AssertionError(f"row {error.args} has no value; it is {first}") from None
            continue
        assert first is None
        emitted: list[list[Any]] = [[] for _ in rows]
        for one in sorted(ran.emissions, key=lambda one: one.number):
            at = range(len(rows)) if one.rows is None else one.rows.tolist()
            for row, value in zip(at, values_of(one.value, len(at)), strict=True):
                emitted[row].append((None, value))
        results = [None] * len(rows) if ran.result is None else values_of(ran.result, len(rows))
        assert list(zip(emitted, results, strict=True)) == wanted


@settings(deadline=None)
@given(st.sampled_from(TREES), BOUNDS)
@example(TREES[0], [(INT_MIN, INT_MAX, INT_MAX), (INT_MAX, INT_MIN, INT_MIN), (0, 5, INT_MAX)])
@example(TREES[0], [(1, 4, 1), (INT_MIN, INT_MAX, 1), (0, 2, 1)])
@example(TREES[1], [(0, 3, 1), (5, 5, 1), (2, -1, -1)])
def test_any_bounds(tree: Tree, rows: list[tuple[int, int, int]]) -> None:
    kept = [row for row in rows if length(*row) <= 40 or length(*row) > turns.MOST]
    small = [row for row in kept if not isinstance(tree, Branch) or length(0, row[1] - row[0], row[2]) <= 40 or row[0] >= row[1]]
    if small:
        agree(tree, small)


TAME = [(0, 3, 1), (4, 1, -1), (2, 2, 1), (-1, 4, 2)]


def test_broken_loops_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """One turn more, and the turn of the row before."""
    counts, part = turns._counts, Rows.part
    for tree in (TREES[0], TREES[1], TREES[4]):
        agree(tree, TAME)
        with monkeypatch.context() as patch:
            patch.setattr(turns, "_counts", lambda *bounds: counts(*bounds) + np.uint64(1))
            with pytest.raises(AssertionError):
                agree(tree, TAME)
        with monkeypatch.context() as patch:
            patch.setattr(Rows, "part", lambda rows, within: part(rows, np.roll(within, 1)))
            with pytest.raises(AssertionError):
                agree(tree, TAME)


# -------------------------------------------------------------------------------------------------- refusals


def _adds(v: Row, emit: Any) -> None:
    total = 0
    for x in range(v.i):
        total += x
    emit(total)


def _remembers(v: Row, emit: Any) -> None:
    last = v.j
    for x in range(v.i):
        emit(last)
        last = x


def _names_the_last(v: Row, emit: Any) -> None:
    for x in range(v.i):
        emit(x)
    emit(x)


def _breaks(v: Row, emit: Any) -> None:
    for x in range(v.i):
        if x > v.j:
            break
        emit(x)


def _returns(v: Row, emit: Any) -> None:
    for x in range(v.i):
        for y in (1, 2):
            if y > x:
                return
        emit(x)


def _appends(v: Row, emit: Any) -> None:
    found: list[int] = []
    for x in range(v.i):
        found.append(x)
    emit(len(found))


def _goes_on(v: Row, emit: Any) -> None:
    some = iter((1, 2, 3))
    for x in range(v.i):
        for y in some:
            emit(x + y)


def _goes_on_with_a_generator(v: Row, emit: Any) -> None:
    some = (y for y in (1, 2, 3))
    for x in range(v.i):
        for y in some:
            emit(x + y)


def _asks_for_the_next(v: Row, emit: Any) -> None:
    some = (y for y in itertools.repeat(1, 100))
    for _ in range(v.i):
        emit(next(some))


def _yields(v: Row, emit: Any) -> None:
    def numbers() -> Any:
        for x in range(v.i):
            yield x + 1

    total = 0
    for x in numbers():
        total += x
    emit(total)


def _raises(v: Row, emit: Any) -> None:
    for x in range(v.i):
        if x > 3:
            raise ValueError
        emit(x)


def _only_raises(v: Row, emit: Any) -> None:
    for x in range(v.i):
        1 // (x - 3)
    emit(1)


def _counts(v: Row, emit: Any) -> None:
    emit(len(range(v.i)))


def _lists(v: Row, emit: Any) -> None:
    emit(sum([x for x in range(v.i)]))


def _of_floats(v: Row, emit: Any) -> None:
    for x in range(v.f):  # type: ignore[call-overload]
        emit(x)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (_adds, "keeps total of a turn for later"),
        (_remembers, "last as a turn of a loop over a range of values has left it"),
        (_names_the_last, "emits x as a turn of a loop over a range of values has left it"),
        (_breaks, "leaves a loop over a range of values by break"),
        (_returns, "leaves a loop over a range of values by return"),
        (_appends, "changes a list in a loop over a range of values"),
        (_goes_on, "goes on with an iterator"),
        (_goes_on_with_a_generator, "goes on with an iterator"),
        (_asks_for_the_next, "calls next in a loop"),
        (_yields, "yields in a loop over a range of values"),
        (_raises, "raises an exception in a loop over a range of values"),
        (_only_raises, "of which only an error comes"),
        (_counts, "uses a range of values other than in a for"),
        (_lists, "uses a range of values other than in a for"),
        (_of_floats, "always raises TypeError"),
    ],
)
def test_what_a_turn_cannot_do_alone(function: Any, reason: str) -> None:
    with pytest.raises(Untraceable, match=reason) as caught:
        trace(function, [Given("v", ROW)], emits="values")
    assert caught.value.calls


def test_a_number_may_be_looked_for_in_a_range() -> None:
    tree = trace(lambda v: v.i in range(v.j, v.number), [Given("v", ROW)], emits=None)
    inputs = {("v", "i"): 3, ("v", "j"): 3, ("v", "number"): 4}
    assert expr.run(tree, lambda one: inputs[one.path])[1] is True  # type: ignore[index]
    assert expr.run(tree, lambda one: {**inputs, ("v", "number"): 3}[one.path])[1] is False  # type: ignore[index]


def test_names_of_other_scopes_are_none_of_the_turn() -> None:
    """A comprehension and a function inside have variables of their own."""
    total = 5

    def program(v: Row, emit: Any) -> None:
        y = v.j
        for x in range(v.i):
            found = [y for y in (x, 1)]
            emit(found[0] + y + total + (lambda y: y)(x))

    tree = trace(program, [Given("v", ROW)], emits="values")
    emitted, _ = expr.run(tree, lambda one: {"i": 2, "j": 10}[one.path[1]])  # type: ignore[index]
    assert [value for _, value in emitted] == [15, 17]


def test_one_loop_is_one_way() -> None:
    def program(v: Row, emit: Any) -> None:
        for x in range(1, v.i + 1):
            emit((v.s, x))

    tree = trace(program, [Given("v", ROW)], emits="values")
    assert isinstance(tree, Leaf)
    assert [type(one) for one in tree.emissions] == [Loop]
    assert String() == tree.emissions[0].body.emissions[0].value.parts[0].kind  # type: ignore[union-attr]
