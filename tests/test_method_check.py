"""What methods and functions forget: the check refuses it by their code, and accepts what it cannot decide."""

import functools
import itertools
import re
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import attrs
import pytest

import tracetypes
from tracetypes import Dataflow, OpKeyedOrdered, OpKeyedUnordered, OpStateless, U, Unit, every, stdlib
from tracetypes.check import violations
from tracetypes.errors import Location, Violation
from tracetypes.function_code import plain
from tracetypes.value_tests import excludes_none, value_test

V = TypeVar("V")
ts: Any = stdlib  # mypy would refuse most of what is here
sort: Any = tracetypes.sort


@attrs.frozen
class Row:
    name: str
    number: int
    ts: int


def found(op: Any, *, ordered: bool = False) -> list[Violation]:
    """What the check says of an operator on rows by their name."""
    flow = Dataflow("test")
    rows = flow.source("in", U[str, Row], key=lambda r: r.name, markers=every(seconds=10, time=lambda r: r.ts))
    stream: Any = rows
    stream = stream.through(sort(by=lambda r: r.ts)) if ordered else stream
    flow.sink("out", stream.through(op))
    return list(violations(flow))


def codes(op: Any, *, ordered: bool = False) -> list[str]:
    return [one.code for one in found(op, ordered=ordered)]


# ------------------------------------------------------------------------------------------------- methods


def made(template: Any, **methods: Any) -> Any:
    """An operator with these methods."""
    return attrs.frozen(types.new_class("Op", (template,), exec_body=lambda names: names.update(methods)))()


def stateless(on_item: Any) -> Any:
    """An operator with this method, as authors write it who know no annotations."""
    return made(OpStateless[str, Row, str, int], on_item=on_item)


def unordered(**methods: Any) -> Any:
    """A counter with some other methods."""
    right: dict[str, Any] = {
        "lift": lambda self, key, value: 1,
        "identity": lambda self: 0,
        "combine": lambda self, a, b: a + b,
        "initial_state": lambda self: 0,
        "update_state": lambda self, state, agg: state + agg,
        "on_marker": lambda self, state, key, marker, emit: emit(key, state),
    }
    return made(OpKeyedUnordered[str, Row, str, int, int, int], **right | methods)


def ordered(state: Any = int, **methods: Any) -> Any:
    right: dict[str, Any] = {"initial_state": lambda self: 0, "on_item": lambda self, state, key, value, emit: state}
    return made(OpKeyedOrdered[str, Row, int, state], **right | methods)


def yields(self: Any, key: Any, value: Any, emit: Any) -> Any:
    yield key, value.number


async def is_async(self: Any, key: Any, value: Any, emit: Any) -> Any:
    emit(key, value.number)


async def yields_async(self: Any, key: Any, value: Any, emit: Any) -> Any:
    yield key, value.number


def returns_pair(self: Any, key: Any, value: Any, emit: Any) -> Any:
    return key, value.number


def returns_sometimes(self: Any, key: Any, value: Any, out: Any) -> Any:
    if value.number > 3:
        return [(key, value.number)]
    return None


def returns_name(self: Any, key: Any, value: Any, emit: Any) -> Any:
    pair = (key, value.number)
    return pair


def with_default(self: Any, key: Any, value: Any, emit: Any, scale: int = 2) -> Any:
    return key, value.number * scale


FORGETS: dict[str, Any] = {
    "generator": yields,
    "coroutine": is_async,
    "asynchronous generator": yields_async,
    "pair": returns_pair,
    "on one path": returns_sometimes,
    "name": returns_name,
    "lambda": lambda self, key, value, emit: (key, value.number),
    "another parameter": with_default,
    "static": staticmethod(functools.partial(returns_pair, None)),
    "partial": functools.partialmethod(yields),
}


@pytest.mark.parametrize("on_item", FORGETS.values(), ids=FORGETS)
def test_TT131_on_item_has_no_effect(on_item: Any) -> None:
    (one,) = found(stateless(on_item))
    assert (one.code, one.operator) == ("TT131", "Op")
    assert "emit(key, value)" in one.fix


def test_TT131_names_the_line_of_the_method() -> None:
    (one,) = found(stateless(returns_pair))
    assert one.where == Location(__file__, returns_pair.__code__.co_firstlineno)
    assert one.found == "Op.on_item returns a value, which is thrown away, and never uses its emitter"


