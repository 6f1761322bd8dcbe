"""A dataflow as DataFrames of Spark Connect. It needs the extra ``connect``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bags import defined
from tests.spark.connect import BAGS, counts
from tests.spark.test_transform import write
from tracetypes import Item, check


@pytest.mark.nightly
def test_the_same_rows_by_connect(tmp_path: Path) -> None:
    pytest.importorskip("grpc_status")
    pytest.importorskip("zstandard")
    write(tmp_path / "in", BAGS)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-m", "tests.spark.connect", str(tmp_path)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=500)
    answers = json.loads(done.stdout.splitlines()[-1])
    checked = check(counts())

    def wanted(bags: list[list[object]], *, drain: bool) -> list[list[object]]:
        trace = defined(checked, {"meters": bags}, drain=drain).trace
        closed = [one for one in trace if isinstance(one, Item)]
        return sorted([one.key, one.value] for one in closed)

    assert answers["static"] == wanted([[row for bag in BAGS for row in bag]], drain=True)
    assert answers["stream"] == wanted([list(bag) for bag in BAGS], drain=False)
    assert answers["static"] != answers["stream"]
