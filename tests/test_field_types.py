"""Decimals, unsigned integers, literals, enums and dates as fields: declared, read, computed with, and kept exactly."""

from __future__ import annotations

import datetime as dt
import decimal as decimal_module
import enum
import json
import random
from collections.abc import Callable, Sequence
from decimal import Context, Decimal, localcontext
from typing import Annotated, Any, Literal, NewType

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from tests.strategies import Hue, Money, Step, Word, values
from tracetypes import (
    DataError,
    Dataflow,
    OpKeyedOrdered,
    U,
    UInt64,
    Unit,
    UsageError,
    check,
    decimal,
    desc,
    every,
    sort,
    uint64,
)
from tracetypes import stdlib as ts
from tracetypes.canonical import canonical
from tracetypes.compiler.columns.arrow import array
from tracetypes.compiler.columns.column import inputs_of
from tracetypes.compiler.columns.conversion import from_arrow, to_arrow, values_of
from tracetypes.compiler.columns.evaluation import return_values
from tracetypes.compiler.plan.field_types import fields_of, fields_of_type
from tracetypes.compiler.runtime.eviction import indistinguishable
from tracetypes.compiler.runtime.flows import fit
from tracetypes.compiler.runtime.stateless import exactly
from tracetypes.compiler.tracing.expr import Undefined
from tracetypes.compiler.tracing.tracer import Untraceable, trace_function
from tracetypes.conformance import conformer
from tracetypes.formats import JsonLines, Layout
from tracetypes.parsing import text_parser
from tracetypes.plain_data import from_plain, from_text, to_plain
from tracetypes.records import DecimalOf, EnumOf, Integer, LiteralOf, Mismatch, Optional, String, UnitValue, Unsigned
from tracetypes.schemas import schema_of
from tracetypes.stdlib.orders import order_of
from tracetypes.testing import check_deployments

# ------------------------------------------------------------------------------------------------- schemas


class Mixed(enum.Enum):
    """Values of two types."""

    A = 1
    B = "b"


class Nobody(enum.Enum):
    """No members."""


class Bits(enum.IntFlag):
    """Flags."""

    A = 1


class Same(enum.Enum):
    """Members with one value, which the class says itself."""

    A = "a"
    B = "b"

    @property
    def value(self) -> str:
        return "c"


@attrs.frozen
class Shadowed:
    """The module of the same name is no function."""

    price: Annotated[Decimal, decimal_module(18, 2)]


@attrs.frozen
class TooWide:
    """Written as text, so that it is evaluated by a check."""

    price: Annotated[Decimal, decimal(39, 2)]


Euro = NewType("Euro", Decimal)


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (UInt64, Unsigned()),
        (Annotated[int, uint64], Unsigned()),
        (Annotated[int, "seconds"], Integer()),
        (Money, DecimalOf(18, 2)),
        (Annotated[Decimal, "euro", decimal(5, 0)] | None, Optional(DecimalOf(5, 0))),
        (Literal["b", "a"], LiteralOf(String(), ("b", "a"))),
        (Literal[1, 2, 1], LiteralOf(Integer(), (1, 2))),
        (Literal["a", None], Optional(LiteralOf(String(), ("a",)))),
        (Hue, EnumOf(Hue, String())),
        (Step | None, Optional(EnumOf(Step, Integer()))),
        (Word, EnumOf(Word, String())),
    ],
)
def test_annotations_of_fields(annotation: Any, schema: object) -> None:
    assert schema_of(annotation) == schema


