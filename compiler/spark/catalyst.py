"""Expressions as Spark columns, evaluated in the JVM.

A column here has Python's value or is *undefined*, and says so: rows that are undefined must be run in Python. It throws for
no row, also in ANSI mode. Undefined is where the expression has no value (``expr.Undefined``), and also

* ``lower`` and ``upper`` of text that is not ASCII: Java's and Python's Unicode differ;
* quotients of integers beyond ``2**53``, which need more than one rounding;
* ``replace`` of the empty string.

:class:`NotNative` is raised where an operation has no exact equivalent at all (exact sums; very large tables and expressions).

A table becomes two literals: buckets of keys by CRC-32, and an array of values by place; a look-up costs one hash and one or
two comparisons, without a join. The session's time zone must be UTC, and a column of a schema that is not optional must hold
no nulls.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, assert_never, final

import attrs
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import DataType

from tracetypes.asked import LookupTable
from tracetypes.compiler.columns.arrow import arrow_type, never_refuses
from tracetypes.compiler.columns.column import constant
from tracetypes.compiler.columns.lookup_tables import table_entries, table_keys
from tracetypes.compiler.columns.operations import FIRST, LAST, WHITE_SPACE
from tracetypes.compiler.tracing.expr import Call, Const, Emission, Exact, Expr, Input, Kind, Leaf, Pack, Tree, Value
from tracetypes.records import (
    Boolean,
    Bytes,
    Date,
    Float,
    Integer,
    OneOf,
    Optional,
    Record,
    Schema,
    String,
    Timestamp,
    UnitValue,
)

__all__ = ["Native", "NativeTree", "NotNative", "column", "tree"]

MOST_ENTRIES: Final = 10_000
"""Entries of a table that becomes a literal of the query."""

MOST_NODES: Final = 4_000
"""Nodes of a column: Spark evaluates what occurs twice once, but plans and compiles it twice."""


class NotNative(Exception):
    """Spark has no exact equivalent. The reason is for a person."""


@final
@attrs.frozen(eq=False)
class Native:
    """A column. ``undefined``: a Boolean column, never null, for which rows it must be run in Python; None for no row. What
    ``value`` holds there means nothing; where it is null elsewhere, the value is None."""

    value: Column
    undefined: Column | None


@final
@attrs.frozen(eq=False)
class NativeTree:
    """What an ``OpStateless`` emits for each row.

    ``undefined`` as in :class:`Native`; the other columns mean nothing there. ``condition``: does the row emit? Never null
    otherwise. ``key`` (None where emissions have none) and ``value``: what it emits, of the Spark types of the schemas; None
    when a leaf emits more than once. ``pairs``: all emissions in order, an array of structs of ``key`` (where there are
    keys) and ``value``.
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
    return Native(term.value, _undefined(term))


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


@final
@attrs.frozen(eq=False)
class _Term:
    """A column under construction. It is null where the expression is undefined or its value None; ``sure``: it never is.

    ``undefined``: of what may be None only, where it is undefined; otherwise that is where it is null. ``size``: nodes.
    """

    kind: Kind | None
    value: Column
    sure: bool
    size: int
    optional: bool = False
    undefined: Column | None = None


def _undefined(term: _Term) -> Column | None:
    if term.optional:
        return term.undefined
    return None if term.sure else term.value.isNull()


def _or(a: Column | None, b: Column | None) -> Column | None:
    return b if a is None else a if b is None else a | b


Flag: TypeAlias = bool | Column


def _either_undefined(condition: _Term, then: Flag, otherwise: Flag) -> Flag:
    chosen = _choose_flag(condition, then, otherwise)
    unknown = _undefined(condition)
    if unknown is None or chosen is True:
        return chosen
    return unknown if chosen is False else unknown | chosen


def _choose_flag(condition: _Term, then: Flag, otherwise: Flag) -> Flag:
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


def _choose(condition: _Term, then: Column, otherwise: Column) -> Column:
    return F.when(condition.value, then).otherwise(otherwise)