def test_TT131_of_a_base_class() -> None:
    @attrs.frozen
    class Inherits(type(stateless(returns_pair))):  # type: ignore[misc]
        pass

    assert codes(Inherits()) == ["TT131"]


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


def emits_results(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator by which generators are right."""

    @functools.wraps(function)
    def wrapper(self: Any, key: Any, value: Any, emit: Any) -> None:
        for pair in function(self, key, value, emit):
            emit(*pair)

    return wrapper


def in_variable(self: Any, key: Any, value: Any, emit: Any) -> Any:
    out = emit
    out(key, value.number)
    return value.number


def in_closure(self: Any, key: Any, value: Any, emit: Any) -> Any:
    def inner() -> None:
        emit(key, value.number)

    inner()
    return 1


def passes_on(self: Any, key: Any, value: Any, emit: Any) -> Any:
    return list(map(emit, [key], [value.number])), 1


def all_at_once(self: Any, *args: Any) -> Any:
    args[-1](args[0], 1)
    return 1


def by_name(self: Any, key: Any, value: Any, emit: Any) -> Any:
    locals()["emit"](key, 1)
    return 1


class Called:
    def __call__(self, key: Any, value: Any, emit: Any) -> Any:
        return emit(key, 1)


FINE: dict[str, Any] = {
    "emits": lambda self, key, value, emit: emit(key, value.number),
    "returns a call": lambda self, key, value, emit: print(key),
    "returns None": lambda self, key, value, emit: None,
    "emitter in a variable": in_variable,
    "closure": in_closure,
    "passes the emitter on": passes_on,
    "all arguments": all_at_once,
    "sees its variables": by_name,
    "decorated": logged(returns_pair),
    "decorated generator": emits_results(yields),
    "object": Called(),
}


@pytest.mark.parametrize("on_item", FINE.values(), ids=FINE)
def test_TT131_is_no_false_alarm(on_item: Any) -> None:
    assert found(stateless(on_item)) == []


def emits_later(value: Any, emit: Any) -> Iterator[None]:
    yield emit("a", value.number)


async def emits_on_a_loop(value: Any, emit: Any) -> None:
    emit("a", value.number)


def generator_expression(self: Any, key: Any, value: Any, emit: Any) -> None:
    (emit(key, n) for n in range(value.number))


def maps(self: Any, key: Any, value: Any, emit: Any) -> None:
    map(lambda n: emit(key, n), range(value.number))


def from_a_module(self: Any, key: Any, value: Any, emit: Any) -> None:
    itertools.starmap(emit, [(key, value.number)])


def calls_a_generator(self: Any, key: Any, value: Any, emit: Any) -> None:
    emits_later(value, emit=emit)


def calls_a_coroutine(self: Any, key: Any, value: Any, emit: Any) -> None:
    emits_on_a_loop(value, emit)  # type: ignore[unused-coroutine]


def calls_a_local_generator() -> Any:
    def later(value: Any) -> Iterator[int]:
        yield value.number

    def on_item(self: Any, key: Any, value: Any, emit: Any) -> None:
        try:
            emit(key, 1)
        finally:
            later(*[value])

    return on_item


THROWN_AWAY = {
    "generator expression": (generator_expression, "a generator"),
    "map": (maps, r"an iterator \(map\)"),
    "of a module": (from_a_module, r"an iterator \(starmap\)"),
    "function with yield": (calls_a_generator, "a generator"),
    "asynchronous function": (calls_a_coroutine, "a coroutine"),
    "local function with yield": (calls_a_local_generator(), "a generator"),
}


@pytest.mark.parametrize(("on_item", "what"), THROWN_AWAY.values(), ids=THROWN_AWAY)
def test_TT131_code_that_never_runs_since_its_generator_is_thrown_away(on_item: Any, what: str) -> None:
    (one,) = found(stateless(on_item))
    assert one.code == "TT131"
    assert re.fullmatch(rf"Op.on_item makes {what} and throws it away, so its code never runs", one.found)
    assert one.where.line > on_item.__code__.co_firstlineno


def test_TT131_a_generator_among_the_methods_of_an_operator() -> None:
    class Parts(OpStateless[str, Row, str, int]):
        def parts(self, value: Row, emit: Any) -> Iterator[None]:
            yield emit("a", value.number)

        def on_item(self, key: str, value: Row, emit: Any) -> None:
            self.parts(value, emit)

    class Right(OpStateless[str, Row, str, int]):
        def parts(self, value: Row, emit: Any) -> Any:
            emit("a", value.number)

        def on_item(self, key: str, value: Row, emit: Any) -> None:
            self.parts(value, emit)

    assert codes(attrs.frozen(Parts)()) == ["TT131"]
    assert codes(attrs.frozen(Right)()) == []


def test_TT131_a_generator_in_a_function_that_is_given() -> None:
    def number(row: Any) -> int:
        map(print, row.name)
        return int(row.number)

    assert codes(ts.map_values(number)) == ["TT131"]


def uses_what_runs_later(self: Any, key: Any, value: Any, emit: Any) -> None:
    [emit(key, n) for n in range(value.number)]
    numbers = (n for n in range(value.number))
    list(map(str, numbers))
    all(emit(key, n) for n in range(value.number))
    next(map(str, [1]))
    emits_later(value, emit).__next__()
    map(str, [1]).__next__()
    print(map(str, [1]))
    for _ in emits_later(value, emit):
        pass
    super(Row, self).__init__()
    key.strip().upper()


def test_TT131_what_runs_later_and_is_used() -> None:
    assert found(stateless(uses_what_runs_later)) == []


def test_TT131_a_method_that_nothing_calls_since_its_name_has_a_slip() -> None:
    (one,) = found(made(OpStateless[str, Row, str, int], on_item=FINE["emits"], on_makrer=lambda self, marker, emit: None))
    assert (one.code, one.found) == ("TT131", "Op.on_makrer, which nothing calls")
    assert one.fix == "call it on_marker if that is meant, otherwise give it another name"
    assert codes(ordered(next_deu=lambda self, state, key: None), ordered=True) == ["TT131"]


@pytest.mark.parametrize(
    "methods",
    [
        {"on_item": lambda self, key, value, emit: self.on_markers(emit), "on_markers": lambda self, emit: None},
        {"on_item": FINE["emits"], "_on_makrer": lambda self, marker, emit: None},
        {"on_item": FINE["emits"], "on_makrer": lambda self, marker, emit: None, "on_marker": lambda self, marker, emit: None},
        {"on_item": FINE["emits"], "after_marker": lambda self, marker, emit: None},
    ],
    ids=["called", "private", "both", "another name"],
)
def test_a_method_with_a_name_near_one_of_the_template_is_no_false_alarm(methods: Any) -> None:
    assert found(made(OpStateless[str, Row, str, int], **methods)) == []


METHODS = ["lift", "identity", "combine", "initial_state", "update_state"]
COUNTS = dict(zip(METHODS, (2, 0, 2, 0, 2), strict=True))


@pytest.mark.parametrize("method", METHODS)
def test_TT131_a_result_that_is_used(method: str) -> None:
    parameters = ["self", *"abc"[: COUNTS[method]]]
    names: dict[str, Any] = {}
    exec(f"def forgets({', '.join(parameters)}): 1 + 1\ndef later({', '.join(parameters)}): yield 1", names)
    for function in (names["forgets"], names["later"], functools.lru_cache(names["forgets"])):
        (one,) = [one for one in found(unordered(**{method: function})) if one.code == "TT131"]
        assert one.found.startswith(f"Op.{method} ")


def nothing(self: Any, state: Any, key: Any, value: Any, emit: Any) -> Any:
    emit(value.number)


def sometimes(self: Any, state: Any, key: Any, value: Any, emit: Any) -> Any:
    if value.number:
        return state + 1


def raises(self: Any, state: Any, key: Any, value: Any, emit: Any) -> Any:
    raise NotImplementedError


def test_TT131_the_state_of_an_ordered_operator() -> None:
    assert codes(ordered(on_item=nothing), ordered=True) == ["TT131"]
    assert codes(ordered(initial_state=lambda self: None), ordered=True) == ["TT131"]
    assert codes(ordered(on_marker=lambda self, state, key, marker, emit: None), ordered=True) == ["TT131"]
    for state in (None, int | None, Any, object, V):
        assert "TT131" not in codes(ordered(state, on_item=nothing), ordered=True)
    for method in (sometimes, raises):
        assert codes(ordered(on_item=method), ordered=True) == []


def test_TT131_on_marker_of_an_unordered_operator() -> None:
    assert codes(unordered(on_marker=lambda self, state, key, marker, emit: (key, state))) == ["TT131"]
    assert codes(unordered(on_item=lambda self, state, key, value, tell: (key, state))) == ["TT131"]
    assert codes(unordered(on_marker=lambda self, state, key, marker, emit: None)) == []


@attrs.frozen
class Longest(stdlib.Aggregate[str, int, int]):
    def lift(self, value: Any) -> Any:
        len(value)

    def identity(self) -> int:
        return 0

    def combine(self, a: int, b: int) -> int:
        return max(a, b)

    def result(self, agg: int) -> int:
        return agg


def test_TT131_methods_of_an_aggregate() -> None:
    flow = Dataflow("test")
    source = flow.source("in", U[Unit, str], markers=every(seconds=1, time=len))
    flow.sink("out", source.through(ts.aggregate(Longest())))
    (one,) = violations(flow)
    assert (one.code, one.found) == ("TT131", "Longest.lift returns nothing on any path, so its result is None")


# ------------------------------------------------------------------------------------------------- functions


def compares(key: Any, row: Any) -> Any:
    row.number > 3  # noqa: B015


def forgets(row: Any) -> Any:
    row.number + 1


def reads_late(row: Any) -> Any:
    return row.number if row.number else row.late


WRONG: dict[str, tuple[Callable[[], Any], str, str]] = {
    "map_values": (lambda: ts.map_values(lambda r: r.y, to=int), "TT123", "map_values: function reads Row.y"),
    "of two": (lambda: ts.map(lambda k, r: (k, r.y), to=tuple[str, int]), "TT123", "map: function reads Row.y"),
    "method": (lambda: ts.map_values(Reader().read, to=int), "TT123", "map_values: function reads Row.y"),
    "partial": (lambda: ts.map_values(functools.partial(pick, 1), to=int), "TT123", "map_values: function reads Row.y"),
    "aggregate": (lambda: ts.aggregate(ts.sum(lambda r: r.secs, to=int)), "TT123", "sum: of reads Row.secs"),
    "where": (lambda: ts.aggregate(ts.count(where=lambda r: r.x > 1)), "TT123", "count: where reads Row.x"),
    "in struct": (lambda: ts.aggregate(ts.struct(Two, a=ts.count(), b=LARGEST)), "TT123", "max: of reads Row.x"),
    "window": (lambda: ts.tumbling(ts.min(lambda r: r.x, to=int), size=10), "TT123", "min: of reads Row.x"),
    "one argument": (lambda: ts.filter(lambda r: r.number > 3), "TT132", "filter: predicate takes 1 argument"),
    "two arguments": (lambda: ts.map_values(lambda k, r: r.number, to=int), "TT132", "map_values: function takes 2 arguments"),
    "sort": (lambda: sort(by=lambda k, r: r.ts), "TT132", "by takes 2 arguments"),
    "sort of what is not there": (lambda: sort(by=lambda r: r.time), "TT123", "by reads Row.time"),
    "sort by nothing": (lambda: sort(by=lambda r: None), "TT131", "by returns nothing on any path, so its result is None"),
    "predicate": (lambda: ts.filter(compares), "TT131", "filter: predicate returns nothing on any path, so its result is None"),
    "sum of nothing": (
        lambda: ts.aggregate(ts.sum(forgets, to=int)),
        "TT131",
        "sum: of returns nothing on any path, so its result is None",
    ),
    "the most by nothing": (
        lambda: ts.aggregate(ts.top(2, by=forgets)),
        "TT131",
        "top: by returns nothing on any path, so its result is None",
    ),
    "generator": (lambda: ts.map_values(walks, to=int), "TT131", "map_values: function is a generator"),
}


class Reader:
    def read(self, row: Any) -> Any:
        return row.y


def pick(one: int, row: Any) -> Any:
    return one + row.y


LARGEST: Any = ts.max(lambda r: r.x, to=int)


def walks(row: Any) -> Any:
    yield row.number


@attrs.frozen
class Two:
    a: int
    b: int


@pytest.mark.parametrize(("op", "code", "text"), WRONG.values(), ids=WRONG)
def test_functions_that_are_given(op: Callable[[], Any], code: str, text: str) -> None:
    (one,) = found(op())
    assert (one.code, one.found) == (code, text)


def pairs(key: str, row: Row) -> Iterator[tuple[str, int]]:
    yield key, row.number


@attrs.frozen
class Scaled(OpStateless[str, V, str, int], Generic[V]):
    by: Callable[[V], int]

    def on_item(self, key: str, value: V, emit: Any) -> None:
        emit(key, self.by(value))


RIGHT: dict[str, Callable[[], Any]] = {
    "generator": lambda: ts.flat_map(pairs),
    "behind a branch": lambda: ts.map_values(reads_late, to=int),
    "class": lambda: ts.map_values(str),
    "builtin": lambda: ts.map_values(repr, to=str),
    "default": lambda: ts.filter(lambda key, r, least=3: r.number > least),
    "any number": lambda: ts.filter(lambda *both: both[1].number > 3),
    "partial with a name": lambda: ts.filter(functools.partial(lambda key, r, least: r.number > least, least=3)),
    "of authors": lambda: Scaled(lambda r: r.number),
}


@pytest.mark.parametrize("op", RIGHT.values(), ids=RIGHT)
def test_functions_that_are_right(op: Callable[[], Any]) -> None:
    assert found(op()) == []


def test_a_field_of_an_operator_of_authors_is_checked_too() -> None:
    assert codes(Scaled(lambda r: r.y)) == ["TT123"]


@attrs.frozen
class Watched(OpStateless[str, V, str, V], Generic[V]):
    look: Callable[[V], Any]

    def on_item(self, key: str, value: V, emit: Any) -> None:
        self.look(value)
        emit(key, value)


def test_a_function_of_authors_may_return_nothing_where_its_type_says_nothing() -> None:
    assert codes(Watched(forgets)) == []


def test_TT131_the_sender_of_a_row() -> None:
    flow = Dataflow("test")
    marks = every(seconds=1, time=lambda r: r.ts, per=forgets)
    flow.sink("out", flow.source("in", U[str, Row], key=lambda r: str(r.number), markers=marks))
    (one,) = violations(flow)
    assert (one.code, one.found) == ("TT131", "per returns nothing on any path, so its result is None")


def test_TT132_functions_of_a_source() -> None:
    flow = Dataflow("test")
    wrong: Any = lambda key, row: row.ts  # noqa: E731
    flow.sink("out", flow.source("in", U[int, Row], key=wrong, markers=every(seconds=1, time=wrong)))
    assert [one.found for one in violations(flow)] == ["time takes 2 arguments", "key takes 2 arguments"]


# ------------------------------------------------------------------------------------------------- types


@pytest.mark.parametrize("annotation", [int, str, list[int], dict[str, int], tuple[int, ...], Row, Callable[[], int], bool | int])
def test_types_that_exclude_None(annotation: Any) -> None:
    assert excludes_none(annotation)


@pytest.mark.parametrize("annotation", [None, int | None, Any, object, V, "Row", list[int] | None, V | int])
def test_types_that_may_be_None(annotation: Any) -> None:
    assert not excludes_none(annotation)


@pytest.mark.parametrize(
    ("annotation", "value", "fits"),
    [(float, 1, True), (int, 1.0, False), (list[int], (1,), True), (int, "1", False), (dict[str, int], [], False)],
)
def test_values_of_types(annotation: Any, value: Any, fits: bool) -> None:
    test = value_test(annotation)
    assert test is not None
    assert test(value) is fits


def test_values_of_numpy_are_what_they_hold() -> None:
    numpy = pytest.importorskip("numpy")
    for annotation, value in ((int, numpy.int64(1)), (float, numpy.float32(1)), (bool, numpy.bool_(True))):
        test = value_test(annotation)
        assert test is not None
        assert test(value)


def test_code_is_read_alike_by_every_Python() -> None:
    """The names of instructions change from version to version."""
    forgets = plain(returns_pair)
    assert forgets is not None
    assert forgets.forgets(3), sys.version
    functions = map(plain, (compares, nothing, sometimes, raises))
    assert [one.returns_nothing for one in functions if one is not None] == [True, True, False, False]