@pytest.mark.parametrize(
    ("annotation", "why"),
    [
        (Decimal, "it does not say how many digits it has; fix: declare Annotated[Decimal, decimal(18, 2)]"),
        (Euro, "it does not say how many digits it has"),
        (Annotated[float, decimal(5, 2)], "decimal(5, 2) is said of Decimal, once"),
        (Annotated[int, decimal(5, 2)], "declare Annotated[Decimal, decimal(5, 2)]"),
        (Annotated[Decimal, uint64], "declare Annotated[int, uint64]"),
        (Annotated[int | None, uint64], "Annotated[...] | None where there may be none"),
        (Literal["a", 1], "its values are not all texts, and not all integers"),
        (Literal[True], "its values are not all texts, and not all integers"),
        (Literal[2**63], "its values are not all texts, and not all integers"),
        (Literal["\ud800"], "its values are not all texts, and not all integers"),
        (Mixed, "the values of its members are not all texts"),
        (Nobody, "the values of its members are not all texts"),
        (Same, "two members have one value"),
        (Shadowed, "an annotation cannot be resolved ('module' object is not callable)"),
        (TooWide, "an annotation cannot be resolved (TT115 decimal was given 39 digits"),
        (Bits, "flags stand for any number of members; fix: use int"),
    ],
)
def test_TT106_annotations_without_a_schema_say_what_to_write(annotation: Any, why: str) -> None:
    with pytest.raises(DataError) as caught:
        schema_of(annotation)
    assert caught.value.code == "TT106"
    assert why in f"{caught.value.message}; fix: {caught.value.fix}"


@pytest.mark.parametrize("digits", [(0, 0), (39, 2), (5, 6), (5, -1), (5.0, 1), (True, 1)])
def test_TT115_decimals_have_1_to_38_digits(digits: tuple[Any, Any]) -> None:
    with pytest.raises(UsageError, match="TT115 decimal was given"):
        decimal(*digits)


# -------------------------------------------------------------------------------------------------- values

CENTS = schema_of(Money)


@pytest.mark.parametrize(
    ("value", "fitted"),
    [
        ("1", "1.00"),
        ("1.5000", "1.50"),
        ("-0", "0.00"),
        ("1E+3", "1000.00"),
        ("9999999999999999.99", "9999999999999999.99"),
        ("-9999999999999999.990", "-9999999999999999.99"),
        ("0E+99", "0.00"),
    ],
)
def test_decimals_get_the_digits_of_their_type(value: str, fitted: str) -> None:
    made = conformer(CENTS)(Decimal(value))
    assert str(made) == fitted
    assert conformer(CENTS)(made) is made


@pytest.mark.parametrize("value", ["1.005", "10000000000000000", "NaN", "sNaN", "Infinity", "1E-3", "1E+99", "9" * 60])
def test_decimals_are_never_rounded(value: str) -> None:
    with pytest.raises(Mismatch, match="expected Decimal of 18 digits, 2 of them after the point"):
        conformer(CENTS)(Decimal(value))


@pytest.mark.parametrize("value", [1, 1.0, "1.00", True, None])
def test_only_decimals_are_decimals(value: object) -> None:
    with pytest.raises(Mismatch):
        conformer(CENTS)(value)


@pytest.mark.parametrize(("annotation", "value"), [(UInt64, -1), (UInt64, 2**64), (UInt64, True), (UInt64, 1.0)])
def test_unsigned_integers_are_from_0_to_64_bits(annotation: Any, value: object) -> None:
    with pytest.raises(Mismatch):
        conformer(schema_of(annotation))(value)


@pytest.mark.parametrize(
    ("annotation", "value", "expected"),
    [
        (Literal["a", "b"], "c", "is 'c', expected Literal['a', 'b']"),
        (Literal[1, 2], 3, "is 3, expected Literal[1, 2]"),
        (Literal[1, 2], True, "is True, expected int"),
        (Hue, "red", "is 'red', expected Hue ('red', 'blue', 'blau, \"tief\"')"),
        (Step, 1, "is 1, expected Step (1, -1, 4611686018427387904)"),
    ],
)
def test_a_value_outside_is_named_with_those_inside(annotation: Any, value: object, expected: str) -> None:
    with pytest.raises(Mismatch) as caught:
        conformer(schema_of(annotation))(value)
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", "1.00"), ("+1.5", "1.50"), (".5", "0.50"), ("5.", "5.00"), ("1e2", "100.00"), ("-0.00", "0.00")],
)
def test_texts_of_decimals(text: str, value: str) -> None:
    assert str(from_text(CENTS, text)) == str(from_plain(CENTS, text)) == value


@pytest.mark.parametrize(
    "text", ["", " 1", "1 ", "1_000", "0x1", "1,5", "NaN", "inf", "\u0661", "1e99999", "1.005", "--1"]
)
def test_texts_that_are_no_decimals(text: str) -> None:
    with pytest.raises(Mismatch):
        from_text(CENTS, text)


