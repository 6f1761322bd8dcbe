"""Constants that are more than their plain value: times of other zones, and classes with methods of their own."""

from __future__ import annotations

import datetime as dt
import zoneinfo
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from tests.programs import compiled
from tests.tracing.support import LEAP, Color, is_traced
from tracetypes.algebra import least


class Later(dt.datetime):
    """Its own idea of text."""

    def isoformat(self, *how: Any, **more: Any) -> str:
        return "later"

    def __lt__(self, other: object) -> bool:
        return True


class Nowhere(dt.tzinfo):
    """A zone whose offset depends on what one asks for."""

    def __repr__(self) -> str:
        return "Nowhere()"

    def utcoffset(self, at: dt.datetime | None) -> dt.timedelta:
        return dt.timedelta(hours=0 if at is None or at.year < 2000 else 3)

    def tzname(self, at: dt.datetime | None) -> str:
        return "nowhere"

    def dst(self, at: dt.datetime | None) -> dt.timedelta:
        return dt.timedelta(0)


ZONES = [
    dt.UTC,
    None,
    dt.timezone(dt.timedelta(hours=5, minutes=30)),
    dt.timezone(dt.timedelta(0), "GMT"),
    zoneinfo.ZoneInfo("UTC"),
    zoneinfo.ZoneInfo("Europe/Paris"),
    Nowhere(),
]
CONSTANT_TIMES = [
    *(dt.datetime(2024, 2, 29, 22, 30, tzinfo=zone) for zone in ZONES),
    dt.datetime(2024, 2, 29, 22, 30, tzinfo=dt.UTC, fold=1),
    dt.datetime(2023, 10, 29, 2, 30, tzinfo=zoneinfo.ZoneInfo("Europe/Paris"), fold=1),
    Later(2024, 2, 29, tzinfo=dt.UTC),
]


@attrs.frozen
class Stamped:
    """Keeps a time."""

    at: dt.datetime


def uses_of(at: Any) -> dict[str, Callable[[Any], Any]]:
    """All ways to use a constant time."""
    table, stamps = {"a": at}, {"a": Stamped(at)}
    return {
        "itself": lambda v: at,
        "in a tuple": lambda v: (at, v.i),
        "in a record": lambda v: Stamped(at),
        "moved": lambda v: at + dt.timedelta(seconds=v.i),
        "moved back": lambda v: at - dt.timedelta(seconds=v.i),
        "moved to the right": lambda v: dt.timedelta(seconds=v.i) + at,
        "moved by nothing": lambda v: at + (v.ts - v.ts),
        "day": lambda v: (at + dt.timedelta(seconds=v.i)).date(),
        "hour": lambda v: (at + dt.timedelta(hours=v.i)).hour,
        "chosen": lambda v: v.ts if v.b else at,
        "decided": lambda v: (v.ts if v.s.split(",")[0] == "a" else at).isoformat(),
        "or": lambda v: (v.b and at) or v.ts,
        "max": lambda v: max(v.ts, at),
        "max of text": lambda v: max(v.ts, at).isoformat(),
        "min": lambda v: min(at, v.ts).tzinfo,
        "least": lambda v: least(v.ts, at),
        "sorted": lambda v: tuple(sorted([v.ts, at, v.tu])),
        "strftime": lambda v: max(v.ts, at).strftime("%Z"),
        "strftime with a zone": lambda v: (at + dt.timedelta(seconds=v.i)).strftime("%Z %z %H"),
        "less": lambda v: (v.ts < at, at <= v.ts, v.ts > at, at >= v.tu),
        "equal": lambda v: (v.ts == at, at != v.ts, v.ts in (at,), v.ts in [at, v.tu]),
        "in a set": lambda v: v.ts in {at},
        "difference": lambda v: (v.ts - at).total_seconds(),
        "difference to the right": lambda v: (at - v.ts).days,
        "of a list": lambda v: [at, at][v.i % 2],
        "of a table": lambda v: table.get(v.s),
        "of a table or": lambda v: table.get(v.s, v.ts),
        "of a table of records": lambda v: stamps[v.s].at if v.s in stamps else None,
        "text": lambda v: f"{at} {v.i}",
        "text of both": lambda v: f"{at:%Z} {v.ts:%Z}",
        "str.format": lambda v: "{} {}".format(at, v.i),  # noqa: UP032
        "percent": lambda v: "%s %s" % (at, v.i),  # noqa: UP031
        "timestamp": lambda v: at.timestamp() + v.i,
        "to its zone": lambda v: v.ts.astimezone(at.tzinfo).tzname() if at.tzinfo else None,
        "in its zone": lambda v: dt.datetime.fromtimestamp(v.i, at.tzinfo) if at.tzinfo else None,
        "replaced": lambda v: v.ts.replace(tzinfo=at.tzinfo),
        "replaced hour": lambda v: max(v.ts, at).replace(hour=3),
        "fold": lambda v: max(v.ts, at).fold,
        "zone": lambda v: (v.ts if v.b else at).tzinfo is at.tzinfo,
        "evolved": lambda v: attrs.evolve(v, ts=at).ts,
        "evolved record": lambda v: attrs.evolve(v, ts=at),
    }


