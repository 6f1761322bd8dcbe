"""Every operation on the edge values of the kinds that it takes: what each evaluator of expressions is compared with.

An evaluator that is new needs one entry in ``EVALUATORS`` of :mod:`tests.test_operations`.
"""

from __future__ import annotations

import enum
import itertools
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

import attrs

from tests.expressions import CONSTANTS, EDGES, FLAGS, NUMBERS, WORDS, shown
from tests.programs import inputs_of
from tracetypes import UNIT
from tracetypes.compiler.tracing.expr import Call, Const, Exact, Expr, Input, Undefined, evaluate
from tracetypes.compiler.tracing.kinds import BOOLEAN, BYTES, EXACT, FLOAT, INTEGER, TIMESTAMP, UNIT_VALUE, Kind
from tracetypes.compiler.tracing.operations import basic, functions
from tracetypes.compiler.tracing.operations import regular_expressions as regular
from tracetypes.compiler.tracing.operations.operation import SCALARS, Operation, Signature
from tracetypes.compiler.tracing.operations.regular_expressions import REGULAR_EXPRESSIONS
from tracetypes.compiler.tracing.symbolic.known import at_path
from tracetypes.records import EnumOf, Optional, Schema
from tracetypes.schemas import schema_of

__all__ = ["Case", "cases"]

MOST_ROWS: Final = 450

MOST_ROWS_OF_FUNCTIONS: Final = 50
"""Evaluators apply functions of Python value by value."""

NAMES: Final = "abcdefgh"

BOUNDS: Final = (None, 0, 2, 2**40, -1, -3, -(2**40))


Place: TypeAlias = tuple[Mapping[Any, Any] | None, tuple[str | int, ...]]

TABLES: Final[Sequence[Place]] = ((WORDS, ("level",)), (WORDS, ("name",)), (NUMBERS, (1,)), (FLAGS, ()))
"""Tables, and paths inside their values."""

NO_TABLE: Final[Sequence[Place]] = ((None, ()),)


class Color(enum.Enum):
    """Its values are no names."""

    RED = "r"
    DARK = ""


class Level(enum.IntEnum):
    """Its members are integers."""

    LOW = -1
    HIGH = 2**40


VALUES: Final[Mapping[Kind, Sequence[Any]]] = {
    **EDGES,
    BYTES: [b"", b"a", b"a\x00", b"\xff", b"\x80z", "é".encode(), b"b" * 40],
    UNIT_VALUE: [UNIT],
    schema_of(Color): list(Color),
    schema_of(Level): list(Level),
}


@attrs.frozen
class Case:
    """An operation on inputs and constants. ``kinds``: of the inputs, by name. ``rows``: their values."""

    expr: Call
    kinds: Mapping[str, Schema]
    rows: Sequence[Mapping[str, Any]]

    def wanted(self) -> list[Any]:
        """What is shown of the value of each row; None where it has none."""
        return [self._value(row) for row in self.rows]

    def _value(self, row: Mapping[str, Any]) -> Any:
        try:
            return shown(evaluate(self.expr, inputs_of(**row)))
        except Undefined:
            return None


def cases(op: Operation) -> Iterator[Case]:
    """All cases of an operation."""
    for one in op.signatures:
        for count in range(one.least, len(one.takes) + one.more + 1):
            kinds = one.kinds(count)
            assert kinds is not None
            for args in _arguments(op, kinds):
                yield from _filled(op, one, args)


def _arguments(op: Operation, kinds: Sequence[Kind | None]) -> Iterator[tuple[Kind, ...]]:
    """Kinds of arguments, where some are not fixed."""
    scalars: list[Kind] = [*SCALARS]
    match op:
        case basic.IF:
            for kind in [*scalars, BYTES]:
                yield from ((BOOLEAN, *sides) for sides in itertools.product(_with_none(kind), repeat=2))
        case basic.IS_NULL:
            yield from ((_with_none(kind)[1],) for kind in [*scalars, BYTES])
        case basic.LEAST | basic.GREATEST:
            yield from itertools.product(*(_with_none(cast(Kind, kind)) for kind in kinds))
        case basic.ENUM_VALUE:
            yield from ((kind,) for kind in VALUES if isinstance(kind, EnumOf))
        case functions.FROM_TIMESTAMP:
            yield from ((kind,) for kind in (BOOLEAN, INTEGER, FLOAT))
        case functions.PERCENT | functions.FORMAT_FIELDS | functions.REPR:
            # These can show the fold of a time, which columns do not keep.
            scalars.remove(TIMESTAMP)
            yield from _turned(scalars, kinds)
        case _:
            yield from _turned(scalars, kinds)