class _Translation:
    """One use of :func:`column` or :func:`tree`."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs = inputs
        self.known: dict[int, _Term] = {}
        self.tables: dict[tuple[int, Any], tuple[Any, ...]] = {}

    # ------------------------------------------------------------------------------------------- trees

    def fold(self, tree: Tree, leaf: Callable[[Leaf], Any], branch: Callable[[_Term, Any, Any], Any]) -> Any:
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
        found: Column | None = None
        for emission in leaf.emissions:
            for value in (emission.key, emission.value):
                if value is not None:
                    for part in _parts(value):
                        found = _or(found, _undefined(self.term(part)))
        return False if found is None else found

    def first(self, leaf: Leaf, schema: Schema, *, keyed: bool) -> Column:
        if leaf.raises or not leaf.emissions:
            return F.lit(None).cast(_type(schema))
        return self.part(leaf.emissions[0], schema, keyed=keyed)

    def part(self, emission: Emission, schema: Schema, *, keyed: bool) -> Column:
        value = emission.key if keyed else emission.value
        if value is None:
            raise NotNative("an emission has no key")
        return self.output(value, schema)

    def pairs(self, leaf: Leaf, key: Schema | None, value: Schema) -> Column:
        made = []
        for emission in () if leaf.raises else leaf.emissions:
            fields = [] if key is None else [self.part(emission, key, keyed=True).alias("key")]
            made.append(F.struct(*fields, self.part(emission, value, keyed=False).alias("value")))
        names = ["value"] if key is None else ["key", "value"]
        types = [_type(schema) for schema in (key, value) if schema is not None]
        inner = ", ".join(f"{name}: {kind.simpleString()}" for name, kind in zip(names, types, strict=True))
        return F.array(*made).cast(f"array<struct<{inner}>>")

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
                if not never_refuses(Record(cls, ())):
                    raise NotNative(f"{cls.__name__} has code that must see its values")
                given = dict(zip(pack.names, pack.parts, strict=True))
                return F.struct(*[self.output(given[name], inner).alias(name) for name, inner in fields])
            case _:
                raise NotNative("what is emitted does not have the type of the stream")

    # -------------------------------------------------------------------------------------- expressions

    def term(self, expr: Expr) -> _Term:
        found = self.known.get(id(expr))
        if found is None:
            found = self.known[id(expr)] = self.make(expr)
            if found.size > MOST_NODES:
                raise NotNative("an expression is too large")
        return found

    def make(self, expr: Expr) -> _Term:
        match expr:
            case Input(_, kind):
                if isinstance(kind, Exact):
                    raise NotNative("exact sums have no columns in Spark")
                bare = kind.item if isinstance(kind, Optional) else kind
                optional = isinstance(kind, Optional | UnitValue)
                return _Term(bare, self.inputs(expr), not optional, 1, optional)
            case Const(value, kind):
                return _constant(value, kind)
            case Call():
                return self.call(expr)
            case _:
                assert_never(expr)

    def call(self, call: Call) -> _Term:
        args = [self.term(arg) for arg in call.args]
        kind = call.kind.item if isinstance(call.kind, Optional) else call.kind
        if isinstance(kind, Exact) or any(isinstance(arg.kind, Exact) for arg in args):
            raise NotNative("exact sums have no columns in Spark")
        size = 1 + sum(arg.size for arg in args)
        match call.op:
            case "is_null":
                (arg,) = args
                null = arg.value.isNull()
                if not arg.optional:
                    return _Term(kind, null if arg.sure else F.when(~null, False), arg.sure, size)
                if arg.undefined is not None:
                    return _Term(kind, F.when(~arg.undefined, null), False, size * 2)
                return _Term(kind, F.lit(arg.kind is None) if arg.kind is None else null, True, size)
            case "if":
                return _if(kind, args)
            case "least" | "greatest":
                return _extreme(call.op, kind, *args)
            case "slice":
                return self.slice(call, kind, args[0])
            case "has" | "lookup":
                return self.look_up(call, kind, args[0])
            case _:
                pass
        if any(arg.kind is None for arg in args):
            return _Term(kind, F.lit(None).cast(_type_of(kind)), False, 1)
        first = args[0].kind
        act = _ACTS.get((call.op, type(first)))
        if act is None or (call.op != "add_micros" and any(type(arg.kind) is not type(first) for arg in args)):
            raise NotNative(f"{call.op} of {', '.join(type(arg.kind).__name__ for arg in args)}")
        made = act.make(*[arg.value for arg in args]) if not act.nulls else act.make(*args)
        sure = act.total and all(arg.sure for arg in args)
        return _Term(kind, made, sure, act.size + act.uses * sum(arg.size for arg in args))

    def slice(self, call: Call, kind: Kind, text: _Term) -> _Term:
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
            made = F.substring(value, first + 1, F.lit(2**30))
        else:
            last = F.lit(stop) if stop >= 0 else length + stop
            made = F.substring(value, first + 1, F.greatest(last - first, F.lit(0)))
        return _Term(kind, made, text.sure, 12 + 5 * text.size)

    def look_up(self, call: Call, kind: Kind, key: _Term) -> _Term:
        table = call.table
        if table is None:
            raise NotNative(f"{call.op} without a table")
        if isinstance(table, LookupTable):
            raise NotNative("a table that is asked")
        if len(table) > MOST_ENTRIES:
            raise NotNative(f"a table of {len(table)} entries")
        mark = (id(table), id(call.args[0]))
        known = self.tables.get(mark)
        if known is None:
            keys = table_keys(table, key.kind)
            if keys is None:
                raise NotNative(f"a table whose keys cannot be compared with {type(key.kind).__name__}")
            known = self.tables[mark] = (_place(keys, key),)
        (place,) = known
        if call.op == "has":
            held = place.isNotNull()
            return _Term(kind, held if key.sure else F.when(key.value.isNotNull(), held), key.sure, 10 + 2 * key.size)
        entries = _entries(table, call.path, kind)
        if entries.optional:
            return _Term(kind, entries.of(place), False, 10 + key.size, True, place.isNull())
        return _Term(kind, entries.of(place), False, 10 + key.size)


def _parts(value: Value) -> list[Expr]:
    if isinstance(value, Pack):
        return [expr for part in value.parts for expr in _parts(part)]
    return [value]


def _type(schema: Schema) -> DataType:
    return from_arrow_type(arrow_type(schema))


def _type_of(kind: Kind | None) -> DataType | str:
    return "void" if kind is None or isinstance(kind, Exact) else _type(kind)


def _constant(value: Any, kind: Kind | None) -> _Term:
    kind = kind.item if isinstance(kind, Optional) else kind
    made = constant(value, kind)
    if made is None or isinstance(kind, Exact):
        raise NotNative("a constant has no column in Spark")
    if made.kind is None:
        return _Term(None, F.lit(None), False, 1, True)
    match kind:
        case Integer():
            literal = _long(made.values)
        case Timestamp():
            literal = F.timestamp_micros(_long(made.values))
        case Date():
            literal = F.date_from_unix_date(F.lit(made.values))
        case UnitValue():
            return _Term(kind, F.lit(None), False, 1, True)
        case Bytes():
            literal = F.lit(bytearray(made.values))
        case _:
            literal = F.lit(made.values)
    return _Term(kind, literal, True, 1)


def _long(value: int) -> Column:
    return F.lit(value).cast("bigint")


def _if(kind: Kind | None, args: list[_Term]) -> _Term:
    condition, then, otherwise = args
    kinds = {arg.kind for arg in (then, otherwise) if arg.kind is not None}
    if len(kinds) > 1:
        raise NotNative("an if of two types")
    if condition.sure:
        value = F.when(condition.value, then.value).otherwise(otherwise.value)
    else:
        value = F.when(condition.value, then.value).when(~condition.value, otherwise.value)
    size = 2 + 2 * condition.size + then.size + otherwise.size
    if not (then.optional or otherwise.optional):
        return _Term(kind, value, all(arg.sure for arg in args), size)
    nowhere = F.lit(False)
    parts = [_undefined(arg) for arg in args]
    chosen = None
    if parts[1] is not None or parts[2] is not None:
        a, b = [nowhere if part is None else part for part in parts[1:]]
        chosen = F.when(condition.value, a).otherwise(b)
    return _Term(kind, value, False, 2 * size, True, _or(parts[0], chosen))


def _extreme(op: str, kind: Kind | None, a: _Term, b: _Term) -> _Term:
    """Spark's own of these takes NaN for larger than all others, and either of two zeros."""
    if a.kind is None or a.kind != b.kind:
        raise NotNative(f"{op} of {type(a.kind).__name__}, {type(b.kind).__name__}")
    present = [_Term(x.kind, x.value, True, x.size) for x in (a, b)]
    less = _ACTS["lt", type(a.kind)]
    smaller, larger = present if op == "least" else reversed(present)
    wins = less.make(smaller, larger) if less.nulls else less.make(smaller.value, larger.value)
    if isinstance(a.kind, Float):
        wins = F.isnan(a.value) | wins
    value = F.when(b.value.isNull() | (a.value.isNotNull() & wins), a.value).otherwise(b.value)
    undefined = _or(_undefined(a), _undefined(b))
    size = 10 + 5 * (a.size + b.size)
    if a.optional and b.optional:
        return _Term(kind, value, False, size, True, undefined)
    return _Term(kind, value if undefined is None else F.when(~undefined, value), undefined is None, size)


