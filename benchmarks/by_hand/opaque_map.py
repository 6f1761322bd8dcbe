"""The same Python function for each row, by hand: ``mapInPandas``, and a Python UDF that gets its rows by Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

Function = Callable[[int], int]


def _frames(frames: Iterator[pd.DataFrame], function: Function) -> Iterator[pd.DataFrame]:
    for frame in frames:
        yield pd.DataFrame({"key": frame["key"], "value": [function(value) for value in frame["value"].tolist()]})


def map_in_pandas(events: DataFrame, function: Function) -> DataFrame:
    """``mapInPandas`` with a list comprehension, the fastest way to call Python for each row of a frame."""
    return events.select("key", "value").mapInPandas(partial(_frames, function=function), "key long, value long")


def arrow_udf(events: DataFrame, function: Function) -> DataFrame:
    """A scalar UDF."""
    return events.select("key", F.udf(function, "long", useArrow=True)("value").alias("value"))


WAYS = {"mapInPandas": map_in_pandas, "udf(useArrow=True)": arrow_udf}
