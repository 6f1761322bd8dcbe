"""Why a dataflow in JSON is refused: all reasons at once."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from tracetypes.errors import TraceTypesError, counted

__all__ = ["FlowProblem", "FlowRefused"]


@attrs.frozen
class FlowProblem:
    """One reason why a flow is refused. ``task``: the id of the task; empty for the whole flow."""

    code: str
    task: str
    found: str
    expected: str
    fix: str

    def __str__(self) -> str:
        where = f"task {self.task!r}" if self.task else "the flow"
        expected = f"\n    expected: {self.expected}" if self.expected else ""
        return f"{self.code} {where}: {self.found}{expected}\n    fix:      {self.fix}"


class FlowRefused(TraceTypesError):
    """A dataflow in JSON was refused. ``problems`` holds all reasons."""

    code = "TT410"

    def __init__(self, problems: Sequence[FlowProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join([counted(len(self.problems), "problem"), *map(str, self.problems)]))

    def __reduce__(self) -> tuple[object, ...]:
        return FlowRefused, (self.problems,)