# ----------------------------------------------------------------------------------------------- tables


def _place(keys: Mapping[Any, int], key: _Term) -> Column:
    """The place of a key, an int; null where the table does not have it, or where the key is null."""
    if not keys:
        return F.lit(None).cast("int")
    value = key.value.cast("int").cast("bigint") if isinstance(key.kind, Boolean) else key.value
    if not isinstance(key.kind, String):
        low, high = min(keys), max(keys)
        if high - low <= 4 * len(keys) + 1024:
            dense = [keys.get(k) for k in range(low, high + 1)]
            inside = (value >= _long(low)) & (value <= _long(high))
            at = F.when(inside, (F.when(inside, value).otherwise(_long(low)) - _long(low)).cast("int"))
            return F.get(_literal(dense, "array<int>"), at)
    number = len(keys)
    buckets: list[dict[str, int]] = [{} for _ in range(number)]
    for k, place in keys.items():
        buckets[zlib.crc32(str(k).encode()) % number][str(k)] = place
    text = value.cast("string")
    bucket = F.get(
        _literal(buckets, "array<map<string,int>>"), (F.crc32(text.cast("binary")) % _long(number)).cast("int")
    )
    return F.try_element_at(bucket, text)


def _literal(value: Any, kind: str) -> Column:
    """A large literal: read from JSON once, when the query is planned."""
    return F.from_json(F.lit(json.dumps(value)), kind)


