"""How many bytes each part of a state has: by operator and column, and the largest keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import nlargest
from typing import Any

import attrs

from tracetypes.compiler.analysis.monoids import leaves
from tracetypes.compiler.analysis.pickles import dumps, dumps_each, loads
from tracetypes.compiler.columns.column import Columns, Struct
from tracetypes.compiler.runtime.column_states import ColumnState, Shape
from tracetypes.compiler.runtime.operators import UnorderedState
from tracetypes.compiler.runtime.ordered_states import OrderedState
from tracetypes.compiler.runtime.state import keys_held
from tracetypes.compiler.store.inspection import Blobs, CheckpointView, StageAbout, states
from tracetypes.compiler.store.state_values import plain
from tracetypes.errors import counted
from tracetypes.records import show

__all__ = ["StageSizes", "sizes"]


@attrs.define
class OperatorSizes:
    """Of an operator: how many keys it has, the bytes of its columns by name, and of its largest keys, where states are
    objects."""

    name: str
    keys: int = 0
    columns: dict[str, int] = attrs.Factory(dict)
    largest: list[tuple[int, Any]] = attrs.Factory(list)

    @property
    def size(self) -> int:
        """In bytes."""
        return sum(self.columns.values())

    def add(self, columns: Mapping[str, int], count: int, sizes: Sequence[tuple[int, Any]], most: int) -> None:
        """Those of a key group. ``sizes``: of keys; ``most``: of how many keys to know them."""
        self.keys += count
        for name, size in columns.items():
            self.columns[name] = self.columns.get(name, 0) + size
        self.largest = nlargest(most, [*self.largest, *sizes], key=lambda one: one[0])


@attrs.frozen
class StageSizes:
    """Of a stage. ``open``: bytes of open blocks."""

    stage: StageAbout
    operators: Sequence[OperatorSizes]
    open: int

    @property
    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "stage": self.stage.number,
            "operators": [
                {
                    "operator": one.name,
                    "keys": one.keys,
                    "bytes": one.size,
                    "columns": one.columns,
                    "largest": [{"key": plain(key), "bytes": size} for size, key in one.largest],
                }
                for one in self.operators
            ],
            "open_blocks": self.open,
        }

    @property
    def lines(self) -> Iterator[str]:
        """As text."""
        total = sum(one.size for one in self.operators) + self.open
        yield f"stage {self.stage.number}: {total:,} bytes, {self.open:,} of them in open blocks"
        for one in self.operators:
            each = f", {one.size / one.keys:,.0f} a key" if one.keys else ""
            yield f"    {one.name}: {one.size:,} bytes, {counted(one.keys, 'key')}{each}"
            for name, size in sorted(one.columns.items(), key=lambda column: -column[1]):
                yield f"        {name}: {size:,}"
            if one.largest:
                yield "        largest keys: " + ", ".join(f"{show(key)} {size:,}" for size, key in one.largest)


def sizes(blobs: Blobs, view: CheckpointView, number: int | None = None, *, keys: int = 10) -> Iterator[StageSizes]:
    """The sizes of each stage, or of one, as they are pickled. ``keys``: how many of the largest keys are named."""
    for stage in view.only(number):
        operators = [OperatorSizes(name) for name in stage.operators]
        in_blocks = 0
        for _, _, state in states(blobs, view, stage):
            in_blocks += len(dumps((state.open_blocks, state.tables))) - len(dumps(({}, [])))
            for one, content in zip(operators, state.operators, strict=True):
                columns, largest = _sizes_of(content)
                one.add(columns, keys_held(content), largest, keys)
                if isinstance(content, ColumnState) and content.open_aggregates:
                    in_blocks += len(dumps(content.open_aggregates))
        yield StageSizes(stage, operators, in_blocks)


def _sizes_of(state: Any) -> tuple[dict[str, int], list[tuple[int, Any]]]:
    """Bytes by column, and of each key where states are objects."""
    match state:
        case ColumnState(keys=keys, parts=parts, shape=shape):
            whole: Shape = loads(shape[1])
            names = [".".join(["state", *map(str, path)]) for path, _ in leaves(whole.state)]
            return {"keys": _bytes(keys), **dict(zip(names, map(_bytes, parts), strict=True))}, []
        case OrderedState(keys=keys, states=columns):
            both = {field.name for field in attrs.fields(OrderedState)}
            names = [field.name for field in attrs.fields(type(state)) if field.name not in both]
            more = {name: _bytes(getattr(state, name)) for name in names}
            return {"keys": _bytes(keys), **_columns(columns), **more}, []
        case UnorderedState(states=objects) | (dict() as objects):
            some = list(objects.items())
            _, ends = dumps_each([one for _, one in some])
            each = [end - start for start, end in zip([0, *ends], ends, strict=False)]
            of_keys = [(size, key) for size, (key, _) in zip(each, some, strict=True)]
            return {"keys": _bytes([key for key, _ in some]), "states": sum(each)}, of_keys
        case None:
            return {}, []
        case _:
            return {"items": _bytes(state)}, []


def _columns(columns: Columns) -> dict[str, int]:
    if not isinstance(columns, Struct):
        return {"state": _bytes(columns)}
    names = columns.names or tuple(map(str, range(len(columns.parts))))
    return {f"state.{name}": _bytes(part) for name, part in zip(names, columns.parts, strict=True)}


def _bytes(value: Any) -> int:
    return len(dumps(value))
