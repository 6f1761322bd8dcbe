"""The outputs of a run, opened for each sink: lists of the program, its functions, the terminal, and what addresses name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from tracetypes.compiler.store.function_output import FunctionOutput
from tracetypes.compiler.store.memory_output import ListOutput, TerminalOutput
from tracetypes.compiler.store.output_interface import Output, SideOutputs
from tracetypes.compiler.store.outputs import open_output
from tracetypes.compiler.store.places import Place, place_of
from tracetypes.epochs import BatchFunction
from tracetypes.rejects import SideOutputRow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tracetypes.compiler.backend.backend import Engine
    from tracetypes.compiler.plan.plan import Plan

__all__ = ["RunOutputs"]


@attrs.define(eq=False)
class RunOutputs:
    """``outputs``: by sink. ``late`` and ``rejects``: directories. ``kept``: whether they stay after the run."""

    engine: Engine
    outputs: Mapping[str, Any]
    checkpoint: Place
    late: str
    rejects: str
    kept: bool
    late_rows: list[SideOutputRow] = attrs.field(init=False, factory=list)
    """Those of lists and the terminal."""
    rejected_rows: list[SideOutputRow] = attrs.field(init=False, factory=list)

    def side_outputs(self, run: str) -> SideOutputs:
        """The directories of late and rejected rows, for the run of a name."""
        return SideOutputs(place_of(self.late), place_of(self.rejects), run)

    def opened(self, sink: str, plan: Plan, run: str) -> Output:
        """The output of a sink."""
        target = self.outputs[sink]
        aside = self.late_rows, self.rejected_rows, self.side_outputs(run) if self.kept else None
        match target:
            case list():
                return ListOutput(plan, target, *aside)
            case "-":
                return TerminalOutput(plan, sink if len(self.outputs) > 1 else "", *aside)
            case BatchFunction(function=function, rows=rows):
                given = self.engine.data_frame if rows == "spark" else None
                return FunctionOutput(plan, function, self.side_outputs(run), self.checkpoint, given)
            case _:
                return open_output(plan, str(target), run, self.late, self.rejects)
