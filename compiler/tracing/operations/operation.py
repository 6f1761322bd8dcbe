"""What an operation of expressions is."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any, Final, cast, final

import attrs

from tracetypes.compiler.tracing.kinds import BOOLEAN, DATE, FLOAT, INTEGER, STRING, TIMESTAMP, Kind
from tracetypes.records import INT_MAX, INT_MIN, Schema

__all__ = ["SCALARS", "Operation", "Signature", "Undefined"]

SCALARS: Final[Mapping[Schema, type[Any]]] = {
    BOOLEAN: bool,
    INTEGER: int,
    FLOAT: float,
    STRING: str,
    TIMESTAMP: dt.datetime,
    DATE: dt.date,
}
"""The kinds that functions of Python take and give, and their classes."""

_KNOWN: Final[dict[str, Operation]] = {}


class Undefined(Exception):
    """The expression has no value for these inputs: Python would raise, or a number would leave its type.

    ``rows``: where a tree was evaluated over columns, the numbers of all rows without a value (numpy, int64, ascending).
    ``reached``: what there is of the others, by leaf.
    """

    rows: Any = None
    reached: Any = ()


@final
@attrs.frozen
class Signature:
    """Kinds of arguments, and of the result. None: a kind that is not fixed; of a function of Python any of ``SCALARS``.

    ``least``: how many arguments there are at least; the last ones may be left out. ``more``: the last may be given
    several times.
    """

    takes: tuple[Kind | None, ...]
    gives: Kind | None
    least: int = attrs.field(default=attrs.Factory(lambda self: len(self.takes), takes_self=True))
    more: bool = False

    def kinds(self, count: int) -> tuple[Kind | None, ...] | None:
        """The kinds of this many arguments; None if it does not take as many."""
        most = len(self.takes)
        if count < self.least or (count > most and not self.more):
            return None
        return self.takes[:count] + self.takes[-1:] * (count - most)


def _of_one_kind(self: Operation) -> bool:
    return not self.is_function and all(len(set(one.takes)) == 1 for one in self.signatures)


def _class_given(self: Operation) -> type[Any] | None:
    return SCALARS[cast(Schema, self.signature.gives)] if self.is_function else None


@final
@attrs.frozen(eq=False, repr=False)
class Operation:
    """An operation. There is one object of each, also in another process: operations are compared by ``is``.

    ``meaning`` is its definition: the function of Python of one row. Calling the operation gives the same, or raises
    :class:`Undefined` where there is no value. ``undefined`` says in words where that is; it is empty if there is a value for all
    arguments of the kinds in ``signatures``.

    ``takes_none``: arguments may be None; of other operations there is no value where one is. ``of_table``: behind its arguments
    ``meaning`` takes the table and path of the call. ``is_function``: it is a function of Python that is applied value by
    value. ``fixed``: places of arguments that must be constants, for example because they decide how large the result is.
    ``of_one_kind``: all arguments have the same kind.
    """

    name: str
    meaning: Callable[..., Any]
    signatures: tuple[Signature, ...]
    undefined: str = ""
    takes_none: bool = attrs.field(default=False, kw_only=True)
    of_table: bool = attrs.field(default=False, kw_only=True)
    is_function: bool = attrs.field(default=False, kw_only=True)
    fixed: tuple[int, ...] = attrs.field(default=(), kw_only=True)
    of_one_kind: bool = attrs.field(default=attrs.Factory(_of_one_kind, takes_self=True), init=False)
    _gives: type[Any] | None = attrs.field(default=attrs.Factory(_class_given, takes_self=True), init=False)
    """Of a function: the class of its results. Python may give a value of another one."""

    def __attrs_post_init__(self) -> None:
        if _KNOWN.setdefault(self.name, self) is not self:
            raise ValueError(f"there are two operations named {self.name}")

    def __call__(self, *args: Any) -> Any:
        """The value for these arguments. Raises :class:`Undefined`."""
        try:
            result = self.meaning(*args)
        except Exception as error:
            if self.is_function or isinstance(error, ArithmeticError | ValueError | LookupError):
                raise Undefined(f"{self.name}: {type(error).__name__}: {error}") from error
            raise
        cls = type(result)
        if self._gives is not None and cls is not self._gives:
            raise Undefined(f"{self.name} gives a {cls.__name__}")
        if cls is int and not INT_MIN <= result <= INT_MAX:
            raise Undefined(f"{self.name} leaves 64 bits")
        if cls is dt.datetime and self._gives is not None and result.tzinfo is not dt.UTC:
            raise Undefined(f"{self.name} gives a time of another zone")
        return result

    @property
    def is_total(self) -> bool:
        """Whether it has a value for all arguments."""
        return not self.undefined

    @property
    def signature(self) -> Signature:
        """The only signature."""
        (only,) = self.signatures
        return only

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return _known, (self.name,)


def _known(name: str) -> Operation:
    """The operation of this name. The package makes all of them when it is imported."""
    return _KNOWN[name]
