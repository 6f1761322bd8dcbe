"""Arguments for the plain Python side of a comparison. They have only the fields that the traced operator reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, final

import attrs

from tracetypes.compiler.columns.column import take_column
from tracetypes.compiler.columns.conversion import values_of
from tracetypes.compiler.runtime.flows import Inputs
from tracetypes.compiler.tracing.expr import Branch, Call, Expr, Input, Pack, Tree, Value
from tracetypes.lookup_table import LookupTable
from tracetypes.records import UNIT, Optional, Record, Schema, UnitValue

__all__ = ["Reads", "Sample", "Unread"]


class Unread(Exception):
    """Python looked at a field that the traced operator did not read."""


class _Nothing:
    """Stands for a field that was not read, where a class cannot do without a value: whatever is done with it raises."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        raise Unread("it looks at a field that the traced operator did not read")


def _refuse(self: object, *args: object) -> Any:
    raise Unread("it looks at a field that the traced operator did not read")


for _name in (
    *("eq", "ne", "lt", "le", "gt", "ge", "hash", "bool", "len", "iter", "contains", "getitem", "call", "index", "int"),
    *("float", "str", "repr", "format", "add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "floordiv"),
    *(
        "rfloordiv",
        "mod",
        "rmod",
        "pow",
        "rpow",
        "neg",
        "pos",
        "abs",
        "and",
        "rand",
        "or",
        "ror",
        "xor",
        "rxor",
        "round",
    ),
):
    setattr(_Nothing, f"__{_name}__", _refuse)

NOTHING: Final = _Nothing()


@final
@attrs.frozen(eq=False)
class Reads:
    """The inputs that a tree reads of its arguments. ``asks``: whether it asks a table outside the dataflow."""

    inputs: Mapping[tuple[str | int, ...], Input]
    asks: bool

    @classmethod
    def of(cls, tree: Tree) -> Reads:
        """The inputs that a tree reads."""
        inputs = {one.path: one for one in tree.touched}
        asks, seen = False, set[int]()
        pending: list[Tree | Value | Expr] = [tree]
        while pending:
            one = pending.pop()
            if id(one) in seen:
                continue
            seen.add(id(one))
            match one:
                case Branch(condition=condition, then=then, otherwise=otherwise):
                    pending += (condition, then, otherwise)
                case Pack(parts=parts):
                    pending += parts
                case Call(args=args, table=table):
                    asks = asks or isinstance(table, LookupTable)
                    pending += args
                case Input(path=path, kind=kind):
                    # The kind is bare once it is known that the value is there.
                    if path not in inputs or isinstance(kind, Optional):
                        inputs[path] = one
                case _:
                    for emission in getattr(one, "emissions", ()):
                        pending += (emission.value,) if emission.key is None else (emission.key, emission.value)
                    if (result := getattr(one, "result", None)) is not None:
                        pending.append(result)
        return cls(inputs, asks)

    def sample(self, inputs: Inputs, rows: Any) -> Sample:
        """The inputs of some rows."""
        count = len(rows)
        values: dict[tuple[str | int, ...], list[Any]] = {}
        for path, one in self.inputs.items():
            try:
                column = inputs(one)
            except LookupError:  # where a record is None in all rows, nothing below it is read
                continue
            values[path] = values_of(take_column(column, rows), count)
        return Sample(values)


@final
@attrs.frozen(eq=False)
class Sample:
    """Values by path, of some rows."""

    read: Mapping[tuple[str | int, ...], list[Any]]

    def argument(self, schema: Schema, path: tuple[str | int, ...]) -> Callable[[int], Any]:
        """A function from a row to an argument, without the fields that were not read."""
        match schema:
            case UnitValue():
                return lambda at: UNIT
            case Optional(item=Record() as inner):
                there, make = self.read.get(path), self.argument(inner, path)
                return make if there is None else lambda at: None if there[at] is None else make(at)
            case Record(cls, fields):
                parts = {name: self.argument(inner, (*path, name)) for name, inner in fields}
                if all(part is not _unread for part in parts.values()):
                    return lambda at: cls(**{name: part(at) for name, part in parts.items()})
                return lambda at: _partly(cls, {name: part(at) for name, part in parts.items()})
            case _:
                return self.read[path].__getitem__ if path in self.read else _unread

    def shown(self, at: int) -> str:
        """The inputs of one row, for a message."""
        parts = [f"{'.'.join(map(str, path))}={values[at]!r}" for path, values in self.read.items()]
        return ", ".join(parts) or "(nothing is read)"


def _unread(at: int) -> Any:
    return NOTHING


def _partly(cls: type[Any], parts: dict[str, Any]) -> Any:
    """A record of which some fields are missing."""
    if issubclass(cls, tuple):
        return tuple.__new__(cls, parts.values())
    record = object.__new__(cls)
    for name, part in parts.items():
        # A class of attrs has nothing in place of a missing field; a dataclass may have its default.
        if part is not NOTHING or not attrs.has(cls):
            object.__setattr__(record, name, part)
    return record
