# ruff: noqa: RUF005, RUF015 - each line is a way of its own to meet a value
"""Methods that are not compiled again meet no value that is not known."""

from __future__ import annotations

import copy
import dataclasses
import functools
import operator
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import attrs
import pytest

from tests.programs import Row, Sub
from tests.tracing.support import is_traced


def by_absence(a: Any, b: Any) -> int:
    return 0 if a.x is None else 1


def absent(value: Any) -> Any:
    return value is None


@attrs.frozen(order=True)
class Keyed:
    """Compared by whether it is there."""

    x: int | None = attrs.field(eq=absent)


@attrs.frozen
class Comparing:
    """Compared with ``cmp_using``."""

    x: int | None = attrs.field(eq=attrs.cmp_using(eq=lambda a, b: (a is None) == (b is None), require_same_type=False))


@attrs.frozen
class Plain:
    """Nothing special."""

    x: int | None


@attrs.frozen(eq=False)
class Identical:
    """Equal to itself only."""

    x: int | None


@attrs.frozen(eq=False)
class Absent:
    """Methods of its own."""

    x: int | None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Absent) and (self.x is None) == (other.x is None)

    def __hash__(self) -> int:
        return 1 if self.x is None else 2

    def __lt__(self, other: Absent) -> bool:
        return self.x is None and other.x is not None

    def __bool__(self) -> bool:
        return self.x is None

    def __contains__(self, part: object) -> bool:
        return part is None

    def __getitem__(self, at: Any) -> Any:
        return at is None

    def __iter__(self) -> Iterator[Any]:
        yield self.x is None
        yield 1

    def keys(self) -> list[str]:
        return ["a"] if self.x is None else ["b"]

    def __repr__(self) -> str:
        return "none" if self.x is None else "some"

    def __add__(self, other: Any) -> Any:
        return self.x is None

    def __radd__(self, other: Any) -> Any:
        return self.x is None

    def __neg__(self) -> Any:
        return self.x is None

    def __abs__(self) -> Any:
        return self.x is None

    def __index__(self) -> int:
        return 0 if self.x is None else 1

    def __len__(self) -> int:
        return 0 if self.x is None else 1

    def __call__(self, *args: Any) -> Any:
        return self.x is None


@functools.total_ordering
@attrs.frozen(order=False)
class Ordered:
    """Half of its order is written."""

    x: int | None

    def __lt__(self, other: Ordered) -> bool:
        return self.x is None and other.x is not None


class Described:
    """A descriptor."""

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self.name = name

    def __get__(self, value: Any, owner: type[Any]) -> Any:
        return value is not None and value.x is None


class Setting(Described):
    """A descriptor of data."""

    def __set__(self, value: Any, to: Any) -> None:
        value.__dict__["kept"] = to is None


@dataclasses.dataclass(frozen=True, order=True)
class Descriptive:
    """Attributes that are computed in all ways."""

    x: int | None
    gone = Described()

    @functools.cached_property
    def kept(self) -> bool:
        return self.x is None

    @property
    def size(self) -> bool:
        return self.x is None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.x is None

    @classmethod
    def of(cls, x: int | None) -> bool:
        return x is None

    @staticmethod
    def there(x: int | None) -> bool:
        return x is not None


@dataclasses.dataclass(frozen=True)
class Inheriting(Descriptive):
    """Asks the class before."""

    @property
    def size(self) -> bool:
        return super().size

    def before(self) -> Any:
        return super().gone

    def kept_before(self) -> Any:
        return super().kept


@dataclasses.dataclass
class Written:
    """Looks at what it is set to."""

    x: Any

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value is None)


@dataclasses.dataclass
class Stored:
    """Its field is a descriptor."""

    x: Any = Setting()

    def __init_subclass__(cls) -> None:
        raise TypeError


class Making(type):
    """Makes its instances."""

    def __call__(cls, *args: Any) -> Any:
        return super().__call__(*(one is None for one in args))


