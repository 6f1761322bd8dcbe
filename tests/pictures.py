"""The pictures of the documentation, drawn by our own drawing: ``python -m tests.pictures`` writes all of them.

`tests/test_docs.py` compares the files with what this module draws.
"""

from __future__ import annotations

import re
import runpy
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tests.test_layers import ORDER
from tracetypes import check
from tracetypes.compiler.plan.drawing import Box, Figure, Group, Pill, svg, typed_graph

__all__ = ["BANDS", "PICTURES"]

ROOT: Final = Path(__file__).resolve().parent.parent

BANDS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "what a program means": {
        "core": ("templates, graph, check, interpreter",),
        "stdlib": ("operators as user code",),
    },
    "from a program to a plan": {
        "tracing": ("Python to", "expressions"),
        "analysis": ("what an", "operator is"),
        "graph": ("passes and", "segments"),
        "plan": ("stages, exchanges,", "explain, pictures"),
    },
    "inside a worker": {
        "columns": ("values as columns",),
        "runtime": ("sources, blocks, operators",),
        "gates": ("decisions",),
    },
    "outside, and on disk": {
        "wire": ("messages as bytes",),
        "connectors": ("files, topics, tables",),
        "store": ("a run on disk",),
    },
    "a run, and its rehearsal": {
        "backend": ("runs, supervisor",),
        "spark": ("plans as queries",),
        "local": ("plans in one process",),
        "workspace": ("merge, unmerge",),
        "trial": ("adversary, rehearsals",),
    },
    "on top": {"top": ("run and start, cli, testing, recovery",)},
}
"""The layers of `tests/test_layers.py`, the lowest first, with a few words for each."""

FOLDERS: Final = {"core": "tracetypes/", "top": "tracetypes/", "stdlib": "stdlib/"}


def layers() -> Figure:
    """The layers: those of one band side by side."""
    order = [layer for line in ORDER for layer in line]
    figure, before = Figure(), ""
    for caption, band in BANDS.items():
        inside = Figure()
        for layer in sorted(band, key=order.index):
            inside.box(layer, Box(FOLDERS.get(layer, layer), band[layer], kind="source" if layer in FOLDERS else ""))
        figure.box(caption, Group(caption, inside))
        if before:
            figure.arrow(before, caption)
        before = caption
    return figure


def data() -> Figure:
    """The way of the data: from rows of a source to rows of an output."""
    source = _chain(
        Box("connectors/", ("records, lines, columns of a source split",)),
        Box("runtime/source", ("a row becomes an item, a marker,", "a late item or a reject")),
        Box("runtime/stateless", ("stateless operators",)),
        Box("runtime/partitioner", ("items or their aggregates, by key group",)),
    )
    stage = _chain(
        Box("runtime/frontier", ("the block of each item, which are complete",)),
        Box("runtime/open_blocks", ("items and aggregates of open blocks",)),
        Box("runtime/pipeline", ("sorts and keyed operators, block by block",)),
        Box("runtime/emitter", ("to the next stage or to the sink",)),
    )
    driver = _chain(
        Box("spark/batches", ("takes a micro-batch, or asks for it again",)),
        Box("store/outputs", ("staged files are moved into place",)),
        Box("store/run_store", ("the commit record",)),
    )
    figure = Figure()
    figure.box("rows", Box("rows", ("files, topics, tables, lists",), kind="source"))
    figure.box("source", Group("a worker, one source split: spark/scan", source))
    figure.box("stage", Group("a worker, one key group: runtime/stage", stage))
    figure.box("driver", Group("the driver", driver))
    figure.box("output", Box("outputs", ("rows, late items, rejects",), kind="sink"))
    figure.arrow("rows", "source", "splits, listed by store/input_files")
    figure.arrow("source", "stage", Pill("exchange by key group"))
    figure.arrow("stage", "driver", "messages")
    figure.arrow("driver", "output")
    return figure


def _chain(*boxes: Box) -> Figure:
    figure = Figure()
    for at, box in enumerate(boxes):
        figure.box(at, box)
        if at:
            figure.arrow(at - 1, at)
    return figure


def readme() -> Figure:
    """The typed graph of the README's program."""
    wrong, last, *_ = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text("utf-8"), re.M | re.S)
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "gaps.py")
        program.write_text("\n".join([*wrong.splitlines()[:-1], last]), encoding="utf-8")
        return typed_graph(check(runpy.run_path(str(program))["flow"]))


PICTURES: Final[Mapping[str, tuple[str, Callable[[], Figure]]]] = {
    "docs/layers.svg": ("the layers of the source code", layers),
    "docs/data.svg": ("the way of the data", data),
    "docs/gaps.svg": ("the typed graph of gaps.py", readme),
}
"""What each picture shows, and how it is drawn."""


def drawn(file: str) -> str:
    """A picture as SVG."""
    title, figure = PICTURES[file]
    return svg(figure(), title, style=True)


def main() -> None:
    """Write all pictures."""
    for file in PICTURES:
        (ROOT / file).write_text(drawn(file), encoding="utf-8")


if __name__ == "__main__":
    main()
