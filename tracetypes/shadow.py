"""What gates save and what it costs: a dataflow with its gates beside the same one with all of them open.

```python
report = shadow(flow, {"readings": rows})
print(report)                                  # a line for each gate and sink
report["zones"].errors                         # at each marker
```
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from tracetypes.check import check
from tracetypes.compiler.gates.shadow import ShadowReport, compare_gates
from tracetypes.graph import Dataflow
from tracetypes.impacts import Variation

__all__ = ["ShadowReport", "Shadow", "shadow"]


@attrs.frozen
class Shadow:
    """The reports of gates and sinks. As a string it is a table."""

    reports: tuple[ShadowReport, ...]

    def __getitem__(self, name: str) -> ShadowReport:
        return next(one for one in self.reports if one.name == name)

    def __iter__(self) -> Iterator[ShadowReport]:
        return iter(self.reports)

    def __str__(self) -> str:
        lines = [("", "markers", "executions", "saved", "mean error", "largest", "bound", "confidence")]
        for one in self.reports:
            within = "" if one.bound is None else f"{100 * one.confidences[-1]:.1f} %" if one.errors else ""
            lines.append(
                (
                    one.name,
                    f"{one.markers:,}",
                    f"{one.executions:,}",
                    f"{100 * one.saved:.1f} %",
                    f"{one.mean:.4f}",
                    f"{one.largest:.4f}",
                    "" if one.bound is None else f"{one.bound:g}",
                    within,
                )
            )
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(
                cell.rjust(width) if column else cell.ljust(width)
                for column, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        )

    def json(self) -> str:
        """The same as JSON, with the error at each marker."""
        return json.dumps([{**attrs.asdict(one), "saved": one.saved, "violations": one.violations} for one in self.reports])


def shadow(flow: Dataflow, inputs: Mapping[str, Sequence[Any]], *, error: Variation[float, Any] | None = None) -> Shadow:
    """Run a dataflow with its gates, and with all gates open, and compare the containers of all outputs at each marker.

    ``inputs``: the values of each source, in order of arrival; pairs of key and value where rows have a key. The interpreter runs
    them, so give it a part of the data. ``error``: how errors are measured where no ``learned`` gate says it, by default
    :func:`tracetypes.impacts.relative_error`. Raises :class:`UsageError` ``TT121`` for a dataflow without gates.
    """
    return Shadow(tuple(compare_gates(check(flow), inputs, error)))