@final
@attrs.frozen(eq=False)
class _Entries:
    """Values by place: of an array of what JSON has for them."""

    values: Column
    finish: Callable[[Column], Column]
    optional: bool

    def of(self, place: Column) -> Column:
        return self.finish(F.get(self.values, place))


def _same(value: Column) -> Column:
    return value


def _entries(table: Mapping[Any, Any], path: tuple[str | int, ...], kind: Kind | None) -> _Entries:
    held = table_entries(table, path, kind)
    optional = any(entry is not None and entry.kind is None for entry in held)
    if optional and None in held:
        raise NotNative("a table of values of several types")
    values = [None if entry is None or entry.kind is None else entry.values for entry in held]
    match kind:
        case Boolean():
            return _Entries(_literal(values, "array<boolean>"), _same, optional)
        case Integer():
            return _Entries(_literal(values, "array<bigint>"), _same, optional)
        case String():
            return _Entries(_literal(values, "array<string>"), _same, optional)
        case Float():
            texts = [v if v is None or v - v == 0 else _NAMES[repr(v)] for v in values]
            return _Entries(_literal(texts, "array<double>"), _same, optional)
        case Timestamp():
            return _Entries(_literal(values, "array<bigint>"), F.timestamp_micros, optional)
        case Date():
            return _Entries(_literal(values, "array<int>"), F.date_from_unix_date, optional)
        case _:
            raise NotNative(f"a table of {type(kind).__name__}")


_NAMES: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


# ------------------------------------------------------------------------------------------- operations


@final
@attrs.frozen(eq=False)
class _Act:
    """How an operation becomes a column. ``total``: it is null only where an argument is. ``uses``: how often it mentions its
    arguments. ``nulls``: it takes the terms, for it must know which of them may be null."""

    make: Callable[..., Column]
    total: bool = True
    size: int = 1
    uses: int = 1
    nulls: bool = False


def _partial(make: Callable[..., Column], size: int = 1, uses: int = 1) -> _Act:
    return _Act(make, total=False, size=size, uses=uses)


def _int_abs(a: Column) -> Column:
    return F.when(a >= 0, a).otherwise(F.try_subtract(_long(0), a))


