"""What a join by key and block, or an operator of windows that overlap, holds between markers, as columns: the items of the last
blocks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Self, TypeAlias, final

import attrs
import numpy as np
import pyarrow as pa

from tracetypes.block_joins import BlockJoin, JoinedBlock
from tracetypes.compiler.analysis.joins import sides_in, value_in
from tracetypes.compiler.columns.arrow import array, from_array
from tracetypes.compiler.columns.coded_arrays import concat_arrays
from tracetypes.compiler.columns.column import Columns, take
from tracetypes.compiler.columns.concatenation import concat
from tracetypes.compiler.columns.conversion import from_arrow, values_of
from tracetypes.records import Schema
from tracetypes.templates import OpKeyedUnordered
from tracetypes.trace import StreamType

__all__ = ["LEFT", "RIGHT", "HeldItem", "HeldItems", "HeldSide", "blocks_of"]

LEFT: Final = 0
RIGHT: Final = 1

Op: TypeAlias = OpKeyedUnordered[Any, Any, Any, Any, Any, Any]

HeldItem: TypeAlias = tuple[int, int, Any, bool]
"""How many blocks ago the block of an item closed, its side and value, and whether it has had a partner."""


def blocks_of(items: Iterable[HeldItem]) -> list[JoinedBlock]:
    """Items of a key by block, the oldest first."""
    blocks = dict[int, tuple[list[Any], list[Any], list[bool], list[bool]]]()
    for age, side, value, paired in items:
        block = blocks.setdefault(age, ([], [], [], []))
        block[side].append(value)
        block[2 + side].append(paired)
    return [
        JoinedBlock(age, lefts, rights, any(left_paired), any(right_paired))
        for age, (lefts, rights, left_paired, right_paired) in sorted(blocks.items(), reverse=True)
    ]


@final
@attrs.define(eq=False)
class HeldSide:
    """Items of a side. Of each: ``codes``, the number of its key; ``ages``, how many blocks ago its block closed (both int64);
    ``paired``, whether it has had a partner (bool). ``values``: as an Arrow array."""

    codes: Any
    ages: Any
    paired: Any
    values: Any

    def __len__(self) -> int:
        return len(self.codes)

    def some(self, rows: Any, codes: Any) -> HeldSide:
        """Some of the items (int64), whose keys have these numbers now."""
        return HeldSide(codes, self.ages[rows], self.paired[rows], self.values.take(pa.array(rows)))


@final
@attrs.define(eq=False)
class HeldItems:
    """Items of the keys of a group. ``keys``: ``count`` of them, each once. ``sides``: the left and the right items; what holds
    items of one type has them on the left. ``start``: the state of a key that holds nothing."""

    keys: Columns
    count: int
    sides: tuple[HeldSide, HeldSide]
    start: Any

    def __len__(self) -> int:
        return sum(map(len, self.sides))

    @classmethod
    def of(cls, join: BlockJoin, takes: StreamType, states: dict[Any, Any], start: Any) -> Self:
        """From states by key. What no later block needs is left out."""
        keys, items = list[Any](), list[tuple[int, HeldItem]]()
        for key, state in states.items():
            before = len(items)
            for one in join.blocks(state):
                if one.age < join.reach:
                    items += [(len(keys), (one.age, LEFT, value, one.left_paired)) for value in one.lefts]
                    items += [(len(keys), (one.age, RIGHT, value, one.right_paired)) for value in one.rights]
            if len(items) > before:
                keys.append(key)
        left, right = (_side(side, schema, items) for side, schema in enumerate(_schemas(join, takes)))
        return cls(from_arrow(takes.key, array(takes.key, keys)), len(keys), (left, right), start)

    @classmethod
    def none(cls, takes: StreamType, start: Any) -> Self:
        """Nothing of an operator that holds items of one type."""
        side = _side(LEFT, takes.value, ())
        return cls(from_arrow(takes.key, array(takes.key, [])), 0, (side, side), start)

    def to_objects(self, op: Op, takes: StreamType) -> dict[Any, Any]:
        """States by key of the operator that holds the items."""
        join = op._joins()
        by_key = dict[int, list[HeldItem]]()
        schemas = (takes.value, takes.value) if join is None else _schemas(join, takes)
        for number, (side, schema) in enumerate(zip(self.sides, schemas, strict=True)):
            columns = side.codes.tolist(), side.ages.tolist(), from_array(schema, side.values), side.paired.tolist()
            for code, age, value, paired in zip(*columns, strict=True):
                by_key.setdefault(code, []).append((age, number, value, paired))
        keys = values_of(self.keys, self.count)
        if join is not None:
            return {keys[code]: join.state(blocks_of(items)) for code, items in by_key.items()}
        return {keys[code]: _state_of(op, keys[code], items) for code, items in by_key.items()}

    def of_keys(self, rows: Any) -> HeldItems:
        """Those of some keys (int64)."""
        places = np.full(self.count, -1, np.int64)
        places[rows] = np.arange(len(rows))
        codes = [places[side.codes] for side in self.sides]
        kept = [np.flatnonzero(some >= 0) for some in codes]
        left, right = (side.some(at, some[at]) for side, some, at in zip(self.sides, codes, kept, strict=True))
        return HeldItems(take(self.keys, rows), len(rows), (left, right), self.start)

    def followed_by(self, others: Sequence[HeldItems]) -> HeldItems:
        """These and those of other keys. Raises :class:`Undefined`."""
        full = [one for one in (self, *others) if one.count] or [self]
        firsts = np.cumsum([0, *(one.count for one in full)])
        left, right = (_end_to_end([one.sides[at] for one in full], firsts) for at in (LEFT, RIGHT))
        return HeldItems(concat([(one.keys, one.count) for one in full]), int(firsts[-1]), (left, right), self.start)


def _state_of(op: Op, key: Any, items: Sequence[HeldItem]) -> Any:
    """The state of a key after the blocks that it holds."""
    whole = op._whole_block()
    assert whole is not None
    aggregates = dict[int, Any]()
    for age, _, value, _ in items:
        aggregates[age] = op.combine(aggregates.get(age, op.identity()), op.lift(key, value))
    state = op.initial_state()
    for age in range(whole.reach, -1, -1):
        state = op.update_state(state, aggregates.get(age, op.identity()))
    return state


def _schemas(join: BlockJoin, takes: StreamType) -> tuple[Schema, Schema]:
    """Of the values of both sides."""
    left, right = sides_in(takes, join.left)
    return value_in(left), value_in(right)


def _side(side: int, schema: Any, items: Iterable[tuple[int, HeldItem]]) -> HeldSide:
    some = [(code, age, value, paired) for code, (age, at, value, paired) in items if at == side]
    codes, ages, values, paired = zip(*some, strict=True) if some else ((), (), (), ())
    return HeldSide(np.array(codes, np.int64), np.array(ages, np.int64), np.array(paired, np.bool_), array(schema, list(values)))


def _end_to_end(sides: Sequence[HeldSide], firsts: Any) -> HeldSide:
    codes = np.concatenate([one.codes + first for one, first in zip(sides, firsts, strict=False)])
    ages, paired = np.concatenate([one.ages for one in sides]), np.concatenate([one.paired for one in sides])
    return HeldSide(codes, ages, paired, concat_arrays([one.values for one in sides]))
