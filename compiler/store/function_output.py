"""A function of the author as an output. It gets the rows of each epoch before the commit, so those of an epoch that a crash
interrupts come to it again.

A note in the checkpoint says for which epoch it was called last. Such an epoch is repeated with the same inputs, like one whose
rows are visible in a file.

::

    CHECKPOINT/called/RUN.json    {"number": 31}
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from tracetypes.compiler.columns.coded_arrays import without_dictionaries
from tracetypes.compiler.connectors.sink_files import VisibleColumns
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.runtime.messages import Message
from tracetypes.compiler.store.output_interface import Frontiers, Output, SideOutputs, latest, refuse_folders, rows_of
from tracetypes.compiler.store.places import Place
from tracetypes.compiler.store.small_files import read_own, write_json
from tracetypes.compiler.store.staging import SEND
from tracetypes.epochs import Epoch
from tracetypes.errors import CodedError, RunError

__all__ = ["FunctionOutput"]


class FunctionOutput(Output):
    """Calls a function with the rows of each epoch. ``given``: makes what it gets of an Arrow table; None: it gets that."""

    delivery = SEND
    side_outputs: SideOutputs

    def __init__(
        self,
        plan: Plan,
        function: Callable[[Any, Epoch], object],
        side_outputs: SideOutputs,
        checkpoint: Place,
        given: Callable[[Any], Any] | None = None,
    ) -> None:
        refuse_folders(plan, "a function")
        self.plan, self.function, self.side_outputs, self.given = plan, function, side_outputs, given
        self.run, self.note = side_outputs.run, checkpoint / "called" / f"{side_outputs.run}.json"
        self.shown = VisibleColumns(plan.layout, plan.sink, unsigned=given is None)
        self.done: int | None = None
        """The last epoch for which the function has returned in this process."""

    @property
    def called(self) -> int | None:
        """The last epoch for which the function was called."""
        about = read_own(self.note, self.run)
        return None if about is None else int(about["number"])

    def visible(self, batch: int) -> str | None:
        """The function, if it was called."""
        called = self.called
        if called is not None and called >= batch:
            return f"the function of sink {self.plan.sink.name!r}"
        return super().visible(batch)

    @property
    def newest(self) -> int | None:
        """By the note."""
        return latest(self.called, super().newest)

    def take(self, messages: Sequence[Message], batch: int, frontiers: Frontiers) -> None:
        """Call the function, if there are rows."""
        if self.done is not None and batch <= self.done:
            return
        self.side_outputs.take(messages, batch, frontiers, Path())
        rows = [self.shown.of(without_dictionaries(one)) for one in rows_of(self.plan, messages) if one.num_rows]
        if rows:
            table = pa.Table.from_batches(rows)
            write_json(self.note, {"run": self.run, "number": batch})
            self._call(table if self.given is None else self.given(table), Epoch(self.run, self.plan.sink.name, batch))
        self.done = batch

    def _call(self, rows: Any, epoch: Epoch) -> None:
        try:
            self.function(rows, epoch)
        except CodedError:
            raise
        except Exception as error:
            raise RunError(
                "TT209",
                f"the function of sink {epoch.sink!r} failed with micro-batch {epoch.number}: {type(error).__name__}: {error}",
                fix="see the cause; run again to go on: it gets the same rows again",
            ) from error