@attrs.frozen
class Paid:
    money: Money
    wide: Annotated[Decimal, decimal(38, 20)] | None
    level: float


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ('{"money": 0.1, "wide": 12345678901234567.12345678901234567890, "level": 0.1}', ("0.10", True, 0.1)),
        ('{"money": "0.1", "wide": "12345678901234567.12345678901234567890", "level": 1}', ("0.10", True, 1.0)),
        ('{"money": 7, "wide": null, "level": 1e-400}', ("7.00", False, 0.0)),
        ('{"money": 9999999999999999.99, "level": "NaN"}', ("9999999999999999.99", False, None)),
    ],
)
def test_numbers_of_JSON_keep_their_digits(line: str, value: tuple[str, bool, float | None]) -> None:
    paid: Paid = text_parser(JsonLines(), Layout(UnitValue(), schema_of(Paid)), None)(line)[1]
    assert str(paid.money) == value[0]
    assert paid.wide == (Decimal("12345678901234567.12345678901234567890") if value[1] else None)
    assert paid.level == value[2] or value[2] is None
    assert type(paid.level) is float


def test_a_float_is_no_decimal() -> None:
    """Its digits are not those that somebody wrote."""
    with pytest.raises(Mismatch, match=r"is 0\.1, expected Decimal"):
        from_plain(CENTS, 0.1)


@given(st.data())
def test_what_is_written_as_text_is_read_again(data: DataObject) -> None:
    schema = data.draw(st.sampled_from([schema_of(one) for one in (UInt64, Money, Hue, Step, Word, Literal["a", "é"])]))
    value = data.draw(values(schema))
    plain = to_plain(schema, value)
    assert from_plain(schema, json.loads(json.dumps(plain))) is not None
    assert from_text(schema, str(plain)) == value


def test_members_are_in_the_order_of_their_values() -> None:
    order = {cls: sorted(cls, key=canonical(schema_of(cls))) for cls in (Hue, Step, Word)}
    assert order == {
        Hue: [Hue.DEEP, Hue.BLUE, Hue.RED],
        Step: [Step.DOWN, Step.UP, Step.FAR],
        Word: [Word.YES, Word.NO],
    }
    assert sorted(Hue, key=order_of) == order[Hue]


def wide_of(text: str) -> Annotated[Decimal, decimal(38, 0)]:
    return Decimal(text)


def test_sums_of_decimals_are_exact_in_any_context() -> None:
    nines = "9" * 37
    with localcontext(Context(prec=3)):
        made = ts.evaluate(ts.sum(of=wide_of), [nines, "1", nines, "-1"])
    assert made == Decimal(2 * int(nines))


def test_decimals_of_other_digits_are_equal_and_yet_another_state() -> None:
    one, other = Decimal("1.0"), Decimal("1.00")
    assert ts.evaluate(ts.count_distinct(of=lambda value: value), [one, other, Decimal(2)]) == 2
    assert not indistinguishable(one, other)
    assert indistinguishable(Decimal("1.0"), Decimal("1.0"))


Small = enum.Enum("Small", {"RED": "red"})
Large = enum.Enum("Large", {"RED": "red", "BLUE": "blue"})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Money, Annotated[Decimal, decimal(18, 3)]),
        (int, UInt64),
        (Literal["a"], Literal["a", "b"]),
        (Literal[1], int),
        (str, Hue),
        (Small, Large),
    ],
)
def test_what_a_checkpoint_knows_of_types(one: Any, other: Any) -> None:
    """Another precision, or other values, are another type."""
    assert str(fields_of(schema_of(one))).replace("Small", "Large") != str(fields_of(schema_of(other)))
    assert str(fields_of_type(list[one])).replace("Small", "Large") != str(fields_of_type(list[other]))
    assert fields_of(schema_of(Literal["a", "b"])) == fields_of(schema_of(Literal["b", "a"]))


# ----------------------------------------------------------------------------------------- programs of all types


@attrs.frozen
class Sale:
    """A field of each type."""

    ts: int
    size: UInt64
    money: Money
    side: Literal["left", "right"]
    number: Literal[1, 2] | None
    hue: Hue
    step: Step
    word: Word | None
    day: dt.date


SALE = schema_of(Sale)