@pytest.mark.parametrize("at", CONSTANT_TIMES, ids=repr)
def test_a_constant_time_keeps_its_zone_or_is_refused(at: Any) -> None:
    traced = {name for name, use in uses_of(at).items() if is_traced(use)}
    wanted = {"moved", "chosen", "max of text", "sorted", "of a table", "strftime"} if at.tzinfo is dt.UTC else set()
    assert traced >= (wanted if type(at) is dt.datetime and not at.fold else set())


def test_only_the_instant_of_a_constant_time_is_compared() -> None:
    at = dt.datetime(2024, 3, 1, 5, 29, 30, tzinfo=dt.timezone(dt.timedelta(hours=5, minutes=30)))
    assert at == LEAP
    assert is_traced(lambda v: (v.ts == at, v.ts < at, (v.ts - at).days, at in (v.tu, v.ts)))


# ------------------------------------------------------------ subclasses


OWN = {
    "__lt__": "lambda self, other: True",
    "__le__": "lambda self, other: False",
    "__gt__": "lambda self, other: True",
    "__ge__": "lambda self, other: False",
    "__eq__": "lambda self, other: True",
    "__ne__": "lambda self, other: True",
    "__bool__": "lambda self: False",
    "__len__": "lambda self: 3",
    "__contains__": "lambda self, part: True",
    "__format__": "lambda self, how: 'own'",
    "__str__": "lambda self: 'own'",
    "__add__": "lambda self, other: 'sum'",
    "__radd__": "lambda self, other: 'sum'",
    "__mod__": "lambda self, other: 'rest'",
    "__rmod__": "lambda self, other: 'rest'",
    "__getitem__": "lambda self, at: 'part'",
    "startswith": "lambda self, *what: True",
    "__iter__": "lambda self: iter('own')",
}
BASES = {
    "text": ("str, enum.Enum", "v.s"),
    "StrEnum": ("enum.StrEnum", "v.s"),
    "IntEnum": ("enum.IntEnum", "v.i"),
    "IntFlag": ("enum.IntFlag", "v.i"),
    "Enum": ("enum.Enum", "v.s"),
    "mixed": ("Mixin, str, enum.Enum", "v.s"),
    "str": ("str", "v.s"),
    "int": ("int", "v.i"),
    "float": ("float", "v.f"),
    "tuple": ("tuple", "(v.i, v.s)"),
}


USES = """
    (V < c, c < V) ; (V <= c, c <= V) ; (V > c, c > V) ; (V >= c, c >= V) ; (V == c, c == V) ; (V != c, c != V)
    V in (c,) ; V in [c, c] ; V in {c} ; V in {c: 1} ; V in (c, 'b', 2) ; c in [V] ; c in (V, 1) ; (V,) == (c,)
    (c, 1) < (V, 2) ; {c: 7}.get(V, 8) ; max(V, c) ; tuple(sorted([V, c])) ; [V, c].index(c) ; [c, V].count(V)
    1 if c and V else 2 ; f'{c}{V}' ; c + V ; V + c ; V % c ; c % V ; c.startswith(V) ; V.startswith(c) ; '-'.join([c, V])
    V.split(c)[0] ; c[V] ; V in c ; 'a'.replace('a', c) + V ; V is c ; V * c ; round(1.5, c) + V ; c ; len(c) + V
    bool(c) == V ; (c, V) ; c if V else V
"""


@pytest.mark.parametrize("base", BASES)
def test_a_constant_with_methods_of_its_own_is_not_what_it_inherits_from(base: str) -> None:
    bases, value = BASES[base]
    of = {"v.i": "1", "v.f": "1.0", "v.s": "'a'"}.get(value, "(1, 'a')")
    member = f"    A = {of}\n" if "enum" in bases else ""
    uses = [use.strip().replace("V", value) for line in USES.strip().splitlines() for use in line.split(";")]
    functions = "".join(f"        lambda v: {use},\n" for use in uses)
    for name, body in {"nothing": "", **OWN}.items():
        own = f"    {name} = {body}\n    __hash__ = object.__hash__\n" if body else ""
        inside, outside = ("", own) if base == "mixed" else (own, "")
        source = f"import enum\nclass Mixin:\n    pass\n{outside}class C({bases}):\n    pass\n{inside}{member}"
        for use in compiled(f"{source}\nc = C({of})\ndef program():\n    return [\n{functions}    ]\n", {})():
            is_traced(use)


def test_an_enum_that_compares_as_text_stays_traced() -> None:
    assert is_traced(lambda v: (v.s == Color.RED, v.s != Color.RED, v.s < Color.RED, v.s in (Color.RED, "b")))