@dataclasses.dataclass(frozen=True)
class Made(metaclass=Making):
    """Of a metaclass that looks at arguments."""

    x: Any


class Named(NamedTuple):
    """A tuple with an order of its own."""

    x: int | None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and (self.x is None) == (other.x is None)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return 1

    def __lt__(self, other: tuple[Any, ...]) -> bool:
        return self.x is None


@dataclasses.dataclass(frozen=True)
class Reading:
    """Says that it is of another class."""

    x: int | None

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return int


RECORDS: list[Any] = [
    Keyed,
    Comparing,
    Plain,
    Identical,
    Absent,
    Ordered,
    Descriptive,
    Inheriting,
    Named,
    Written,
    Stored,
    Made,
    Reading,
]


def uses_of_record(make: Any) -> list[Callable[[Any], Any]]:
    """Everything that Python does with objects of a class, of one that holds what may be None."""
    one: Callable[[Any], Any] = lambda v: make(v.oi)  # noqa: E731
    constant, empty = make(1), make(None)
    table = {1: constant, 0: empty}
    uses: list[Callable[[Any], Any]] = [
        lambda v: one(v) == constant,
        lambda v: constant == one(v),
        lambda v: one(v) != empty,
        lambda v: one(v) == make(v.i),
        lambda v: one(v) < constant,
        lambda v: constant <= one(v),
        lambda v: one(v) > make(v.i),
        lambda v: one(v) >= empty,
        lambda v: one(v) == v.oi,
        lambda v: v.i == one(v),
        lambda v: one(v) == (v.oi,),
        lambda v: (one(v), 1) == (constant, 1),
        lambda v: (one(v),) < (empty,),
        lambda v: [one(v)] != [empty],
        lambda v: {"a": one(v)} == {"a": constant},
        lambda v: Plain(one(v)) == Plain(constant),
        lambda v: one(v) in (constant, empty),
        lambda v: constant in [one(v)],
        lambda v: one(v) in {constant: 1},
        lambda v: {one(v): 1}.get(constant),
        lambda v: len({one(v), constant}),
        lambda v: len({x for x in (one(v), empty)}),
        lambda v: len(dict([(one(v), 1), (empty, 2)])),
        lambda v: len(set([one(v), constant])),
        lambda v: len(dict.fromkeys([one(v), constant])),
        lambda v: [constant, one(v)].index(one(v)),
        lambda v: [constant, empty].count(one(v)),
        lambda v: (empty, one(v)).index(constant),
        lambda v: max(one(v), constant) is constant,
        lambda v: sorted([one(v), constant, empty])[0] is empty,
        lambda v: sorted([3, v.i], key=lambda x: make(v.oi))[0],
        lambda v: 1 if one(v) else 2,
        lambda v: not one(v),
        lambda v: bool(one(v)),
        lambda v: None in one(v),
        lambda v: one(v)[None],
        lambda v: one(v)[0],
        lambda v: tuple(one(v)),
        lambda v: [*one(v)][0],
        lambda v: next(iter(one(v))),
        lambda v: sum(one(v)),
        lambda v: list(enumerate(one(v)))[0][1],
        lambda v: dict([one(v)]).get(True),
        lambda v: helper_of_keywords(**one(v)),
        lambda v: {**one(v)}.get("a"),
        lambda v: (lambda *a: a[0])(*one(v)),
        lambda v: len(one(v)),
        lambda v: one(v) + 1,
        lambda v: 1 + one(v),
        lambda v: [1] + one(v),
        lambda v: -one(v),
        lambda v: abs(one(v)),
        lambda v: [v.i, v.j][one(v)],
        lambda v: [1, 2][one(v)],
        lambda v: one(v)(1),
        lambda v: repr(one(v)),
        lambda v: f"{one(v)}",
        lambda v: "%s" % one(v),  # noqa: UP031
        lambda v: str(one(v)),
        lambda v: hash(one(v)),
        lambda v: one(v).x is None,
        lambda v: one(v).gone,
        lambda v: one(v).kept,
        lambda v: one(v).size,
        lambda v: one(v).other,
        lambda v: one(v).before(),
        lambda v: one(v).kept_before(),
        lambda v: one(v).of(v.oi),
        lambda v: one(v).there(v.oi),
        lambda v: isinstance(one(v), int),
        lambda v: type(one(v)) is make,
        lambda v: one(v).__class__ is int,
        lambda v: one(v).__eq__(constant),
        lambda v: one(v).__ne__(constant),
        lambda v: one(v).__lt__(constant),
        lambda v: one(v).__hash__(),
        lambda v: one(v).__repr__(),
        lambda v: one(v).__dict__["x"],
        lambda v: "x" in one(v).__dict__,
        lambda v: copy.copy(one(v)).x,
        lambda v: copy.deepcopy(one(v)).x,
        lambda v: attrs.asdict(one(v))["x"],
        lambda v: dataclasses.asdict(one(v))["x"],
        lambda v: attrs.evolve(one(v), x=3) == constant,
        lambda v: dataclasses.replace(one(v), x=None) == empty,
        lambda v: one(v)._asdict() == {"x": 1},
        lambda v: operator.eq(one(v), constant),
        lambda v: operator.attrgetter("x")(one(v)) is None,
        lambda v: operator.attrgetter("size")(one(v)),
        lambda v: operator.itemgetter(0)(one(v)),
        lambda v: operator.methodcaller("keys")(one(v))[0],
        lambda v: functools.reduce(operator.add, [one(v), 1]),
        lambda v: tuple(map(absent, [one(v).x])),
        lambda v: max([one(v), constant], key=functools.cmp_to_key(by_absence)) is constant,
        lambda v: table.get(v.i, empty).x,
        lambda v: table.get(v.i, empty) == constant,
        lambda v: one(v),
    ]

    @uses.append
    def changes(v: Row) -> Any:
        made = [constant]
        made += one(v)
        return len(made)

    @uses.append
    def removes(v: Row) -> Any:
        made = [constant, empty]
        made.remove(one(v))
        return made[0].x

    @uses.append
    def sorts(v: Row) -> Any:
        made = [constant, one(v)]
        made.sort()
        return made[0].x

    @uses.append
    def stores(v: Row) -> Any:
        made: dict[Any, int] = {}
        made[one(v)] = 1
        return made.get(empty)

    @uses.append
    def takes_apart(v: Row) -> Any:
        a, (b, c) = 1, one(v)
        return a, b, c

    @uses.append
    def takes_apart_in_a_loop(v: Row) -> Any:
        return [(a, b) for _, (a, b) in [(1, one(v))]][0]

    @uses.append
    def matches(v: Row) -> Any:
        match one(v):
            case Plain(x) | Keyed(x) | Absent(x) | Descriptive(x):
                return x
            case int():
                return 7
            case [x]:
                return x
            case _:
                pass
        match {"a": one(v)}:
            case {"a": made} if made:
                return 3
            case _:
                return 4

    return uses


def helper_of_keywords(**more: Any) -> Any:
    return "a" in more


@pytest.mark.parametrize("make", RECORDS, ids=lambda cls: str(cls.__name__))
def test_code_that_is_not_compiled_again_meets_no_value(make: Any) -> None:
    for use in uses_of_record(make):
        is_traced(use)


def test_generated_comparisons_stay_traced() -> None:
    assert is_traced(lambda v: (Plain(v.oi) == Plain(v.i), Plain(v.i) != Plain(1), (Plain(v.oi), v.i) == (Plain(1), 1)))
    assert is_traced(lambda v: (v.sub == v.osub, v.sub in (Sub(1, 2.0), v.osub)))
    assert is_traced(lambda v: (Descriptive(v.i) < Descriptive(v.j), Ordered(v.oi) >= Ordered(1)))
    assert is_traced(lambda v: (Descriptive(v.oi).size, Inheriting(v.oi).size, Descriptive(1).of(v.oi)))
