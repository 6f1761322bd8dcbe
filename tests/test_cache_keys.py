"""What changes between two plans changes the second one, wherever it lies; and what makes two operators of a plan one."""

from __future__ import annotations

import datetime as dt
import types
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.strategies import some
from tracetypes import Dataflow, Marker, OpKeyedUnordered, OpStateless, U, check, every, interpret_rows
from tracetypes.compiler.analysis import traced
from tracetypes.compiler.analysis.traced import Opaque
from tracetypes.compiler.plan.plan import Plan, links
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.plan.program import program
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.tracing import tracer as tracing
from tracetypes.compiler.tracing.cache_keys import AnalysisCache, ObjectKey, operator_key, parts_of, scalar_key
from tracetypes.compiler.trial.simulate import simulate_program

RATE: Any = 2
RATES: Any = types.ModuleType("rates")
RATES.rate = 2
TABLE: dict[str, Any] = {"rate": 2}


class Config:
    """Equal to all others, and shown as they are."""

    def __init__(self, rate: Any) -> None:
        self.rate = rate

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config)

    def __hash__(self) -> int:
        return 1

    def __repr__(self) -> str:
        return "Config()"


CONFIG = Config(2)


@attrs.frozen
class Row:
    id: str
    ts: int
    n: int


Emit = Callable[[str, str], None]


class Scaling(OpStateless[str, Row, str, str]):
    pass


@attrs.frozen
class OfGlobal(Scaling):
    def on_item(self, key: str, value: Row, emit: Emit) -> None:
        emit(key, repr(value.n * RATE))


def scaled(n: int) -> Any:
    return n * RATE


@attrs.frozen
class OfHelper(Scaling):
    def on_item(self, key: str, value: Row, emit: Emit) -> None:
        emit(key, repr(scaled(value.n)))


@attrs.frozen
class OfModule(Scaling):
    def on_item(self, key: str, value: Row, emit: Emit) -> None:
        emit(key, repr(value.n * RATES.rate))


@attrs.frozen
class OfTable(Scaling):
    def on_item(self, key: str, value: Row, emit: Emit) -> None:
        emit(key, repr(value.n * TABLE["rate"]))


@attrs.frozen
class OfObject(Scaling):
    def on_item(self, key: str, value: Row, emit: Emit) -> None:
        emit(key, repr(value.n * CONFIG.rate))


@attrs.frozen
class OfClass(Scaling):
    rate = 2

    def on_item(self, key: str, value: Row, emit: Emit) -> None:
        emit(key, repr(value.n * self.rate))


@attrs.frozen
class OfField(Scaling):
    rate: Any

    def on_item(self, key: str, value: Row, emit: Emit) -> None:
        emit(key, repr(value.n * self.rate))


@attrs.frozen
class OfHiddenField(Scaling):
    rate: Any = attrs.field(eq=False, repr=False)

    def on_item(self, key: str, value: Row, emit: Emit) -> None:
        emit(key, repr(value.n * self.rate))


@attrs.frozen
class OfUnshownField(Scaling):
    rate: Any = attrs.field(repr=False)

    def on_item(self, key: str, value: Row, emit: Emit) -> None:
        emit(key, repr(value.n * self.rate))


@attrs.frozen
class OfNestedField(Scaling):
    config: Any

    def on_item(self, key: str, value: Row, emit: Emit) -> None:
        emit(key, repr(value.n * self.config.rate))


@attrs.frozen
class OfFunction(Scaling):
    by: Callable[[int], Any]

    def on_item(self, key: str, value: Row, emit: Emit) -> None:
        emit(key, repr(self.by(value.n)))


@attrs.frozen
class Weighed(OpKeyedUnordered[str, Row, str, str, int, int]):
    def lift(self, key: str, value: Row) -> int:
        return value.n

    def identity(self) -> int:
        return 0

    def combine(self, a: int, b: int) -> int:
        return a + b

    def initial_state(self) -> int:
        return 0

    def update_state(self, state: int, agg: int) -> int:
        return state + agg

    def on_marker(self, new_state: int, key: str, marker: Marker, emit: Emit) -> None:
        emit(key, repr(new_state * RATE))