POOLS: dict[str, Sequence[Any]] = {
    "ts": range(60),
    "size": (0, 1, 2**63 - 1, 2**63, 2**64 - 1),
    "money": tuple(map(Decimal, ("0.00", "0.10", "-0.20", "9999999999999999.99", "-9999999999999999.99"))),
    "side": ("left", "right"),
    "number": (1, 2, None),
    "hue": list(Hue),
    "step": list(Step),
    "word": (None, *Word),
    "day": (dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(9999, 12, 31)),
}
"""Values that meet again, and the largest ones."""


def sales() -> st.SearchStrategy[list[Sale]]:
    """Rows in some order."""
    some = st.builds(Sale, **{name: st.sampled_from(pool) for name, pool in POOLS.items()})
    return st.lists(some, min_size=1, max_size=25)


CHANCE = random.Random(18)
ROWS = [Sale(**{name: CHANCE.choice(pool) for name, pool in POOLS.items()}) for _ in range(300)]


Wide = Annotated[Decimal, decimal(38, 2)]
"""A sum of money."""


def money_of(sale: Sale) -> Wide:
    return sale.money


def half_of(sale: Sale) -> UInt64:
    return sale.size // 32


@attrs.frozen
class Totals:
    """What is left of a window."""

    number: int
    money: Wide
    sizes: UInt64
    least: Money
    largest: UInt64
    last: Sale


def least_of(sale: Sale) -> Money:
    return sale.money


def size_of(sale: Sale) -> UInt64:
    return sale.size


def windows(key: Callable[[Sale], Any], to: Any) -> Dataflow:
    flow = Dataflow("windows")
    rows = flow.source("sales", U[Unit, Sale], markers=every(seconds=10, time=lambda s: s.ts, delay=30))
    keyed = rows.through(ts.key_by(lambda _, sale: key(sale), to=to))
    made = keyed.through(
        ts.aggregate(
            ts.struct(
                Totals,
                number=ts.count(where=lambda s: s.hue == Hue.RED or s.side == "left"),
                money=ts.sum(of=money_of),
                sizes=ts.sum(of=half_of),
                least=ts.min(of=least_of),
                largest=ts.max(of=size_of),
                last=ts.last(by=lambda s: (s.money, desc(s.step))),
            )
        )
    )
    flow.sink("out", made)
    return flow


@attrs.frozen
class Noted:
    """Members and literals that an operator makes."""

    hue: Hue
    side: Literal["left", "right"]
    side_or_none: Literal["right"] | None
    step: Step
    half: Annotated[Decimal, decimal(20, 3)]
    same: Sale


def noted(sale: Sale) -> Noted:
    red = sale.hue is Hue.RED or sale.word == "yes" or sale.step < Step.UP
    return Noted(
        Hue.DEEP if red else sale.hue,
        "right" if sale.side == "left" else "left",
        "right" if sale.hue in (Hue.RED, Hue.BLUE) else None,
        max(sale.step, Step.UP),
        sale.money * Decimal("0.5") if abs(sale.money) < 10 else Decimal(0),
        sale,
    )


def some(key: Unit, sale: Sale) -> bool:
    return sale.hue != Hue.RED and sale.number in (1, None)


@attrs.frozen
class Balance(OpKeyedOrdered[Hue, Sale, Wide, Decimal]):
    """A running sum, whose state is a decimal."""

    def initial_state(self) -> Decimal:
        return Decimal(0)

    def on_item(self, state: Decimal, key: Hue, value: Sale, emit: Callable[[Wide], None]) -> Decimal:
        emit(state + value.money)
        return state + value.money


def source_of(flow: Dataflow, name: str = "sales") -> Any:
    return flow.source(name, U[Unit, Sale], markers=every(seconds=10, time=lambda s: s.ts, delay=30))


def stateless() -> Dataflow:
    flow = Dataflow("stateless")
    rows = source_of(flow)
    flow.sink("noted", rows.through(ts.map_values(noted)))
    flow.sink("some", rows.through(ts.filter(some)))
    return flow


@attrs.frozen
class Painted:
    """Members that an operator makes, which columns can tell."""

    hue: Hue
    other: Hue | None
    ts: int


def painted(sale: Sale) -> Painted:
    match sale.hue:
        case Hue.RED:
            return Painted(Hue.DEEP, None, sale.ts)
        case Hue.BLUE if sale.side == "left":
            return Painted(sale.hue, Hue.RED, sale.ts)
    return Painted(Hue.BLUE, sale.hue, sale.ts)


