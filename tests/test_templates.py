"""Templates: the edge types of an operator, and which methods it has of its own; edge types as values."""

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import attrs
import pytest

from tracetypes import (
    CheckFailed,
    DataError,
    Dataflow,
    EdgeType,
    Marker,
    O,
    OpKeyedOrdered,
    OpKeyedUnordered,
    OpStateless,
    U,
    check,
    every,
)
from tracetypes.edges import edge_type
from tracetypes.self_description import SelfDescribing
from tracetypes.templates import overrides, template_types, type_arguments

K = TypeVar("K")
V = TypeVar("V")
W = TypeVar("W")


@attrs.frozen
class Plain(OpStateless[int, str, float, bool]):
    def on_item(self, key: int, value: str, emit: Callable[[float, bool], None]) -> None: ...


@attrs.frozen
class Speaking(Plain):
    def on_marker(self, marker: Marker, emit: Callable[[float, bool], None]) -> None: ...


@attrs.frozen
class InOrder(OpKeyedOrdered[int, str, float, list[int]]):
    def initial_state(self) -> list[int]:
        return []

    def on_item(self, state: list[int], key: int, value: str, emit: Callable[[float], None]) -> list[int]:
        return state


@attrs.frozen
class Folded(OpKeyedUnordered[int, str, float, bool, int, complex]):
    def lift(self, key: int, value: str) -> complex:
        return 0

    def identity(self) -> complex:
        return 0

    def combine(self, a: complex, b: complex) -> complex:
        return a + b

    def initial_state(self) -> int:
        return 0

    def update_state(self, state: int, agg: complex) -> int:
        return state

    def on_marker(self, new_state: int, key: int, marker: Marker, emit: Callable[[float, bool], None]) -> None: ...


@attrs.frozen
class Swapped(OpStateless[V, K, K, list[V]], Generic[K, V]):
    """Its own parameters come in another order than the template's."""

    def on_item(self, key: V, value: K, emit: Callable[[K, list[V]], None]) -> None: ...


@attrs.frozen
class HalfBound(Swapped[W, int]): ...


@attrs.frozen
class Bound(HalfBound[str]): ...


class Mixin:
    """No template."""


@attrs.frozen
class Mixed(Mixin, Bound): ...


@pytest.mark.parametrize(
    ("op", "takes", "gives"),
    [
        (Plain(), U[int, str], U[float, bool]),
        (Speaking(), U[int, str], U[float, bool]),
        (InOrder(), O[int, str], O[int, float]),
        (Folded(), U[int, str], U[float, bool]),
        (Swapped(), U[V, K], U[K, list[V]]),  # type: ignore[valid-type]
        (HalfBound(), U[int, W], U[W, list[int]]),  # type: ignore[valid-type]
        (Bound(), U[int, str], U[str, list[int]]),
        (Mixed(), U[int, str], U[str, list[int]]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_edge_types_of_an_operator(op: Any, takes: Any, gives: Any) -> None:
    assert template_types(op) == (edge_type(takes), edge_type(gives))


def test_what_fills_no_template_in() -> None:
    with pytest.raises(TypeError, match="Mixin fills no template in"):
        template_types(Mixin())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("op", "method", "answer"),
    [
        (Plain(), "on_item", True),
        (Plain(), "on_marker", False),
        (Speaking(), "on_marker", True),
        (InOrder(), "on_marker", False),
        (Folded(), "on_item", False),
        (Folded(), "on_marker", True),
    ],
    ids=str,
)
def test_methods_of_its_own(op: object, method: str, answer: bool) -> None:
    assert overrides(op, method) is answer


def test_an_operator_that_lacks_a_method_cannot_be_made() -> None:
    @attrs.frozen
    class Unfinished(OpKeyedOrdered[int, int, int, int]):
        def initial_state(self) -> int:
            return 0

    with pytest.raises(TypeError, match="on_item"):
        Unfinished()  # type: ignore[abstract]


def test_edge_types() -> None:
    ordered = edge_type(O[int, list[str]])
    assert ordered == EdgeType(True, int, list[str])
    assert ordered.forgotten == edge_type(U[int, list[str]]) == EdgeType(False, int, list[str])
    assert (str(ordered), str(ordered.forgotten)) == ("O[int, list[str]]", "U[int, list[str]]")
    assert edge_type(ordered) is ordered


@pytest.mark.parametrize("wrong", [int, U, O, list[int], None, "U[int, str]", dict[str, int]])
def test_TT107_what_is_no_edge_type(wrong: Any) -> None:
    with pytest.raises(DataError) as caught:
        edge_type(wrong)
    assert caught.value.code == "TT107"


# ------------------------------------------------------------------------------------------ types of an instance


@attrs.frozen
class Apply(OpStateless[K, V, K, W]):
    """The stream does not tell what a function returns."""

    function: Callable[[V], W]
    to: Any

    def type_arguments(self) -> Mapping[str, Any]:
        return {"W": self.to}

    def on_item(self, key: K, value: V, emit: Callable[[K, W], None]) -> None:
        emit(key, self.function(value))


@attrs.frozen
class OfTexts(Apply[int, V, str], Generic[V]):
    """Its base's hook speaks of the base's parameters."""


@attrs.frozen
class OfFloats(Apply[int, float, Any]):
    """What the instance names holds a variable that the class binds."""


def twice(value: Any) -> Any:
    return [value, value]


@pytest.mark.parametrize(
    ("op", "takes", "gives"),
    [
        (Apply(twice, list[int]), U[K, V], U[K, list[int]]),  # type: ignore[valid-type]
        (Apply(twice, list[V]), U[K, V], U[K, list[V]]),  # type: ignore[valid-type]
        (OfFloats(twice, list[V]), U[int, float], U[int, list[float]]),  # type: ignore[valid-type]
        (OfTexts(twice, list[V]), U[int, V], U[int, list[V]]),  # type: ignore[valid-type]
    ],
)
def test_an_instance_names_its_types(op: Any, takes: Any, gives: Any) -> None:
    assert template_types(op) == (edge_type(takes), edge_type(gives))


@pytest.mark.parametrize(("to", "made"), [(list[float], list[float]), (list[V], list[int])])  # type: ignore[valid-type]
def test_what_an_instance_names_may_depend_on_the_stream(to: Any, made: Any) -> None:
    flow = Dataflow("named")
    numbers = flow.source("numbers", U[str, int], markers=every(seconds=1, time=lambda n: n))
    flow.sink("out", numbers.through(Apply[str, int, Any](twice, to)))
    checked = check(flow)
    assert checked.types[1] == edge_type(U[str, made])


def test_what_nobody_names_is_refused() -> None:
    flow = Dataflow("open")
    numbers = flow.source("numbers", U[str, int], markers=every(seconds=1, time=lambda n: n))
    flow.sink("out", numbers.through(Apply[str, int, Any](twice, W)))
    with pytest.raises(CheckFailed, match="the type parameter W is not known"):
        check(flow)


class Box(SelfDescribing, Generic[K, V]):
    """No operator."""

    def type_arguments(self) -> Mapping[str, Any]:
        return {"K": int}


class Crate(Box[V, list[K]], Generic[K, V]): ...


def test_types_of_any_generic_class() -> None:
    assert type_arguments(Box(), Box) == (int, V)
    assert type_arguments(Crate(), Box) == (int, list[K])  # type: ignore[valid-type]
    with pytest.raises(TypeError, match="Crate is not derived from OpStateless"):
        type_arguments(Crate(), OpStateless)


def test_a_hint_changes_nothing_by_itself() -> None:
    Plain().prefetch([(1, "a")])
    assert not overrides(Plain(), "prefetch")
