"""DuckDB, all at once: what the hardware can do. No stream, no state that survives."""

from __future__ import annotations

import time

from benchmarks.other_engines.orders import Orders

PANES = """
    WITH panes AS (
        SELECT campaign_id, event_time // 1000 + 1 AS pane, count(*) AS views
        FROM read_parquet($files) JOIN read_csv($ads) USING (ad_id) WHERE event_type = 'view' GROUP BY ALL)
    SELECT campaign_id, pane + later.n AS w, sum(views)::BIGINT FROM panes, range(10) AS later(n)
    WHERE w % $slide = 0 GROUP BY ALL
"""


def main() -> None:
    """Run the orders."""
    orders = Orders()
    import duckdb

    began = time.time()
    with duckdb.connect(config={"threads": orders.workers}) as database:
        rows = database.execute(
            PANES, {"files": orders.files, "ads": orders.ads_file, "slide": orders.slide}
        ).fetchall()
    orders.answer(rows, began)


if __name__ == "__main__":
    main()