def hue_of(key: Unit, sale: Sale) -> Hue:
    return Hue.RED if sale.side == "left" else Hue.DEEP


def members() -> Dataflow:
    flow = Dataflow("members")
    keyed = source_of(flow).through(ts.key_by(hue_of))
    flow.sink("painted", keyed.through(ts.map_values(painted)))
    return flow


def ordered() -> Dataflow:
    flow = Dataflow("ordered")
    rows = flow.source("sales", U[Hue, Sale], key=lambda s: s.hue, markers=every(seconds=10, time=lambda s: s.ts))
    lines = rows.through(sort(by=lambda s: (desc(s.money), s.size, s.step, s.word or "", s.day)))
    flow.sink("balance", lines.through(Balance()))
    flow.sink("pairs", lines.through(ts.pairwise(lambda a, b: b.money == a.money, to=bool)))
    flow.sink("distinct", rows.through(ts.aggregate(ts.count_distinct(of=lambda s: (s.money, s.hue, s.size)))))
    flow.sink("top", rows.through(ts.aggregate(ts.top(2, by=lambda s: s.money, ties=True))))
    flow.sink("all", rows.through(ts.aggregate(ts.collect(by=lambda s: s.size))))
    flow.sink("running", rows.through(ts.running(ts.sum(of=money_of))))
    return flow


def joined() -> Dataflow:
    flow = Dataflow("joined")
    marks = every(seconds=10, time=lambda s: s.ts, delay=30)
    left = flow.source("sales", U[Money, Sale], key=lambda s: s.money, markers=marks)
    right = flow.source("more", U[Money, Sale], key=lambda s: s.money, markers=marks)
    flow.sink("window", ts.window_join(left, right, size=20))
    flow.sink("equal", ts.equi_join(left, right, blocks=3))
    return flow


def by(name: str) -> Callable[[], Dataflow]:
    keys: dict[str, Any] = {
        "size": UInt64,
        "money": Money,
        "side": Literal["left", "right"],
        "hue": Hue,
        "step": Step,
        "day": dt.date,
        "sale": Sale,
    }
    return lambda: windows(lambda s: s if name == "sale" else getattr(s, name), keys[name])


FLOWS: dict[str, Callable[[], Dataflow]] = {
    **{f"by {name}": by(name) for name in ("size", "money", "side", "hue", "step", "day", "sale")},
    "stateless": stateless,
    "members": members,
    "ordered": ordered,
    "joined": joined,
}


OFTEN = ("by hue", "by money", "stateless", "members", "ordered")


@pytest.mark.parametrize(
    ("name", "examples"),
    [*((name, 12) for name in OFTEN), *(pytest.param(name, 60, marks=pytest.mark.nightly) for name in FLOWS)],
)
def test_deployments_give_the_answer_of_the_definition(name: str, examples: int) -> None:
    flow = FLOWS[name]()
    rows = {source.name: sales() for source in check(flow).graph.sources}
    assert check_deployments(flow, rows=rows, max_examples=examples) > examples // 3


# ------------------------------------------------------------------------------------------------- columns

TRACED: list[Callable[[Sale], Any]] = [
    lambda s: s.hue == Hue.RED,
    lambda s: s.hue != Hue.CRIMSON,
    lambda s: Hue.BLUE is s.hue,
    lambda s: s.hue is not Hue.BLUE,
    lambda s: s.hue is Small.RED,  # type: ignore[comparison-overlap]
    lambda s: s.hue == "red",  # type: ignore[comparison-overlap]
    lambda s: s.hue is None,
    lambda s: s.hue in (Hue.RED, Hue.BLUE),
    lambda s: s.hue in {Hue.RED, Hue.DEEP},
    lambda s: s.hue.value + "!",
    lambda s: s.step == Step.UP,
    lambda s: s.step == 1,
    lambda s: s.step < 2,
    lambda s: s.step > Step.DOWN,
    lambda s: s.step >= 0.5,
    lambda s: s.step.value + 1,
    lambda s: s.step == s.ts,
    lambda s: s.word == "yes",
    lambda s: s.word is Word.NO,
    lambda s: s.word is not None and s.word > "f",
    lambda s: s.word in ("yes", None),
    lambda s: s.side == "left",
    lambda s: s.side.upper(),
    lambda s: s.side + s.side,
    lambda s: s.number is None or s.number > 1,
    lambda s: -(s.number or 0),
    lambda s: s.side in ("left", "up"),
    lambda s: s.word if s.hue is Hue.RED else None,
    lambda s: s.money,
    lambda s: (s.hue, s.size, s.word),
    lambda s: Hue.BLUE,
    lambda s: Hue.DEEP if s.hue is Hue.RED else s.hue,
    lambda s: None if s.step < 2 else Hue.RED,
    lambda s: (Hue.DEEP if s.side == "left" else Hue.BLUE, s.ts, None),
]
"""What must be columns, and right."""