@attrs.frozen
class WeighedFirst(Weighed):
    def lift(self, key: str, value: Row) -> int:
        return int(value.n * RATE)


def with_closure(rate: Any) -> tuple[Callable[[int], Any], Callable[[Any], None]]:
    def by(n: int) -> Any:
        return n * rate

    def change(new: Any) -> None:
        nonlocal rate
        rate = new

    return by, change


def with_default(n: int, rate: Any = 2) -> Any:
    return n * rate


def with_keyword(n: int, *, rate: Any = 2) -> Any:
    return n * rate


Place = Callable[[Any], Callable[[Any], Any]]
"""From a first value to a function that puts another one there and gives the operator."""


def same(op: Any, put: Callable[[Any], None]) -> Place:
    def begin(first: Any) -> Callable[[Any], Any]:
        def change(value: Any) -> Any:
            put(value)
            return op

        return change

    return begin


def closure(first: Any) -> Callable[[Any], Any]:
    by, put = with_closure(first)
    return same(OfFunction(by), put)(first)


def attribute(owner: Any, name: str) -> Callable[[Any], None]:
    return lambda value: setattr(owner, name, value)


def other_config() -> Place:
    config = Config(None)
    return same(OfNestedField(config), attribute(config, "rate"))


GLOBAL = partial(globals().__setitem__, "RATE")
PLACES: dict[str, Place] = {
    "a global": same(OfGlobal(), GLOBAL),
    "a global of a function that is called": same(OfHelper(), GLOBAL),
    "a global of on_marker": same(Weighed(), GLOBAL),
    "a global of lift": same(WeighedFirst(), GLOBAL),
    "an attribute of a module": same(OfModule(), attribute(RATES, "rate")),
    "an entry of a table": same(OfTable(), partial(TABLE.__setitem__, "rate")),
    "an attribute of an object": same(OfObject(), attribute(CONFIG, "rate")),
    "an attribute of the class": same(OfClass(), attribute(OfClass, "rate")),
    "a cell of a closure": closure,
    "a default": same(OfFunction(with_default), lambda value: setattr(with_default, "__defaults__", (value,))),
    "a keyword's default": same(
        OfFunction(with_keyword), lambda value: setattr(with_keyword, "__kwdefaults__", {"rate": value})
    ),
    "a field": lambda first: OfField,
    "a field without eq and repr": lambda first: OfHiddenField,
    "a field without repr": lambda first: OfUnshownField,
    "a field of an equal object": lambda first: lambda value: OfNestedField(Config(value)),
    "a field of the same object": other_config(),
    "an argument of a partial": lambda first: lambda value: OfFunction(partial(with_default, rate=value)),
}

VALUES = [2, 50, 1, 1.0, True, 0, 0.0, -0.0, False]
ROWS = {"rows": [Row(f"k{n % 6}", n, n % 5 - 1) for n in range(24)]}


