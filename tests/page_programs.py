"""The Python blocks of the pages as programs for type checkers, with what a page takes as given before its first block."""

from __future__ import annotations

import doctest
from collections.abc import Iterator, Mapping
from typing import Final

from tests.pages import ROOT, blocks

__all__ = ["page_programs"]

_ALONE: Final = ("gates", "workspace")
"""Pages whose blocks, but for those that name the first, are programs of their own."""

_CLICKS: Final = """\
import attrs
import tracetypes
from tracetypes import Dataflow, U, every
from tracetypes.stdlib import aggregate, count

@attrs.frozen
class Click:
    page: str
    ts: int

flow = Dataflow("clicks")
_clicks = flow.source("clicks", U[str, Click], key=lambda click: click.page, markers=every(seconds=10, time=lambda c: c.ts))
flow.sink("counts", _clicks.through(aggregate(count())))
"""

_GIVEN: Final[Mapping[str, str]] = {
    "deploy": """\
from collections.abc import Callable
from typing import ParamSpec, TypeVar
P = ParamSpec("P")
R = TypeVar("R")

def dag(**options: str | int | datetime) -> Callable[[Callable[P, R]], Callable[P, R]]:
    return lambda function: function
class task:
    @staticmethod
    def bash(*, retries: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
        return lambda function: function
""",
    "laws": "recorded: 'list[Used]' = []\n",
    "local": f"{_CLICKS}counts: list[tuple[str, int]] = []\n",
    "ordered": """\
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
def parse(unit: Any) -> Any: ...
def count(partition: int, unit: Any) -> Any: ...
def split(unit: Any) -> Any: ...
def write(unit: Any) -> None: ...
units: Iterable[Any] = []
""",
    "running": _CLICKS,
    "transform": f"""\
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
{_CLICKS}
spark = SparkSession.builder.getOrCreate()
clicks, views = spark.range(1), spark.range(1)
query: StreamingQuery = spark.streams.active[0]
""",
}


def page_programs() -> Iterator[tuple[str, str]]:
    """The name and the text of each program."""
    for path in sorted((ROOT / "docs").glob("*.md")):
        name = path.stem
        parts = [_without_prompts(one) for one in blocks(path.read_text(encoding="utf-8"), "python")]
        if name in ("tour", "errors", "coming_from") or not parts:
            continue  # they have tests of their own, with their mistakes
        if name == "deploy":
            parts = [one.replace("from airflow.sdk import dag, task\n", _GIVEN[name]) for one in parts]
        elif name in _GIVEN:
            parts = [_GIVEN[name], *parts]
        if name in _ALONE:
            for at, part in enumerate(parts, 1):
                yield f"page_{name}_{at}", f"{parts[0]}\n{part}" if at == 3 else part
        else:
            yield f"page_{name}", "\n".join(parts)


def _without_prompts(block: str) -> str:
    """The code of a block that shows what Python prints."""
    if not block.startswith(">>> "):
        return block
    return "".join(example.source for example in doctest.DocTestParser().get_examples(block))