IN_PYTHON: list[tuple[Callable[[Sale], Any], str]] = [
    (lambda s: s.money + s.money, "uses + on a Decimal"),
    (lambda s: s.money * 2, "Decimal"),
    (lambda s: s.money > 0, "Decimal"),
    (lambda s: s.money == Decimal("0.10"), "Decimal"),
    (lambda s: -s.money, "Decimal"),
    (lambda s: round(s.money), "Decimal"),
    (lambda s: f"{s.money}", "Decimal"),
    (lambda s: str(s.size), "uint64"),
    (lambda s: s.size + 1, "uint64"),
    (lambda s: s.size < 2**63, "uint64"),
    (lambda s: s.size % 2, "uint64"),
    (lambda s: float(s.size), "uint64"),
    (lambda s: s.hue.name, "Hue"),
    (lambda s: bool(s.hue), "Hue"),
    (lambda s: s.step + 1, "Step"),
    (lambda s: {Hue.RED: 1}.get(s.hue), "Hue"),
    (lambda s: hash(s.step), "calls hash"),
]
"""What columns cannot say, with the word of the reason that names the type."""


ODD = (-1, 2**64, True, "up", "red", Small.RED, Decimal(1), Decimal("0.001"), Decimal("-0.00"), Decimal("NaN"), None)


@pytest.mark.parametrize("name", POOLS)
def test_what_is_taken_as_it_is_fits_as_it_is(name: str) -> None:
    """What Python emits in bulk is not looked at one by one, if all of it is exactly of the type."""
    schema, fitting = dict(SALE.fields)[name], list(POOLS[name])  # type: ignore[union-attr]
    assert exactly(schema, fitting)
    for odd in ODD:
        if exactly(schema, [*fitting, odd]):
            assert repr(conformer(schema)(odd)) == repr(odd)


def columns_say(function: Callable[[Sale], Any], rows: list[Sale]) -> list[Any]:
    tree = trace_function(function, SALE)
    columns = from_arrow(SALE, array(SALE, rows))
    return values_of(return_values(tree, inputs_of({"value": columns}), len(rows)), len(rows))


@pytest.mark.parametrize("number", range(len(TRACED)))
def test_columns_mean_what_Python_means(number: int) -> None:
    function = TRACED[number]

    for count in (0, 1, len(ROWS)):
        made = columns_say(function, ROWS[:count])
        assert list(map(repr, made)) == [repr(function(row)) for row in ROWS[:count]]


@pytest.mark.parametrize("number", range(len(IN_PYTHON)))
def test_what_columns_cannot_say_is_not_traced_and_says_why(number: int) -> None:
    function, word = IN_PYTHON[number]
    with pytest.raises(Untraceable) as caught:
        trace_function(function, SALE)
    assert word in str(caught.value)


def test_a_literal_that_an_expression_does_not_keep_to_is_left_to_Python() -> None:
    """The column of a text is no column of a literal, unless all of it is."""
    rows = array(String(), ["left", "up"])
    literal = schema_of(Literal["left", "right"])
    with pytest.raises(Undefined):
        to_arrow(literal, from_arrow(String(), rows), 2)
    assert to_arrow(literal, from_arrow(String(), rows[:1]), 1).to_pylist() == ["left"]
    some = array(Optional(String()), [None, "left"])
    assert to_arrow(Optional(literal), from_arrow(Optional(String()), some), 2).to_pylist() == [None, "left"]
    with pytest.raises(Undefined):
        fit(Optional(literal), from_arrow(Optional(String()), array(Optional(String()), [None, "up"])))
