"""Tasks of RIoTBench that read, clean and write messages: see ``examples/riotbench.py``."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import TypeAlias

import attrs

from examples.riotbench_sources import Field, Message
from tracetypes import Emit, EmitValue, OpKeyedOrdered, OpStateless, Unit

__all__ = [
    "Annotate",
    "Bloom",
    "BloomFilterCheck",
    "CsvToSenML",
    "Interpolation",
    "Join",
    "Line",
    "Observation",
    "RangeFilter",
    "Recent",
    "SenMLParse",
    "Statistic",
]


@attrs.frozen
class Observation:
    """A number of a message. ``id``, ``at``: of the message, and its second; ``place``: which of its numbers this is;
    ``message``: all of them."""

    id: int
    at: int
    kind: str
    place: int
    value: float | None
    message: tuple[float, ...]


@attrs.frozen
class Statistic:
    """A number that a task has computed. ``task``: which; ``about``: the kind of the observations; ``actual``: what was observed
    when it was computed."""

    id: int
    at: int
    task: str
    about: str
    value: float
    actual: float


@attrs.frozen
class Line:
    """A text of a message: CSV, SenML or a picture."""

    id: int
    at: int
    text: str


@attrs.frozen
class SenMLParse(OpStateless[Unit, Message, str, Observation]):
    """An observation for each number of a message, by its sensor."""

    sensor: str
    kinds: tuple[str, ...]

    def on_item(self, key: Unit, value: Message, emit: Emit[str, Observation]) -> None:
        texts = {one["n"]: one["sv"] if "sv" in one else one["v"] for one in json.loads(value.senml)["e"]}
        numbers = tuple(float(texts[kind]) for kind in self.kinds)
        for at, kind in enumerate(self.kinds):
            emit(texts[self.sensor], Observation(value.id, value.at, kind, at, numbers[at], numbers))


@attrs.frozen
class RangeFilter(OpStateless[str, Observation, str, Observation]):
    """A number that is out of the range of its kind becomes None."""

    ranges: Mapping[str, tuple[float, float]]

    def on_item(self, key: str, value: Observation, emit: Emit[str, Observation]) -> None:
        low, high = self.ranges.get(value.kind, (-math.inf, math.inf))
        is_valid = value.value is not None and low <= value.value <= high
        emit(key, value if is_valid else attrs.evolve(value, value=None))


@attrs.frozen
class Bloom:
    """A Bloom filter: ``bits``, of which ``hashes`` are set for a member."""

    bits: bytes
    hashes: int

    @classmethod
    def of(cls, members: tuple[str, ...], false_positives: float) -> Bloom:
        """As large as it need be for so many members. (The published filter has room for 20 million.)"""
        size = max(8, math.ceil(-len(members) * math.log(false_positives) / math.log(2) ** 2))
        hashes = max(1, round(size / len(members) * math.log(2)))
        empty = cls(bytes(-(-size // 8)), hashes)
        bits = bytearray(empty.bits)
        for one in members:
            for at in empty.places(one):
                bits[at // 8] |= 1 << at % 8
        return cls(bytes(bits), hashes)

    def places(self, text: str) -> list[int]:
        """The bits of a text."""
        digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
        first, second = int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:], "big")
        return [(first + number * second) % (8 * len(self.bits)) for number in range(self.hashes)]

    def may_contain(self, text: str) -> bool:
        """False only for what is no member."""
        return all(self.bits[at // 8] >> at % 8 & 1 for at in self.places(text))


@attrs.frozen
class BloomFilterCheck(OpStateless[str, Observation, str, Observation]):
    """A number of a sensor that is not known becomes None."""

    known: Bloom

    def on_item(self, key: str, value: Observation, emit: Emit[str, Observation]) -> None:
        emit(key, value if self.known.may_contain(key) else attrs.evolve(value, value=None))


Recent: TypeAlias = dict[str, tuple[float, ...]]
"""The last numbers of each kind, the oldest first."""


@attrs.frozen
class Interpolation(OpKeyedOrdered[str, Observation, Observation, Recent]):
    """In place of None the mean of the last numbers of this kind, at most ``window`` of them. With
    ``window=0`` nothing changes."""

    kinds: tuple[str, ...]
    window: int

    def initial_state(self) -> Recent:
        return {}

    def on_item(self, state: Recent, key: str, value: Observation, emit: EmitValue[Observation]) -> Recent:
        before = state.get(value.kind, ())
        if value.kind in self.kinds and value.value is None and before:
            emit(attrs.evolve(value, value=math.fsum(before) / len(before)))
        else:
            emit(value)
        if value.kind in self.kinds and value.value is not None and self.window:
            state[value.kind] = (*before, value.value)[-self.window :]
        return state


@attrs.frozen
class Join(OpKeyedOrdered[str, Observation, Line, dict[int, dict[str, float | None]]]):
    """The observations of a message as a line of CSV, once all of ``kinds`` have come: second, sensor, numbers."""

    kinds: tuple[str, ...]

    def initial_state(self) -> dict[int, dict[str, float | None]]:
        return {}

    def on_item(
        self, state: dict[int, dict[str, float | None]], key: str, value: Observation, emit: EmitValue[Line]
    ) -> dict[int, dict[str, float | None]]:
        numbers = state.setdefault(value.id, {})
        numbers[value.kind] = value.value
        if len(numbers) == len(self.kinds):
            texts = ("null" if numbers[kind] is None else repr(numbers[kind]) for kind in self.kinds)
            emit(Line(value.id, value.at, ",".join((str(value.at), key, *texts))))
            del state[value.id]
        return state


@attrs.frozen
class Annotate(OpStateless[str, Line, str, Line]):
    """What is known of a sensor behind the line. A line of a sensor of which nothing is known goes no further."""

    annotations: Mapping[str, str]

    def on_item(self, key: str, value: Line, emit: Emit[str, Line]) -> None:
        known = self.annotations.get(value.text.split(",")[1])
        if known is not None:
            emit(key, attrs.evolve(value, text=f"{value.text},{known}"))


@attrs.frozen
class CsvToSenML(OpStateless[str, Line, str, Line]):
    """A line of CSV as SenML. ``columns``: those behind the second. A line without annotations has fewer."""

    columns: tuple[Field, ...]

    def on_item(self, key: str, value: Line, emit: Emit[str, Line]) -> None:
        second, *values = value.text.split(",")
        entries = [
            {"n": column.name, "sv" if column.unit == "string" else "v": text, "u": column.unit}
            for column, text in zip(self.columns, values, strict=False)
        ]
        emit(key, attrs.evolve(value, text=json.dumps({"bt": second, "e": entries}, separators=(",", ":"))))
