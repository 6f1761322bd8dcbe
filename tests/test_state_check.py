"""States and aggregates of another type than declared stop the run, in the interpreter, the adversary and the backends."""

import functools
from collections.abc import Callable
from typing import Any

import pytest

import tracetypes as tt
from tests.test_method_check import Row, made, ordered, stateless, unordered, yields
from tracetypes import Dataflow, LawBroken, OperatorFailed, OpKeyedUnordered, U, check, every, interpret_rows, sort
from tracetypes.testing import check_laws

ROWS = [Row("a", 1, 1), Row("a", 2, 2), Row("b", 5, 3), Row("a", 4, 12), Row("b", 1, 25)]


def flow_of(op: Any) -> Dataflow:
    flow = Dataflow("test")
    rows = flow.source("in", U[str, Row], key=lambda r: r.name, markers=every(seconds=10, time=lambda r: r.ts))
    stream: Any = rows.through(sort(by=lambda r: r.ts)) if isinstance(op, tt.OpKeyedOrdered) else rows
    flow.sink("out", stream.through(op))
    return flow


def interpreted(op: Any) -> Any:
    return interpret_rows(check(flow_of(op)), {"in": ROWS})


def run_locally(op: Any) -> Any:
    return tt.run(flow_of(op), inputs={"in": ROWS}, outputs={"out": []}, backend="local")


RUNS = [interpreted, run_locally]


def text_of_state(self: Any, state: Any, key: Any, value: Any, emit: Any) -> Any:
    return f"{state}x"


def at_third(self: Any, state: Any, key: Any, value: Any, emit: Any) -> Any:
    if value.number != 4:
        return state + 1


def at_marker(self: Any, state: Any, key: Any, marker: Any, emit: Any) -> Any:
    if marker.micros != 20_000_000:
        return state


def yields_five(self: Any, state: Any, key: Any, value: Any, emit: Any) -> Any:
    yield key, 1


def later(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "text": (lambda: ordered(on_item=text_of_state), "Op.on_item returned '0x' for the key 'a'"),
    "forgets on one path": (lambda: ordered(on_item=at_third), "Op.on_item returned None for the key 'a'"),
    "first state": (lambda: ordered(initial_state=lambda self: "0"), "Op.initial_state returned '0' for the key"),
    "at a marker": (lambda: ordered(on_marker=at_marker), "Op.on_marker returned None for the key"),
    "of a list": (lambda: ordered(list[int]), "Op.initial_state returned 0 for the key"),
    "lift": (lambda: unordered(lift=lambda self, key, value: key), "Op.lift returned"),
    "identity": (lambda: unordered(identity=lambda self: 0.5), "Op.identity returned 0.5"),
    "combine": (lambda: unordered(combine=lambda self, a, b: (a, b)), "Op.combine returned (0, 1)"),
    "initial": (lambda: unordered(initial_state=lambda self: "0"), "Op.initial_state returned '0'"),
    "update": (lambda: unordered(update_state=lambda self, state, agg: (state, agg)), "Op.update_state returned (0, "),
    "traced update": (lambda: unordered(update_state=lambda self, state, agg: state / 2 + agg), "Op.update_state returned "),
    "a path of update": (lambda: unordered(update_state=forgets_some), "Op.update_state returned None"),
}


def forgets_some(self: Any, state: Any, agg: Any) -> Any:
    if agg > 0:
        return (state or 0) + agg


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize(("op", "text"), WRONG.values(), ids=WRONG)
def test_TT224_a_state_or_aggregate_of_another_type(op: Callable[[], Any], text: str, run: Callable[[Any], Any]) -> None:
    with pytest.raises(OperatorFailed) as caught:
        run(op())
    assert caught.value.code == "TT224"
    assert text in caught.value.message
    assert "expected: a" in caught.value.message
    assert caught.value.where is not None


def test_TT224_names_the_missing_return() -> None:
    with pytest.raises(OperatorFailed) as caught:
        interpreted(ordered(on_item=at_third))
    assert caught.value.fix == "end every path of on_item with return and a state"
    assert caught.value.where is not None
    assert caught.value.where.line == at_third.__code__.co_firstlineno


RIGHT: dict[str, Callable[[], Any]] = {
    "int for float": lambda: ordered(float),
    "anything": lambda: ordered(Any, on_item=text_of_state),
    "optional": lambda: ordered(int | None, initial_state=lambda self: None),
    "tuple for list": lambda: ordered(list[int], initial_state=lambda self: (1,)),
    "unknown name": lambda: ordered("Unknown", on_item=text_of_state),
    "unordered": unordered,
    "floats": lambda: made_of_floats(),
}


def made_of_floats() -> Any:
    names = dict(vars(type(unordered())))
    methods = {name: names[name] for name in ("lift", "identity", "combine", "initial_state", "update_state")}
    marker: Any = lambda self, state, key, marker, emit: emit(key, int(state))  # noqa: E731
    return made(OpKeyedUnordered[str, Row, str, int, float, float], **methods, on_marker=marker)


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("op", RIGHT.values(), ids=RIGHT)
def test_TT224_is_no_false_alarm(op: Callable[[], Any], run: Callable[[Any], Any]) -> None:
    run(op())


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("kind", ["stateless", "on_item", "on_marker"])
def test_TT224_a_method_that_a_decorator_hides_does_not_run(kind: str, run: Callable[[Any], Any]) -> None:
    op = stateless(later(yields)) if kind == "stateless" else unordered(**{kind: later(yields_five)})
    with pytest.raises(OperatorFailed, match=r"TT224 Op.on_\w+ returned a generator for the key '.', and did not run"):
        run(op)


@pytest.mark.parametrize("op", [lambda: ordered(on_item=at_third), lambda: stateless(yields), lambda: stateless(later(yields))])
def test_the_laws_find_it(op: Callable[[], Any]) -> None:
    with pytest.raises(LawBroken) as caught:
        check_laws(op())
    assert caught.value.code == "TT309"
