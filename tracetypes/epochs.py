"""Functions of the author as outputs: what they get of each epoch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, cast

import attrs

from tracetypes.errors import UsageError
from tracetypes.records import show

__all__ = ["BatchFunction", "Epoch", "each_batch"]

KINDS: Final = ("arrow", "spark")


@attrs.frozen
class Epoch:
    """An epoch of a run, of which a sink has rows. ``run``: the name of the run, which its checkpoint keeps. ``sink``: of the
    flow. ``number``: of the epoch; later ones have larger numbers, and epochs without rows have none that a function sees."""

    run: str
    sink: str
    number: int

    @property
    def id(self) -> str:
        """The three as one text, by which a store can know the epoch again."""
        return f"{self.run}/{self.sink}/{self.number}"


@attrs.frozen(eq=False)
class BatchFunction:
    """An output that :func:`each_batch` has made."""

    function: Callable[[Any, Epoch], object]
    rows: Literal["arrow", "spark"]


def each_batch(function: Callable[[Any, Epoch], object], *, rows: Literal["arrow", "spark"] = "arrow") -> BatchFunction:
    """An output of ``run`` and ``start``: a function that gets the rows of each epoch in which a sink has some.

    ``function``: called on the driver with the rows and an :class:`Epoch`. An epoch that a crash interrupts is done again, and
    then the function gets the same rows once more, in any order. So it must do the same again without harm, or know the epoch by
    its ``id``. What it raises ends the run. ``rows``: as an Arrow table (``"arrow"``), or on Spark as a DataFrame (``"spark"``),
    with the columns that a file of the sink has.

    >>> counts: list[int] = []
    >>> each_batch(lambda rows, epoch: counts.append(rows.num_rows)).rows
    'arrow'

    Raises :class:`UsageError` ``TT402``."""
    if not callable(cast(object, function)):
        fix = "give a function of rows and epoch"
        raise UsageError("TT402", f"each_batch got {show(function)}, which is no function", fix=fix)
    if rows not in KINDS:
        raise UsageError("TT402", f"rows is {show(rows)}", fix='give "arrow" or "spark"')
    return BatchFunction(function, rows)
