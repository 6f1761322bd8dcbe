"""Numbers in runs of equal ones, such as the ends of the blocks of rows in the order of their times."""

from __future__ import annotations

from functools import cached_property
from typing import Any, TypeAlias, final

import numpy as np

__all__ = ["NumberRuns", "Numbers", "array_of_numbers"]

FEW = 64
"""Runs that are written slice by slice, at most."""


@final
class NumberRuns:
    """``count`` numbers. ``values``: int64, the number of each run; ``starts``: int64, ascending, where each begins, the first at
    0. A run may be empty. If rows are grouped by the numbers, no number is in two runs that have rows."""

    def __init__(self, values: Any, starts: Any, count: int) -> None:
        self.values, self.starts, self.count = values, starts, count

    @classmethod
    def of_one(cls, value: int, count: int) -> NumberRuns:
        """One number, many times."""
        return cls(np.array([value], np.int64), np.zeros(1, np.int64), count)

    @classmethod
    def starting_at(cls, places: Any, values: Any, count: int) -> NumberRuns:
        """``places``: int64, ascending, where all runs but the first begin."""
        starts = np.zeros(len(values), np.int64)
        starts[1:] = places
        return cls(values, starts, count)

    def __len__(self) -> int:
        return self.count

    @cached_property
    def array(self) -> Any:
        """All numbers, int64."""
        return self.spread(self.values)

    @property
    def present(self) -> Any:
        """The numbers of the runs that are not empty."""
        ends = np.append(self.starts[1:], self.count)
        return self.values[self.starts < ends]

    def of_rows(self, rows: Any) -> NumberRuns:
        """The numbers of some rows (int64, ascending)."""
        return NumberRuns.starting_at(rows.searchsorted(self.starts[1:]), self.values, len(rows))

    def take(self, rows: Any) -> Any:
        """The numbers of any rows (int64), as an array."""
        return self.values.take(self.starts.searchsorted(rows, "right") - 1)

    def with_values(self, values: Any) -> NumberRuns:
        """Other numbers in the same runs (int64). Adjacent runs of one number become one."""
        if len(values) == 1:
            return NumberRuns(values, self.starts, self.count)
        differs = np.append(True, values[1:] != values[:-1])
        return NumberRuns(values[differs], self.starts[differs], self.count)

    def spread(self, values: Any, rest: Any = None) -> Any:
        """int64: the value of each row's run, plus its ``rest`` (None for nothing). Few runs are written slice by slice: other
        threads run meanwhile, and not while ``np.repeat`` does."""
        if len(values) > FEW:
            each = np.repeat(values, np.diff(self.starts, append=self.count))
            return each if rest is None else each + rest
        each, bounds = np.empty(self.count, np.int64), [*self.starts.tolist(), self.count]
        for value, start, stop in zip(values.tolist(), bounds, bounds[1:], strict=False):
            if rest is None:
                each[start:stop] = value
            else:
                np.add(rest[start:stop], value, out=each[start:stop], dtype=np.int64)
        return each


Numbers: TypeAlias = Any
"""An int64 array, or :class:`NumberRuns`."""


def array_of_numbers(numbers: Numbers) -> Any:
    """All numbers, as an array."""
    return numbers.array if isinstance(numbers, NumberRuns) else numbers
