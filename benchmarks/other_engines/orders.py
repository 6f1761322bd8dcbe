"""What the modules of this folder are told, and what they answer. No imports but the standard library and pyarrow."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Iterable
from typing import Any

STARTED = time.time()
"""As early as this process can tell."""


class Orders:
    """``query``: "IV" or "V". ``files``: of events, in order. ``ads``: advertisement to campaign. ``workers``: how many.
    ``wait``: seconds that an event may come late. ``out``: a directory for the answer."""

    def __init__(self) -> None:
        given: dict[str, Any] = json.loads(sys.argv[1])
        self.query: str = given["query"]
        self.files: list[str] = given["files"]
        self.ads_file: str = given["ads"]
        self.workers: int = given["workers"]
        self.wait: float = given["wait"]
        self.out: str = given["out"]
        self.addresses: list[str] = given.get("addresses", [])
        self.number: int = given.get("number", 0)

    @property
    def slide(self) -> int:
        """Seconds from window to window; each is ten seconds long."""
        return 1 if self.query == "IV" else 10

    @property
    def ads(self) -> dict[str, str]:
        """The campaign of each advertisement."""
        with open(self.ads_file) as lines:
            return dict(line.rstrip("\n").split(",") for line in list(lines)[1:])

    def answer(
        self, rows: Iterable[tuple[str, int, int]], began: float, first: float | None = None, **notes: Any
    ) -> None:
        """Write campaign, end of window (s) and views, and print the times: when the work began and ended, and when the first row
        was there, if that was before the end."""
        ended, memory = time.time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024
        import pyarrow as pa
        import pyarrow.parquet as pq

        columns: list[list[Any]] = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]
        types = (pa.string(), pa.int64(), pa.int64())
        arrays = [pa.array(column, type) for column, type in zip(columns, types, strict=True)]
        pq.write_table(
            pa.table(arrays, names=["campaign_id", "end", "views"]), f"{self.out}/part-{self.number}.parquet"
        )
        times = {"began": began, "ended": ended, "started": STARTED, "first": first or ended}
        print(json.dumps({**times, "memory": memory, **notes}), flush=True)
