"""The states of a segment: an epoch writes the parts that it has changed, and whoever reads them has what was there."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pytest

from tracetypes.compiler.local import log as logs
from tracetypes.compiler.local.log import LocalLog, Takes
from tracetypes.compiler.local.states import StateParts, state_of


@attrs.define
class Held:
    """Columns, one of them an object of Arrow, and a small rest."""

    keys: Any
    sums: Any
    rest: dict[str, int]


def held(count: int = 5000) -> Held:
    return Held(pa.array([f"key {n}" for n in range(count)]), np.arange(count), {"marker": 1})


class Segment:
    """A log, and a way to see which parts it has written."""

    def __init__(self, path: Path) -> None:
        self.path, self.log, self.number = path, LocalLog(path), -1

    def end(self, **states: Any) -> set[tuple[str, int]]:
        """End an epoch with states of stages. The parts that were written: the stage's name and the part."""
        names = sorted(states)
        self.number += 1
        self.log.begin(self.number, Takes({}, [], False))
        before = self.parts()
        self.log.end(self.number, {(names.index(name), 0): StateParts.of(states[name]) for name in names})
        after = self.parts()
        return {(names[stage], part) for (stage, part), row in after.items() if before.get((stage, part)) != row}

    def parts(self) -> dict[tuple[int, int], Any]:
        rows = self.log._all("SELECT stage, part, rowid, digest, file FROM states")
        return {(stage, part): tuple(row) for stage, part, *row in rows}

    def read(self) -> dict[int, Any]:
        """What another process finds."""
        return {stage: state_of(parts) for (stage, _), parts in LocalLog(self.path).states()}


@pytest.mark.parametrize("large", [1, 1 << 20])
def test_only_changed_parts_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: int) -> None:
    monkeypatch.setattr(logs, "LARGE", large)
    one, segment = held(), Segment(tmp_path)
    assert len(segment.end(a=one, b={"small": 1})) == len(StateParts.of(one).parts) + 1 > 3
    assert segment.end(a=one, b={"small": 1}) == set()
    one.rest["marker"] = 2
    assert segment.end(a=one) == {("a", 0)}
    one.sums[7] = -1
    (changed,) = segment.end(a=one)
    assert changed[1] > 0
    segment.log.close()
    segment.log = LocalLog(tmp_path)
    assert segment.end(a=one, b={"small": 1}) == set()  # another process knows what is written
    assert segment.end(a=one, b={"small": 2}) == {("b", 0)}
    read = segment.read()
    assert read[1] == {"small": 2}
    assert (read[0].keys, read[0].rest) == (one.keys, one.rest)
    assert read[0].sums.tolist() == one.sums.tolist()
    read[0].sums[0] = 9  # may be changed, as it could be
    one.sums = None
    segment.end(a=one)
    assert len(segment.parts()) == len(StateParts.of(one).parts) + 1
    assert segment.read()[0] == one
    files = list((tmp_path / "local/states").glob("*")) if (tmp_path / "local/states").exists() else []
    assert len(files) == sum(row[2] is not None for row in segment.parts().values())
    assert bool(files) == (large == 1)


def test_a_class_of_a_script_is_kept_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Held, "__module__", "__main__")
    monkeypatch.setattr(sys.modules["__main__"], "Held", Held, raising=False)
    assert len(StateParts.of(held()).parts) == 1
    monkeypatch.undo()
    assert len(StateParts.of(held()).parts) > 2
    assert len(StateParts.of({"f": lambda: 1, "columns": np.arange(9000)}).parts) == 1
