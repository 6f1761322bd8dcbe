"""Sessions of a web log on Spark: the rows that the interpreter defines, and its late and rejected lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import tracetypes
from examples import web_log, web_log_data
from tests.test_web_log import SMALL, rows_shown
from tracetypes import UNIT, Item, check, interpret_rows


def test_sessions_mean_on_spark_what_they_mean(spark: SparkSession, tmp_path: Path) -> None:
    whole = web_log_data.table(1_500, seed=5, **SMALL)
    rows = {"log": list(web_log_data.lines(whole, cut=50))}
    traces, streams = interpret_rows(check(web_log.flow), rows)
    web_log_data.write(tmp_path, 1_500, files=2, cut=50, seed=5, **SMALL)
    outputs: dict[str, list[Any]] = {name: [] for name in traces}
    result = tracetypes.run(
        web_log.flow, inputs={"log": str(tmp_path)}, outputs=outputs, parallelism=2, key_groups=4, files_per_step=1
    )
    for name, trace in traces.items():
        wanted = [(one.key, one.value) for one in trace.items if isinstance(one, Item)]
        pairs = [row if isinstance(row, tuple) else (UNIT, row) for row in outputs[name]]
        assert rows_shown(pairs) == rows_shown(wanted), name
        assert len(wanted) > 1, name
    assert result.late == {"log": len(streams["log"].late)}
    assert result.rejects == {"log": len(streams["log"].rejects)} == {"log": 30}
    assert result.late["log"] > 10