def _int_divide(a: Column, b: Column) -> Column:
    """Towards zero; null for a zero divisor and the one overflow."""
    return F.when(b == -1, F.try_subtract(_long(0), a)).otherwise(F.call_function("div", a, F.nullif(b, _long(0))))


def _int_floordiv(a: Column, b: Column) -> Column:
    rest = a % F.nullif(b, _long(0))
    down = (rest != 0) & ((rest < 0) != (b < 0))
    return _int_divide(a, b) - F.when(down, _long(1)).otherwise(_long(0))


def _int_mod(a: Column, b: Column) -> Column:
    rest = a % F.nullif(b, _long(0))
    return F.when((rest != 0) & ((rest < 0) != (b < 0)), rest + b).otherwise(rest)


def _int_truediv(a: Column, b: Column) -> Column:
    most = _long(2**53)
    exact = a.between(-most, most) & b.between(-most, most)
    return F.when(exact, F.try_divide(a.cast("double"), b.cast("double")))


def _integral(a: Column) -> Column:
    """A float as an integer, towards zero. A cast would saturate at ``2**63``."""
    return F.when((a >= -(2.0**63)) & (a < 2.0**63), a.cast("bigint"))


def _remainder(a: Column, b: Column) -> Column:
    """C's ``fmod``; null for a zero divisor."""
    return F.try_mod(a, b)


def _float_mod(a: Column, b: Column) -> Column:
    """As CPython has it: the remainder takes the sign of the divisor, a zero too."""
    rest = _remainder(a, b)
    zero = F.when(b < 0, F.lit(-0.0)).otherwise(F.lit(0.0))
    return F.when(rest == 0, zero).when((rest < 0) != (b < 0), rest + b).otherwise(rest)


def _float_floordiv(a: Column, b: Column) -> Column:
    """As CPython has it: from the remainder, so that it is exact."""
    rest = _remainder(a, b)
    quotient = F.try_divide(a - rest, b)
    quotient = F.when((rest != 0) & ((rest < 0) != (b < 0)), quotient - 1.0).otherwise(quotient)
    whole = F.rint(quotient)
    floor = F.when(whole > quotient, whole - 1.0).otherwise(whole)
    nearest = F.when(quotient - floor > 0.5, floor + 1.0).otherwise(floor)
    return F.when(quotient == 0, F.try_divide(a, b) * 0.0).otherwise(nearest)


def _float_compare(make: Callable[[Column, Column], Column]) -> _Act:
    """In Spark NaN equals NaN and is larger than any other."""

    def compare(a: _Term, b: _Term) -> Column:
        strange = F.isnan(a.value) | F.isnan(b.value)
        for term in (a, b):
            if not term.sure:
                strange = strange & term.value.isNotNull()
        return F.when(strange, False).otherwise(make(a.value, b.value))

    return _Act(compare, size=6, uses=3, nulls=True)


def _and(*args: _Term) -> Column:
    """Null where an argument is, also when another one is false."""
    made = args[0].value
    sure = args[0].sure
    for arg in args[1:]:
        if sure and arg.sure:
            made = made & arg.value
        else:
            made = F.when(made, arg.value).when(~made, F.when(arg.value.isNotNull(), False))
            sure = False
    return made


def _or_all(*args: _Term) -> Column:
    made = args[0].value
    sure = args[0].sure
    for arg in args[1:]:
        if sure and arg.sure:
            made = made | arg.value
        else:
            made = F.when(~made, arg.value).when(made, F.when(arg.value.isNotNull(), True))
            sure = False
    return made


def _ascii(make: Callable[[Column], Column]) -> _Act:
    return _partial(lambda a: F.when(F.length(a) == F.octet_length(a), make(a)), 5, 3)


def _replace(text: Column, old: Column, new: Column) -> Column:
    return F.when(old != "", F.replace(text, old, new))


def _micros(time: Column) -> Column:
    return F.unix_micros(time)


def _add_micros(time: Column, micros: Column) -> Column:
    made = F.try_add(_micros(time), micros)
    return F.when((made >= _long(FIRST)) & (made <= _long(LAST)), F.timestamp_micros(made))


def _long_of(make: Callable[[Column], Column]) -> _Act:
    return _Act(lambda a: make(a).cast("bigint"), size=2)


