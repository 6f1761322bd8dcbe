"""Expressions as Spark columns, evaluated in the JVM.

A column has Python's value or says that it is *undefined*; undefined rows must run in Python. It throws for no row,
also in ANSI mode. Undefined are rows for which the expression has no value (``expr.Undefined``), and also

* ``lower`` and ``upper`` of text that is not ASCII: Java's and Python's Unicode differ;
* quotients of integers beyond ``2**53``, which need more than one rounding;
* ``replace`` of the empty string.

:class:`NotNative` is raised if an operation has no exact equivalent at all (exact sums; very large tables and
expressions).

A table becomes two literals: buckets of keys by CRC-32, and an array of values by place. A look-up costs one hash and
one or two comparisons, without a join. The session's time zone must be UTC, and a column of a schema that is not
optional must have no nulls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, assert_never, final

import attrs
from pyspark.errors import PySparkTypeError
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import DataType

from tracetypes.compiler.columns.arrow import arrow_type
from tracetypes.compiler.columns.lookup_tables import table_keys
from tracetypes.compiler.spark.catalyst_operations import (
    ACTS,
    NO_ACTS,
    NO_COLUMNS,
    NotNative,
    Term,
    choice,
    constant_term,
    either,
    extreme,
    undefined_of,
)
from tracetypes.compiler.spark.catalyst_tables import entries_of, place_of
from tracetypes.compiler.tracing.expr import Call, Const, Emission, Exact, Expr, Input, Kind, Leaf, Pack, Tree, Value
from tracetypes.compiler.tracing.operations import basic
from tracetypes.compiler.tracing.operations.operation import Operation
from tracetypes.lookup_table import LookupTable
from tracetypes.records import (
    Boolean,
    Float,
    Integer,
    LiteralOf,
    OneOf,
    Optional,
    Record,
    Schema,
    String,
    UnitValue,
)

__all__ = ["FORMS", "Native", "NativeTree", "column", "tree"]

MOST_ENTRIES: Final = 10_000
"""Entries of a table that becomes a literal of the query."""

MOST_NODES: Final = 4_000
"""Nodes of a column: Spark evaluates what occurs twice once, but plans and compiles it twice."""


@final
@attrs.frozen(eq=False)
class Native:
    """A column. ``undefined``: a Boolean column, never null, of the rows that must run in Python; None for no row. In
    these rows ``value`` means nothing; in other rows null is None."""

    value: Column
    undefined: Column | None


@final
@attrs.frozen(eq=False)
class NativeTree:
    """The emissions of an ``OpStateless`` for each row.

    ``undefined`` as in :class:`Native`; in undefined rows the other columns mean nothing. ``condition``: whether the
    row emits; null only in undefined rows. ``key`` (None if emissions have none) and ``value``: the emission, in the
    Spark types of the schemas; None if a leaf emits more than once. ``pairs``: all emissions in order, an array of
    structs of ``key`` (if there are keys) and ``value``.
    """

    condition: Column
    key: Column | None
    value: Column | None
    pairs: Column
    undefined: Column | None


Inputs: TypeAlias = Callable[[Input], Column]


def column(expr: Expr, inputs: Inputs) -> Native:
    """An expression as a column. Raises :class:`NotNative`."""
    term = _Translation(inputs).term(expr)
    return Native(term.value, undefined_of(term))


def tree(tree: Tree, inputs: Inputs, key: Schema | None, value: Schema) -> NativeTree:
    """A tree of emissions as columns of the schemas ``key`` and ``value``. Raises :class:`NotNative`."""
    translation = _Translation(inputs)
    single = _most(tree) <= 1
    undefined = translation.fold(tree, translation.leaf_undefined, _either_undefined)
    whether = translation.fold(tree, lambda leaf: bool(leaf.emissions), _choose_flag)
    keys = values = None
    if single:
        values = translation.fold(tree, lambda leaf: translation.first(leaf, value, keyed=False), _choose)
        if key is not None:
            keys = translation.fold(tree, lambda leaf: translation.first(leaf, key, keyed=True), _choose)
    pairs = translation.fold(tree, lambda leaf: translation.pairs(leaf, key, value), _choose)
    return NativeTree(
        F.lit(whether) if isinstance(whether, bool) else whether,
        keys,
        values,
        pairs,
        F.lit(undefined) if undefined is True else None if undefined is False else undefined,
    )


def _most(tree: Tree) -> int:
    """Emissions of the leaf that has most."""
    if isinstance(tree, Leaf):
        return 0 if tree.raises else len(tree.emissions)
    return max(_most(tree.then), _most(tree.otherwise))


Flag: TypeAlias = bool | Column


def _either_undefined(condition: Term, then: Flag, otherwise: Flag) -> Flag:
    flag = _choose_flag(condition, then, otherwise)
    unknown = undefined_of(condition)
    if unknown is None or flag is True:
        return flag
    return unknown if flag is False else unknown | flag


def _choose_flag(condition: Term, then: Flag, otherwise: Flag) -> Flag:
    """Where the condition is null, so may the flag be."""
    if then is otherwise:
        return then
    if otherwise is False:
        return condition.value if then is True else condition.value & then
    if then is False:
        return ~condition.value if otherwise is True else ~condition.value & otherwise
    if then is True:
        return condition.value | otherwise
    if otherwise is True:
        return ~condition.value | then
    return F.when(condition.value, then).otherwise(otherwise)


def _choose(condition: Term, then: Column, otherwise: Column) -> Column:
    return F.when(condition.value, then).otherwise(otherwise)


class _Translation:
    """One use of :func:`column` or :func:`tree`."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs = inputs
        self.terms: dict[int, Term] = {}
        self.tables: dict[tuple[int, Any], tuple[Any, ...]] = {}

    # ------------------------------------------------------------------------------------------- trees

    def fold(self, tree: Tree, leaf: Callable[[Leaf], Any], branch: Callable[[Term, Any, Any], Any]) -> Any:
        if isinstance(tree, Leaf):
            return leaf(tree)
        condition = self.term(tree.condition)
        if not isinstance(condition.kind, Boolean):
            raise NotNative("a condition is no bool")
        then = self.fold(tree.then, leaf, branch)
        otherwise = then if tree.otherwise is tree.then else self.fold(tree.otherwise, leaf, branch)
        if then is otherwise and branch is _choose:
            return then
        return branch(condition, then, otherwise)

    def leaf_undefined(self, leaf: Leaf) -> Flag:
        if leaf.raises:
            return True
        undefined: Column | None = None
        for emission in self.calls(leaf):
            for value in (emission.key, emission.value):
                if value is not None:
                    for part in _parts(value):
                        undefined = either(undefined, undefined_of(self.term(part)))
        return False if undefined is None else undefined

    def first(self, leaf: Leaf, schema: Schema, *, keyed: bool) -> Column:
        if leaf.raises or not leaf.emissions:
            return F.lit(None).cast(_type(schema))
        return self.part(self.calls(leaf)[0], schema, keyed=keyed)

    def calls(self, leaf: Leaf) -> list[Emission]:
        """The emissions of a leaf without loops."""
        calls = [one for one in leaf.emissions if isinstance(one, Emission)]
        if len(calls) < len(leaf.emissions):
            raise NotNative("a loop over a range of values")
        return calls

    def part(self, emission: Emission, schema: Schema, *, keyed: bool) -> Column:
        value = emission.key if keyed else emission.value
        if value is None:
            raise NotNative("an emission has no key")
        return self.output(value, schema)

    def pairs(self, leaf: Leaf, key: Schema | None, value: Schema) -> Column:
        parts = []
        for emission in () if leaf.raises else self.calls(leaf):
            fields = [] if key is None else [self.part(emission, key, keyed=True).alias("key")]
            parts.append(F.struct(*fields, self.part(emission, value, keyed=False).alias("value")))
        names = ["value"] if key is None else ["key", "value"]
        types = [_type(schema) for schema in (key, value) if schema is not None]
        inner = ", ".join(f"{name}: {kind.simpleString()}" for name, kind in zip(names, types, strict=True))
        return F.array(*parts).cast(f"array<struct<{inner}>>")

    def output(self, value: Value, schema: Schema) -> Column:
        """A value as a column of the schema's Spark type."""
        inner = schema.item if isinstance(schema, Optional) else schema
        if isinstance(value, Pack):
            return self.struct(value, inner)
        term = self.term(value)
        if term.kind is None:
            if isinstance(schema, Optional):
                return F.lit(None).cast(_type(schema))
            raise NotNative("None is emitted where the type has no None")
        if term.optional and not isinstance(schema, Optional | UnitValue):
            raise NotNative("what may be None is emitted where the type has no None")
        if isinstance(term.kind, Integer) and isinstance(inner, Float):
            return term.value.cast("double")
        if isinstance(inner, LiteralOf):
            raise NotNative("a Literal is emitted, whose values Spark does not know")
        if term.kind != inner:
            raise NotNative("what is emitted does not have the type of the stream")
        return term.value

    def struct(self, pack: Pack, schema: Schema) -> Column:
        match schema:
            case OneOf(members):
                parts = [
                    (self.struct(pack, m) if m.cls is pack.cls else F.lit(None).cast(_type(m))).alias(m.cls.__name__)
                    for m in members
                ]
                return F.struct(*parts)
            case Record(cls, fields) if cls is pack.cls:
                by_name = dict(zip(pack.names, pack.parts, strict=True))
                return F.struct(*[self.output(by_name[name], inner).alias(name) for name, inner in fields])
            case _:
                raise NotNative("what is emitted does not have the type of the stream")

    # -------------------------------------------------------------------------------------- expressions

    def term(self, expr: Expr) -> Term:
        term = self.terms.get(id(expr))
        if term is None:
            term = self.terms[id(expr)] = self.make(expr)
            if term.size > MOST_NODES:
                raise NotNative("an expression is too large")
        return term

    def make(self, expr: Expr) -> Term:
        match expr:
            case Input(_, kind):
                if isinstance(kind, Exact):
                    raise NotNative("exact sums have no columns in Spark")
                bare = kind.item if isinstance(kind, Optional) else kind
                optional = isinstance(kind, Optional | UnitValue)
                return Term(bare, self.inputs(expr), not optional, 1, optional)
            case Const(value, kind):
                return constant_term(value, kind)
            case Call():
                return self.call(expr)
            case _:
                assert_never(expr)

    def call(self, call: Call) -> Term:
        args = [self.term(arg) for arg in call.args]
        kind = call.kind.item if isinstance(call.kind, Optional) else call.kind
        for one in (kind, *(arg.kind for arg in args)):
            if isinstance(one, Exact):
                raise NotNative(NO_COLUMNS[Exact])
        if (form := FORMS.get(call.op)) is not None:
            return form(self, call, kind, args)
        if any(arg.kind is None for arg in args):
            return Term(kind, F.lit(None).cast(_type_of(kind)), False, 1)
        first = args[0].kind
        act = ACTS.get(call.op, {}).get(type(first))
        if act is None or (call.op.of_one_kind and any(type(arg.kind) is not type(first) for arg in args)):
            kinds = ", ".join(type(arg.kind).__name__ for arg in args)
            raise NotNative(f"{call.op} of {kinds}: {NO_ACTS.get(call.op, 'other kinds than Spark has it for')}")
        column = act.make(*[arg.value for arg in args]) if not act.nulls else act.make(*args)
        sure = act.total and all(arg.sure for arg in args)
        return Term(kind, column, sure, act.size + act.uses * sum(arg.size for arg in args))

    def choice(self, call: Call, kind: Kind, args: list[Term]) -> Term:
        return choice(kind, args)

    def extreme(self, call: Call, kind: Kind, args: list[Term]) -> Term:
        return extreme(call.op, kind, *args)

    def is_null(self, call: Call, kind: Kind, args: list[Term]) -> Term:
        (arg,) = args
        size, null = 1 + arg.size, arg.value.isNull()
        if not arg.optional:
            return Term(kind, null if arg.sure else F.when(~null, False), arg.sure, size)
        if arg.undefined is not None:
            return Term(kind, F.when(~arg.undefined, null), False, size * 2)
        return Term(kind, F.lit(arg.kind is None) if arg.kind is None else null, True, size)

    def slice(self, call: Call, kind: Kind, args: list[Term]) -> Term:
        text = args[0]
        bounds: list[int | None] = []
        for arg in call.args[1:]:
            if not isinstance(arg, Const) or not (arg.value is None or type(arg.value) is int):
                raise NotNative("slice with bounds that are not constant")
            # No string is longer than this.
            bounds.append(None if arg.value is None else max(min(arg.value, 2**30), -(2**30)))
        if not isinstance(text.kind, String):
            raise NotNative("slice of what is no text")
        start, stop = bounds[0] or 0, bounds[1]
        value = text.value
        length = F.length(value)
        first = F.lit(start) if start >= 0 else F.greatest(length + start, F.lit(0))
        if stop is None:
            column = F.substring(value, first + 1, F.lit(2**30))
        else:
            last = F.lit(stop) if stop >= 0 else length + stop
            column = F.substring(value, first + 1, F.greatest(last - first, F.lit(0)))
        return Term(kind, column, text.sure, 12 + 5 * text.size)

    def look_up(self, call: Call, kind: Kind, args: list[Term]) -> Term:
        (key,), table = args, call.table
        if table is None:
            raise NotNative(f"{call.op} without a table")
        if isinstance(table, LookupTable):
            raise NotNative("a table that is asked")
        if len(table) > MOST_ENTRIES:
            raise NotNative(f"a table of {len(table)} entries")
        mark = (id(table), id(call.args[0]))
        entry = self.tables.get(mark)
        if entry is None:
            keys = table_keys(table, key.kind)
            if keys is None:
                raise NotNative(f"a table whose keys cannot be compared with {type(key.kind).__name__}")
            entry = self.tables[mark] = (place_of(keys, key),)
        (place,) = entry
        if call.op is basic.HAS:
            present = place.isNotNull()
            return Term(kind, present if key.sure else F.when(key.value.isNotNull(), present), key.sure, 10 + 2 * key.size)
        entries = entries_of(table, call.path, kind)
        if entries.optional:
            return Term(kind, entries.of(place), False, 10 + key.size, True, place.isNull())
        return Term(kind, entries.of(place), False, 10 + key.size)


FORMS: Final[Mapping[Operation, Callable[[_Translation, Call, Kind, list[Term]], Term]]] = {
    basic.IF: _Translation.choice,
    basic.IS_NULL: _Translation.is_null,
    basic.LEAST: _Translation.extreme,
    basic.GREATEST: _Translation.extreme,
    basic.SLICE: _Translation.slice,
    basic.HAS: _Translation.look_up,
    basic.LOOKUP: _Translation.look_up,
}
"""Operations that look at more than the values of their arguments. All others are in ``ACTS`` or ``NO_ACTS``."""


def _parts(value: Value) -> list[Expr]:
    if isinstance(value, Pack):
        return [expr for part in value.parts for expr in _parts(part)]
    return [value]


def _type(schema: Schema) -> DataType:
    try:
        return from_arrow_type(arrow_type(schema))
    except PySparkTypeError:
        raise NotNative("Spark has no unsigned integers") from None


def _type_of(kind: Kind | None) -> DataType | str:
    return "void" if kind is None or isinstance(kind, Exact) else _type(kind)