@pytest.fixture(autouse=True)
def put_back(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """States go over to columns at once; and what was changed is as before."""
    monkeypatch.setattr(limits, "MANY", 2)
    yield
    for name in ("a global", "an attribute of a module", "an entry of a table", "an attribute of an object"):
        PLACES[name](2)(2)


def flow(*ops: Any) -> Dataflow:
    made = Dataflow("changing")
    rows: Any = made.source("rows", U[str, Row], key=lambda v: v.id, markers=every(seconds=5, time=lambda v: v.ts))
    for op in ops:
        rows = rows.through(op)
    made.sink("out", rows)
    return made


def analysed(made: Plan) -> list[Any]:
    """What was said of each operator."""
    steps = [step.keyed for stage in made.stages for step in stage.steps]
    paths = [mapped.traced for stage in made.stages for link in links(stage.region) for mapped in link.path]
    return steps + paths + [mapped.traced for link in links(made.region) for mapped in link.path]


def is_right(op: Any, seed: int) -> bool:
    checked = check(flow(op))
    defined = interpret_rows(checked, ROWS)[0]["out"]
    made = program(checked, key_groups=2)
    assert not any(isinstance(one, Opaque) for one in analysed(made.plans[0])), analysed(made.plans[0])
    return simulate_program(made, ROWS, seed=seed)["out"].trace == defined


@settings(max_examples=some(100), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(PLACES)), st.lists(st.sampled_from(VALUES), min_size=2, max_size=4), st.integers(0, 99))
def test_the_second_plan_is_of_what_there_is_then(place: str, values: list[Any], seed: int) -> None:
    change = PLACES[place](values[0])
    for number, value in enumerate(values):
        assert is_right(change(value), seed), f"{place}: {values[: number + 1]}"


@pytest.mark.parametrize("place", PLACES)
def test_every_place_counts(place: str) -> None:
    change = PLACES[place](2)
    for value in (2, 50, 50.0, 1, True, 0.0, -0.0):
        assert is_right(change(value), 7), f"{place}: {value!r}"


# ------------------------------------------------------------------------------------------ within one plan


def test_operators_that_are_alike_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def trace_on_item(op: Any, *about: Any) -> Any:
        seen.append(op)
        return original(op, *about)

    original = tracing.trace_on_item
    monkeypatch.setattr(traced, "trace_on_item", trace_on_item)
    made = Dataflow("many")
    stream: Any = made.source("rows", U[str, Row], key=lambda v: v.id, markers=every(seconds=5, time=lambda v: v.ts))
    table = {"a": 1}
    for value in (1, 1, True, 1.0, 0.0, -0.0, 0.0, table, table, dict(table)):
        stream = stream.through(Passing(value))
    made.sink("out", stream)
    plan(check(made))
    assert [repr(op.rate) for op in seen] == ["1", "True", "1.0", "0.0", "-0.0", "{'a': 1}", "{'a': 1}"]
    plan(check(made))
    assert len(seen) == 14


@attrs.frozen
class Passing(OpStateless[str, Row, str, Row]):
    rate: Any = attrs.field(eq=False, repr=False)

    def on_item(self, key: str, value: Row, emit: Callable[[str, Row], None]) -> None:
        emit(key, value)


def test_scalars_are_told_apart() -> None:
    india = dt.timezone(dt.timedelta(hours=5, minutes=30))
    noon = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
    values = [1, 1.0, True, 0, 0.0, -0.0, False, "1", b"1", None, noon, noon.astimezone(india), noon.replace(fold=1)]
    assert len({scalar_key(value) for value in values}) == len(values)
    assert scalar_key(1.5) == scalar_key(float("1.5"))
    assert scalar_key(noon) == scalar_key(noon.replace())
    assert scalar_key([1]) != scalar_key([1])  # no scalar: the object itself


def test_parts_are_those_of_all_classes() -> None:
    class Slotted:
        __slots__ = ("__own", "a", "unset")

        def __init__(self) -> None:
            self.a, self.__own = 1, 2

    class Open(Slotted):
        def __init__(self) -> None:
            super().__init__()
            self.b = 3

    assert parts_of(Open()) == {"_Slotted__own": 2, "a": 1, "b": 3}
    assert operator_key(Open()) == operator_key(Open())
    assert operator_key(Open()) != operator_key(Slotted())


def first_of(op: Any) -> Any:
    return op.values[0]


def test_a_key_keeps_its_object_alive() -> None:
    """An identity must not be used again while something is kept under it."""
    once = AnalysisCache()
    made = [once(first_of, types.SimpleNamespace(values=[number])) for number in range(200)]
    assert made == list(range(200))
    assert ObjectKey([1]) != ObjectKey([1])
