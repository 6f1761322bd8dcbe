"""Pathway, as its documentation shows windows: ``filter``, ``join``, ``windowby``. It reads CSV, not Parquet.

The files are converted before the time is taken. They are read in ``static`` mode, so that the run ends. ``changes`` counts what
the sink was told: a window that is told, taken back and told again counts three times.
"""

from __future__ import annotations

import os
from time import time as now
from typing import Any

from benchmarks.other_engines.orders import Orders


def main() -> None:
    """Run the orders. ``PATHWAY_THREADS`` must be set before the import: see :mod:`benchmarks.engines`."""
    orders = Orders()
    assert os.environ["PATHWAY_THREADS"] == str(orders.workers)
    import pathway as pw

    class Event(pw.Schema):  # type: ignore[misc]
        ad_id: str
        event_type: str
        event_time: int

    class Ad(pw.Schema):  # type: ignore[misc]
        ad_id: str
        campaign_id: str

    began = now()
    events = pw.io.csv.read(os.path.dirname(orders.files[0]), schema=Event, mode="static")
    ads = pw.io.csv.read(orders.ads_file, schema=Ad, mode="static")
    views = events.filter(pw.this.event_type == "view")
    named = views.join(ads, pw.left.ad_id == pw.right.ad_id).select(pw.right.campaign_id, pw.left.event_time)
    window = (
        pw.temporal.sliding(hop=orders.slide * 1_000, duration=10_000, origin=0)
        if orders.query == "IV"
        else pw.temporal.tumbling(duration=10_000, origin=0)
    )
    counted = named.windowby(pw.this.event_time, window=window, instance=pw.this.campaign_id).reduce(
        campaign_id=pw.this._pw_instance, end=pw.this._pw_window_end, views=pw.reducers.count()
    )
    found: dict[Any, tuple[str, int, int]] = {}
    changes, first = [0], list[float]()

    def change(key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
        changes[0] += 1
        if not first:
            first.append(now())
        if is_addition:
            found[key] = row["campaign_id"], row["end"] // 1_000, row["views"]
        elif found.get(key, ("", 0, 0))[2] == row["views"]:
            del found[key]

    pw.io.subscribe(counted, on_change=change)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    orders.answer(list(found.values()), began, first[0] if first else None, changes=changes[0])


if __name__ == "__main__":
    main()