def _turned(scalars: Sequence[Kind], kinds: Sequence[Kind | None]) -> Iterator[tuple[Kind, ...]]:
    """Each scalar in each place that is not fixed, beside other ones in the next places."""
    if None not in kinds:
        scalars = scalars[:1]
    for turn in range(len(scalars)):
        yield tuple(scalars[(turn + at) % len(scalars)] if kind is None else kind for at, kind in enumerate(kinds))


def _with_none(kind: Kind) -> tuple[Kind, Kind]:
    return kind, Optional(cast(Schema, kind))


def _filled(op: Operation, one: Signature, args: tuple[Kind, ...]) -> Iterator[Case]:
    """Inputs for all arguments that need not be constants; then a constant in the place of each."""
    for table, path in TABLES if op.of_table else NO_TABLE:
        held = () if table is None else [key for key in table if type(key) is SCALARS[cast(Schema, args[0])]]
        if table is not None and not held:
            continue
        gives = _given(op, one, args, None if table is None else at_path(table[next(iter(held))], path))
        for constants in _constants(op):
            fixed = dict(zip(op.fixed, constants, strict=True))
            yield _case(op, args, gives, fixed, table, path)
            for at, kind in enumerate(args):
                values = VALUES[kind.item if isinstance(kind, Optional) else kind]
                if (
                    at not in fixed
                    and not isinstance(kind, Exact)
                    and len(args) - len(fixed) > 1
                    and not op.is_function
                ):
                    for value in values[1:5:3]:
                        yield _case(op, args, gives, {**fixed, at: value}, table, path)


_PATTERNS: Final = (("a", 0), (r"\b(a|b)?\w$", 0), ("(?i)Ä|[^b]", re.I), (r"\s+", re.A), ("(a)(b)?", 0))
"""Patterns and their flags."""


def _constants(op: Operation) -> Iterable[tuple[Any, ...]]:
    """What the arguments may be that must be constants."""
    if op in REGULAR_EXPRESSIONS:
        return _expressions(op)
    return itertools.product(*(BOUNDS if op is basic.SLICE else CONSTANTS[op.name] for _ in op.fixed))


def _expressions(op: Operation) -> Iterator[tuple[Any, ...]]:
    for pattern, flags in _PATTERNS:
        how, groups = (pattern, int(re.compile(pattern, flags).flags)), re.compile(pattern).groups
        if op is regular.TEST:
            yield from ((method, *how) for method in regular.METHODS)
        elif op in (regular.HAS_GROUP, regular.GROUP, regular.START, regular.END):
            yield from ((method, *how, at) for method in regular.METHODS for at in range(groups + 1))
        elif op is regular.SUB:
            yield from ((*how, new, count) for new in ("", "-", r"<\g<0>>") for count in (0, 1))
        elif groups == 0:
            yield from ((*how, count) for count in (0, 1)) if len(op.fixed) == 3 else (how,)


def _given(op: Operation, one: Signature, args: tuple[Kind, ...], found: Any) -> Kind:
    """The kind of the result."""
    if op is basic.LOOKUP:
        return schema_of(type(found))
    if op is basic.ENUM_VALUE:
        (kind,) = args
        assert isinstance(kind, EnumOf)
        return kind.item
    if op is basic.IF:
        return args[1] if isinstance(args[1], Optional) else args[2]
    if op in (basic.LEAST, basic.GREATEST):
        return args[0] if isinstance(args[1], Optional) else args[1]
    assert one.gives is not None
    return one.gives


def _case(
    op: Operation,
    args: tuple[Kind, ...],
    gives: Kind,
    fixed: Mapping[int, Any],
    table: Mapping[Any, Any] | None,
    path: tuple[str | int, ...],
) -> Case:
    exprs, kinds, values = list[Expr](), dict[str, Schema](), list[Sequence[Any]]()
    for at, kind in enumerate(args):
        if at in fixed:
            bare = kind.item if isinstance(kind, Optional) else kind
            exprs.append(Const(fixed[at], None if fixed[at] is None else bare))
            continue
        name, of = NAMES[at], FLOAT if isinstance(kind, Exact) else kind
        given = Input((name,), of)
        exprs.append(Call(basic.EXACT_OF, (given,), EXACT) if isinstance(kind, Exact) else given)
        kinds[name] = of
        values.append([None, *VALUES[of.item]] if isinstance(of, Optional) else VALUES[of])
    rows = [
        dict(zip(kinds, row, strict=True))
        for row in _rows(values, MOST_ROWS_OF_FUNCTIONS if op.is_function else MOST_ROWS)
    ]
    return Case(Call(op, tuple(exprs), gives, table, path), kinds, rows)


def _rows(values: Sequence[Sequence[Any]], most: int) -> list[tuple[Any, ...]]:
    """All rows of these values, or some of them if there are many."""
    count = 1
    for some in values:
        count *= len(some)
    if count <= most:
        return list(itertools.product(*values))
    chance = random.Random(count)
    return [tuple(chance.choice(some) for some in values) for _ in range(most)]
