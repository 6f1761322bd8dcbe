"""States and aggregates of the declared types: each that a method returns is looked at when it is returned.

That costs a look-up of its class: a run calls :meth:`ResultCheck.judge` only for classes that it has not seen yet.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeVar, final, get_origin

from tracetypes.errors import OperatorFailed
from tracetypes.function_code import plain, runs_later
from tracetypes.nested_values import wrong_inside
from tracetypes.records import show
from tracetypes.schemas import show_type
from tracetypes.self_description import name_of_operator
from tracetypes.templates import OpKeyedOrdered, OpKeyedUnordered, type_arguments
from tracetypes.value_tests import value_test

__all__ = ["NO_KEY", "ResultCheck", "aggregates_of", "ran", "results_of", "states_of"]


@final
class ResultCheck:
    """Whether what the methods of an operator return is of a declared type. ``known``: classes of which all values are."""

    def __init__(self, op: object, annotation: Any, what: str) -> None:
        self.op, self.annotation, self.what = op, annotation, what
        self.known: set[type[Any]] = set()
        self._test = None if isinstance(annotation, TypeVar) else value_test(annotation)
        self._by_value = get_origin(annotation) is Literal

    def admits(self, value: Any) -> bool:
        """Whether the value is of the type, or nobody can tell."""
        return self._test is None or self._test(value)

    def judge(self, method: str, key: Any, value: Any) -> None:
        """Look at a value whose class is not in ``known``. ``key``: :data:`NO_KEY` for all keys. Raises :class:`OperatorFailed`
        ``TT224``."""
        if not self.admits(value):
            raise self._wrong(method, key, value)
        if not self._by_value:
            self.known.add(type(value))

    def returned(self, method: str, key: Any, value: Any) -> Any:
        """The value, if it is of the type. Raises :class:`OperatorFailed` ``TT224``."""
        if type(value) not in self.known:
            self.judge(method, key, value)
        return value

    def judge_inside(self, method: str, key: Any, value: Any) -> None:
        """Look at what a value holds that is of the type itself. Raises :class:`OperatorFailed` ``TT224``."""
        if self._test is not None and self._test(value) and (found := wrong_inside(self.annotation, value)) is not None:
            where, inner, annotation = found
            raise self._wrong(
                method,
                key,
                value,
                f"    found:    {show(inner)} at {where}, where the type is {show_type(annotation)}\n",
            )

    def _wrong(self, method: str, key: Any, value: Any, found: str = "") -> OperatorFailed:
        name, type_ = name_of_operator(self.op), show_type(self.annotation)
        function = plain(getattr(self.op, method))
        return OperatorFailed(
            "TT224",
            f"{name}.{method} returned {show(value)}{'' if key is NO_KEY else f' for the key {show(key)}'}\n"
            f"{found}"
            f"    expected: {self.what} of type {type_}",
            fix=f"end every path of {method} with return and {self.what}"
            if value is None
            else f"return what the type arguments of {name} say, or change them",
            where=None if function is None else function.where,
        )


NO_KEY: Final = object()
"""Stands for a value that belongs to no single key."""


def states_of(op: OpKeyedOrdered[Any, Any, Any, Any] | OpKeyedUnordered[Any, Any, Any, Any, Any, Any]) -> ResultCheck:
    """The check of an operator's states."""
    template = OpKeyedOrdered if isinstance(op, OpKeyedOrdered) else OpKeyedUnordered
    return ResultCheck(op, _argument(op, template, "S"), "a state")


def aggregates_of(op: OpKeyedUnordered[Any, Any, Any, Any, Any, Any]) -> ResultCheck:
    """The check of an operator's aggregates."""
    return ResultCheck(op, _argument(op, OpKeyedUnordered, "A"), "an aggregate")


def results_of(op: object) -> dict[str, ResultCheck]:
    """The checks of an operator's states and aggregates, by the methods that return them."""
    match op:
        case OpKeyedOrdered():
            return dict.fromkeys(("initial_state", "on_item", "on_marker"), states_of(op))
        case OpKeyedUnordered():
            states = dict.fromkeys(("initial_state", "update_state"), states_of(op))
            return states | dict.fromkeys(("lift", "identity", "combine"), aggregates_of(op))
        case _:
            return {}


def _argument(op: object, template: type[Any], name: str) -> Any:
    if not isinstance(op, template):  # one that records the calls, for a law
        return Any
    arguments = type_arguments(op, template)
    return dict(zip([parameter.__name__ for parameter in template.__parameters__], arguments, strict=True))[name]


def ran(op: object, method: str, key: Any, result: object) -> None:
    """Raises :class:`OperatorFailed` ``TT224`` if a method whose result is thrown away has returned a generator or coroutine.
    Then it has not run."""
    if (later := runs_later(result)) is not None:
        function = plain(getattr(op, method))
        name = name_of_operator(op)
        raise OperatorFailed(
            "TT224",
            f"{name}.{method} returned {later} for the key {show(key)}, and did not run",
            fix="call emit for each result, in a method without yield, async or await",
            where=None if function is None else function.where,
        )
