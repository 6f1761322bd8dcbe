"""Figures 2 to 4 of the paper on reuse, from the lines of ``benchmarks.reuse --cpu``. Needs ``tracetypes[plots]``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

__all__ = ["draw", "read", "shares"]

ALONE: Final = "#d55e00"
MERGED: Final = "#0072b2"


def draw(lines: Sequence[Mapping[str, Any]], file: Path) -> None:
    """Draw a row for each line: the tasks that run, the processor seconds of each step, and how many tasks are used by several
    flows. (The paper has cores in place of seconds.)"""
    figure = Figure(figsize=(11, 2.6 * len(lines)), layout="constrained")
    FigureCanvasSVG(figure)
    rows = figure.subplots(len(lines), 3, squeeze=False)
    for axes, line in zip(rows, lines, strict=True):
        rate = line["events_per_second"]
        axes[0].set_ylabel(f"{line['workload']}, {line['trace']},\n{rate} events a second")
        _curves(axes[0], line["tasks"], "tasks that run")
        _curves(axes[1], line["cpu_s"], "processor seconds in a step")
        _bars(axes[2], shares(line["reuse"]))
    rows[0][0].legend(frameon=False)
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "reuse"}):
        figure.savefig(file, format="svg", metadata={"Date": None})


def shares(reuse: Sequence[Mapping[str, int]]) -> dict[int, float]:
    """Which share of the tasks, over all steps, is of so many flows. Those of one flow are left out."""
    total = sum(sum(one.values()) for one in reuse)
    flows = sorted({int(flows) for one in reuse for flows in one} - {1})
    return {number: sum(one.get(str(number), 0) for one in reuse) / total for number in flows}


def _curves(axes: Axes, sides: Mapping[str, Sequence[float]], title: str) -> None:
    axes.plot(range(1, len(sides["alone"]) + 1), sides["alone"], color=ALONE, label="sharing off")
    axes.plot(range(1, len(sides["merged"]) + 1), sides["merged"], color=MERGED, label="merged")
    axes.set_title(title)
    axes.set_xlabel("step")
    axes.set_ylim(bottom=0)


def _bars(axes: Axes, of: Mapping[int, float]) -> None:
    axes.bar([str(flows) for flows in of], [100 * share for share in of.values()], color=MERGED)
    axes.set_title("% of the tasks used by N flows")
    axes.set_xlabel("N")


def read(file: Path) -> list[dict[str, Any]]:
    """The lines of ``--cpu`` in a file."""
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    return [line for line in lines if line.get("part") == "cpu"]