def _acts() -> dict[tuple[str, type[Any]], _Act]:
    acts: dict[tuple[str, type[Any]], _Act] = {
        ("add", Integer): _partial(F.try_add),
        ("sub", Integer): _partial(F.try_subtract),
        ("mul", Integer): _partial(F.try_multiply),
        ("neg", Integer): _partial(lambda a: F.try_subtract(_long(0), a), 2),
        ("abs", Integer): _partial(_int_abs, 5, 3),
        ("floordiv", Integer): _partial(_int_floordiv, 20, 4),
        ("mod", Integer): _partial(_int_mod, 15, 5),
        ("truediv", Integer): _partial(_int_truediv, 10, 3),
        ("add", Float): _Act(lambda a, b: a + b),
        ("sub", Float): _Act(lambda a, b: a - b),
        ("mul", Float): _Act(lambda a, b: a * b),
        ("neg", Float): _Act(lambda a: -a),
        ("abs", Float): _Act(F.abs),
        ("truediv", Float): _partial(F.try_divide),
        ("floordiv", Float): _partial(_float_floordiv, 60, 40),
        ("mod", Float): _partial(_float_mod, 15, 5),
        ("bit_and", Integer): _Act(lambda a, b: a.bitwiseAND(b)),
        ("bit_or", Integer): _Act(lambda a, b: a.bitwiseOR(b)),
        ("bit_xor", Integer): _Act(lambda a, b: a.bitwiseXOR(b)),
        ("invert", Integer): _Act(F.bitwise_not),
        ("to_float", Integer): _Act(lambda a: a.cast("double")),
        ("to_float", Boolean): _Act(lambda a: a.cast("double")),
        ("to_int", Boolean): _Act(lambda a: a.cast("bigint")),
        ("to_int", Float): _partial(_integral, 6, 3),
        ("round", Float): _partial(lambda a: _integral(F.rint(a)), 9, 3),
        ("not", Boolean): _Act(lambda a: ~a),
        ("and", Boolean): _Act(_and, size=6, uses=2, nulls=True),
        ("or", Boolean): _Act(_or_all, size=6, uses=2, nulls=True),
        ("eq", Float): _float_compare(lambda a, b: a == b),
        ("lt", Float): _float_compare(lambda a, b: a < b),
        ("le", Float): _float_compare(lambda a, b: a <= b),
        ("length", String): _long_of(F.length),
        ("lower", String): _ascii(F.lower),
        ("upper", String): _ascii(F.upper),
        ("strip", String): _Act(lambda a: F.btrim(a, F.lit(WHITE_SPACE))),
        ("lstrip", String): _Act(lambda a: F.ltrim(a, F.lit(WHITE_SPACE))),
        ("rstrip", String): _Act(lambda a: F.rtrim(a, F.lit(WHITE_SPACE))),
        ("startswith", String): _Act(lambda a, b: a.startswith(b)),
        ("endswith", String): _Act(lambda a, b: a.endswith(b)),
        ("contains", String): _Act(lambda a, b: a.contains(b)),
        ("replace", String): _partial(_replace, 4, 2),
        ("concat", String): _Act(F.concat),
        ("to_str", Integer): _Act(lambda a: a.cast("string")),
        ("to_str", Boolean): _Act(lambda a: F.when(a, "True").when(~a, "False"), size=3, uses=2),
        ("to_str", String): _Act(_same),
        ("micros", Timestamp): _Act(_micros),
        ("add_micros", Timestamp): _partial(_add_micros, 10, 3),
        ("hour", Timestamp): _long_of(F.hour),
        ("minute", Timestamp): _long_of(F.minute),
        ("second", Timestamp): _long_of(F.second),
        ("microsecond", Timestamp): _Act(lambda a: F.pmod(_micros(a), _long(1_000_000)), size=3),
        ("date", Timestamp): _Act(lambda a: a.cast("date")),
    }
    for kind in (Boolean, Integer, String, Bytes, Timestamp, Date):
        acts["eq", kind] = _Act(lambda a, b: a == b)
        acts["lt", kind] = _Act(lambda a, b: a < b)
        acts["le", kind] = _Act(lambda a, b: a <= b)
    for kind in (Timestamp, Date):
        acts["year", kind] = _long_of(F.year)
        acts["month", kind] = _long_of(F.month)
        acts["day", kind] = _long_of(F.dayofmonth)
        acts["weekday", kind] = _long_of(F.weekday)
    return acts


_ACTS: Final = _acts()
