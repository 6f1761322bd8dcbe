"""Arguments for the plain Python side of a comparison. They have only the fields that the traced operator reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, final

import attrs

from tracetypes.compiler.columns.column import Struct, take_column
from tracetypes.compiler.columns.conversion import values_of
from tracetypes.compiler.runtime.flows import Inputs
from tracetypes.compiler.tracing.expr import Branch, Call, Expr, Input, Loop, Pack, Tree, Value
from tracetypes.lookup_table import LookupTable
from tracetypes.record_copies import builder, made_of
from tracetypes.records import UNIT, Optional, Record, Schema, UnitValue

__all__ = ["UNSEEN", "Reads", "Sample", "Unread"]


class Unread(Exception):
    """Python looked at a field that the traced operator did not read."""


class _Nothing:
    """Stands for a field that was not read, where a class cannot do without a value: whatever is done with it raises."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        raise Unread("it looks at a field that the traced operator did not read")


class _Unseen:
    """Stands for a field that was not read, where records are kept and shown: it can be copied, and printed."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise Unread("it looks at a field that the traced operator did not read")

    def __deepcopy__(self, _: object) -> _Unseen:
        return self

    def __repr__(self) -> str:
        return "?"


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
    if _name not in ("repr", "str", "format"):
        setattr(_Unseen, f"__{_name}__", _refuse)

NOTHING: Final = _Nothing()
UNSEEN: Final = _Unseen()


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
        turns = set[tuple[str | int, ...]]()
        asks, seen = False, set[int]()
        pending: list[Tree | Value | Expr] = [tree]
        wholes = list[Value]()
        """What is passed on: of an optional record all of its fields."""
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
                    wholes += parts
                case Call(args=args, table=table):
                    asks = asks or isinstance(table, LookupTable)
                    pending += args
                case Input(path=path, kind=kind):
                    # The kind is bare once it is known that the value is there.
                    if path not in inputs or isinstance(kind, Optional):
                        inputs[path] = one
                case _:
                    for emission in getattr(one, "emissions", ()):
                        if isinstance(emission, Loop):
                            turns.add(emission.turn.path)
                            pending += (emission.start, emission.stop, emission.step, emission.body)
                        else:
                            values = (emission.value,) if emission.key is None else (emission.key, emission.value)
                            pending += values
                            wholes += values
                    if (result := getattr(one, "result", None)) is not None:
                        pending.append(result)
                        wholes.append(result)
        for whole in wholes:
            if isinstance(whole, Input) and isinstance(whole.kind, Optional) and whole.is_record:
                inputs.update((one.path, one) for one in _inside(whole.path, whole.kind))
        return cls({path: one for path, one in inputs.items() if path not in turns}, asks)

    def sample(self, inputs: Inputs, rows: Any) -> Sample:
        """The inputs of some rows."""
        count = len(rows)
        values: dict[tuple[str | int, ...], list[Any]] = {}
        for path, one in self.inputs.items():
            try:
                column = inputs(one)
            except LookupError:  # where a record is None in all rows, nothing below it is read
                continue
            if isinstance(column.storage, Struct):
                column = attrs.evolve(column, values=UNIT)  # its fields are inputs of their own
            values[path] = values_of(take_column(column, rows), count)
        return Sample(values)


def _inside(path: tuple[str | int, ...], schema: Schema) -> Iterator[Input]:
    """The inputs at a path and below it that a record is made of."""
    match schema:
        case Record(_, fields):
            for name, inner in fields:
                yield from _inside((*path, name), inner)
        case Optional(item=Record() as inner):
            yield Input(path, schema)
            yield from _inside(path, inner)
        case _:
            yield Input(path, schema)


@final
@attrs.frozen(eq=False)
class Sample:
    """Values by path, of some rows."""

    read: Mapping[tuple[str | int, ...], list[Any]]
    unread: Any = None
    """Stands for fields that were not read; None: :data:`NOTHING`."""

    def arguments(self, schema: Schema, path: tuple[str | int, ...], count: int) -> list[Any]:
        """The argument of each row, without the fields that were not read."""
        made = self._made(schema, path, range(count))
        return [NOTHING if self.unread is None else self.unread] * count if made is None else made

    def _made(self, schema: Schema, path: tuple[str | int, ...], rows: Sequence[int]) -> list[Any] | None:
        """What stands at a path, of some rows; None if it was not read."""
        match schema:
            case UnitValue():
                return [UNIT] * len(rows)
            case Optional(item=Record() as inner):
                if (there := self.read.get(path)) is None:
                    return self._made(inner, path, rows)
                present = [at for at in rows if there[at] is not None]
                made = dict(zip(present, self._made(inner, path, present) or (), strict=True))
                return [made.get(at) for at in rows]
            case Record(cls, fields):
                parts = {name: self._made(inner, (*path, name), rows) for name, inner in fields}
                return _records(cls, parts, len(rows), self.unread)
            case _:
                values = self.read.get(path)
                return None if values is None else [values[at] for at in rows]

    def shown(self, at: int) -> str:
        """The inputs of one row, for a message."""
        parts = [f"{'.'.join(map(str, path))}={values[at]!r}" for path, values in self.read.items()]
        return ", ".join(parts) or "(nothing is read)"


def _records(cls: type[Any], parts: Mapping[str, list[Any] | None], count: int, unread: Any) -> list[Any]:
    """Records from their fields. ``unread``: stands for those that were not read. They are there, since a copy with other fields
    (``attrs.evolve``) copies them."""
    filler = NOTHING if unread is None else unread
    whole = [[filler] * count if part is None else part for part in parts.values()]
    return builder(cls, tuple(parts))(whole) if parts else [made_of(cls, ())(()) for _ in range(count)]
