"""Classes of records whose constructors change what they are given: whoever calls one again is found out."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import attrs

__all__ = ["CLASSES", "Holder", "Plain"]


def _up(number: int) -> int:
    return number + 1


@attrs.frozen
class Plain:
    n: int
    ts: int


@attrs.frozen
class Converted:
    n: int = attrs.field(converter=_up)
    ts: int = 0


@attrs.frozen(slots=False, kw_only=True)
class ConvertedInADictionary:
    n: int = attrs.field(converter=_up)
    ts: int = 0


@attrs.frozen(cache_hash=True)
class Cached:
    n: int = attrs.field(converter=_up)
    ts: int = 0


@attrs.frozen(slots=False, cache_hash=True)
class CachedInADictionary:
    n: int = attrs.field(converter=_up)
    ts: int = 0


@attrs.frozen
class Hooked:
    n: int
    ts: int = attrs.field(validator=attrs.validators.instance_of(int))

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "n", self.n + 1)


@attrs.frozen
class Inherits(Plain):
    more: int = attrs.field(default=0, converter=_up)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "n", self.n + 1)


@attrs.frozen(slots=False)
class InheritsSlots(Converted):
    """One field in a slot, and one in the dictionary."""

    more: int = attrs.field(default=0, converter=_up)


@attrs.frozen(init=False)
class ByHand:
    n: int
    ts: int

    def __init__(self, n: int, ts: int) -> None:
        self.__attrs_init__(n + 1, ts)


class NoAttrsOfItsOwn(Plain):
    def __init__(self, n: int, ts: int) -> None:
        super().__init__(n + 1, ts)


@dataclasses.dataclass(frozen=True)
class Data:
    n: int
    ts: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", self.n + 1)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SlottedData:
    n: int
    ts: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", self.n + 1)


@dataclasses.dataclass(frozen=True)
class Scaled:
    n: int
    ts: int
    by: dataclasses.InitVar[int] = 1

    def __post_init__(self, by: int) -> None:
        object.__setattr__(self, "n", self.n + by)


@dataclasses.dataclass(frozen=True)
class DataByHand:
    n: int
    ts: int

    def __init__(self, n: int, ts: int) -> None:
        object.__setattr__(self, "n", n + 1)
        object.__setattr__(self, "ts", ts)


class _Pair(NamedTuple):
    n: int
    ts: int


class Tuple(_Pair):
    def __new__(cls, n: int, ts: int) -> Tuple:
        return super().__new__(cls, n + 1, ts)


class Reduces(_Pair):
    """It is pickled by its constructor."""

    __slots__ = ()

    def __new__(cls, n: int, ts: int) -> Reduces:
        return super().__new__(cls, n + 1, ts)

    def __reduce__(self) -> tuple[Any, ...]:
        return Reduces, tuple(self)


class Counts(type):
    def __call__(cls, n: int, ts: int) -> Any:
        return super().__call__(n + 1, ts)


@dataclasses.dataclass(frozen=True)
class OfAMetaclass(metaclass=Counts):
    n: int
    ts: int


@attrs.frozen
class Holder:
    """A record in a record."""

    n: int = attrs.field(converter=_up)
    ts: int
    inside: tuple[Converted, ...] = ()
    perhaps: Tuple | None = None


CLASSES: tuple[Any, ...] = (
    *(Plain, Converted, ConvertedInADictionary, Cached, CachedInADictionary, Hooked, Inherits, InheritsSlots, ByHand),
    *(NoAttrsOfItsOwn, Data, SlottedData, Scaled, DataByHand, Tuple, Reduces, OfAMetaclass, Holder),
)
