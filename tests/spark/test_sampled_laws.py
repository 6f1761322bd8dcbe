"""The laws of operators are checked on rows of a run on Spark, too."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

import tracetypes
from tests.test_sampled_laws import BROKEN, ROWS, CountsInAGlobal, LingersLonger, flow_of
from tracetypes.errors import LawBroken


@pytest.mark.parametrize("cls", [CountsInAGlobal, LingersLonger])
def test_a_broken_twin_is_found(spark: SparkSession, cls: type[Any]) -> None:
    with pytest.raises(LawBroken) as found:
        tracetypes.run(flow_of(cls()), inputs={"rows": ROWS}, outputs={"out": []}, backend="spark")
    assert found.value.code == BROKEN[cls]
