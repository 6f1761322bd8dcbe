"""Rows for random programs: tame ones, for which most programs have an answer, and ones of edge values; always the same."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Sequence
from typing import Any, Final

from tests.grammar.prelude import Pair, Row, Spot, Sub
from tracetypes.records import INT_MAX, INT_MIN

__all__ = ["EDGES", "TABLE", "TAME", "rows_of"]

_TEXTS: Final = ("", "a", "b", " b", "b ", "ab", "b,c", "a,b,c", ",", " a ", "Aé", "ß", "aab", "😀x", "12", "view")
_LEAP: Final = dt.datetime(2024, 2, 29, tzinfo=dt.UTC)

TAME: Final[dict[str, Sequence[Any]]] = {
    "int": (0, 1, 2, 3, -1, -5, 7, 12, 4, 100),
    "float": (0.5, 1.0, -1.5, 2.0, 3.25, -7.0, 0.0, 100.0),
    "text": _TEXTS,
    "bool": (False, True),
    "time": tuple(_LEAP + dt.timedelta(seconds=s) for s in (0, -1, 1, 3600, 86_399, 19_800, -40_000, 7)),
    "day": (dt.date(2024, 2, 29), dt.date(2024, 2, 28), dt.date(2023, 12, 31), dt.date(1970, 1, 1)),
}
"""Values for which little leaves its type."""

EDGES: Final[dict[str, Sequence[Any]]] = {
    "int": (*TAME["int"], 2**53, 2**53 + 1, -(2**53) - 1, INT_MAX, INT_MIN, INT_MAX - 1, 2**31, 10**12),
    "float": (
        *(*TAME["float"], -0.0, math.nan, math.inf, -math.inf, 5e-324, 1.7976931348623157e308, 2.0**53, 2.0**63, 0.1),
        *(1e16, -2.5),
    ),
    "text": (*_TEXTS, "\0", "\u2003é\u3000", "İ", "ﬁ", "ǅ", "z" * 40, "\n", "A😀B,😀", "١٢"),
    "bool": (False, True),
    "time": (
        *(*TAME["time"], dt.datetime(1970, 1, 1, tzinfo=dt.UTC), dt.datetime(2000, 12, 31, 23, 0, 1, tzinfo=dt.UTC)),
        dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC),
        dt.datetime(1, 1, 1, tzinfo=dt.UTC),
        dt.datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC),
        *(dt.datetime(1900, 3, 1, tzinfo=dt.UTC), dt.datetime(2024, 10, 27, 0, 30, tzinfo=dt.UTC)),
    ),
    "day": (*TAME["day"], dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1900, 2, 28), dt.date(2000, 2, 29)),
}
"""These and what lies at the edges of each type."""


def rows_of(count: int, seed: int, *, edges: bool) -> list[Row]:
    """Rows of such values. Of two columns of a type, one often has the value of the other."""
    chance = random.Random(seed)
    made: list[Row] = []

    def one(kind: str) -> Any:
        return chance.choice((EDGES if edges and chance.random() < 0.4 else TAME)[kind])

    def maybe(value: Any) -> Any:
        return None if chance.random() < 0.35 else value

    for number in range(count):
        i, f, s, ts = one("int"), one("float"), one("text"), one("time")
        sub = Sub(chance.choice((i, one("int"))), maybe(one("float")))
        made.append(
            Row(
                i=i,
                j=chance.choice((i, one("int"), one("int"))),
                f=f,
                g=chance.choice((f, one("float"))),
                s=s,
                t=chance.choice((s, one("text"), one("text"))),
                b=one("bool"),
                c=one("bool"),
                oi=maybe(chance.choice((i, one("int")))),
                of=maybe(one("float")),
                ts=ts,
                tu=chance.choice((ts, one("time"))),
                day=chance.choice((ts.date(), one("day"))),
                sub=sub,
                osub=maybe(chance.choice((sub, Sub(one("int"), maybe(one("float")))))),
                os=maybe(one("text")),
                ob=maybe(one("bool")),
                ots=maybe(one("time")),
                oday=maybe(one("day")),
                pair=Pair(one("int"), maybe(one("text"))),
                spot=Spot(one("int"), one("float")),
                raw=chance.choice((b"", b"x", b"\xff")),
                many=tuple(one("int") for _ in range(chance.randint(0, 3))),
                number=number,
            )
        )
    return made


TABLE: Final[Sequence[Row]] = (*rows_of(18, 5, edges=False), *rows_of(14, 6, edges=True))
"""What programs are run on that take one row after the other."""
