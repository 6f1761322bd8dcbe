"""The ordered runtime, and the local backend, on an interpreter without a GIL, where one is at hand."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import attr
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROOT: Final = Path(__file__).parents[2]

VARIABLE: Final = "TRACETYPES_FREE_THREADED"
"""Names an interpreter; python3.14t of the path otherwise."""

ABOUT: Final = """
import sys, sysconfig
print(sysconfig.get_config_var("Py_GIL_DISABLED") == 1 or getattr(sys.flags, "nogil", False))
"""
"""Whether it has no GIL; in the fork of Python 3.12 from before PEP 703 a flag says so."""

FIRST_RUN: Final = """
import sys
import attrs
from tracetypes import Dataflow, U, every, run
from tracetypes.stdlib import aggregate, count

@attrs.frozen
class Hit:
    page: str
    ts: int

flow = Dataflow("hits")
times = every(seconds=10, time=lambda hit: hit.ts, delay=10)
flow.sink("counts", flow.source("web", U[str, Hit], key=lambda hit: hit.page, markers=times).through(aggregate(count())))
counts = []
run(flow, {"web": sys.argv[1]}, {"counts": counts}, backend="local", parallelism=2)
print(sorted(counts))
"""
"""The first columns that the process converts are in two workers at once."""

NEEDED: Final = ("hypothesis", "numpy", "pandas", "pyarrow", "pyspark", "pytest")
"""What the tests of the backend import. PySpark only gives helpers, so it need not support the interpreter."""

BACKEND: Final = ("test_driver", "test_dags", "test_agreement", "test_read_ahead", "test_streams")
"""Tests in which several threads run plans: random dataflows against the interpreter, on 1 to 8 workers, and their twins."""

SCRIPT: Final = """
from tracetypes.compiler.local.ordered.flow import Flow, Scheme, Settings
from tracetypes.compiler.local.ordered.heuristics import HEURISTICS
from tracetypes.compiler.local.ordered.marks import ALL, Mark
from tracetypes.compiler.local.ordered.operators import Edge, Kind, Operator
from tracetypes.compiler.local.ordered.scheduler import Scheduler
from tracetypes.compiler.local.ordered.workers import Workers

PARTITIONS = 5

class At(Mark):
    def __init__(self, number): self.number = number

def units():
    for number in range(3000):
        yield At(number) if number % 100 == 99 else number

def expected():
    sums, out = [0] * PARTITIONS, []
    for unit in units():
        if isinstance(unit, At):
            out += [*sums, ("#", unit.number)]
        else:
            sums[unit * 7 % PARTITIONS] += unit * 7
            out.append(sums[unit * 7 % PARTITIONS])
    return out

def run(scheme, heuristic, workers):
    sums, out = [0] * PARTITIONS, []

    def count(partition, unit):
        if isinstance(unit, At):
            return (sums[partition],)
        sums[partition] += unit
        return (sums[partition],)

    first = Operator(name="first", kind=Kind.STATELESS, process=lambda u: (u if isinstance(u, At) else u * 7,), budget=200)
    second = Operator(name="second", kind=Kind.PARTITIONED, process=count, partitions=PARTITIONS)
    split = lambda u: ((ALL, u),) if isinstance(u, At) else ((u % PARTITIONS, u),)
    flow = Flow([first, second], [Edge(first, second, prepare=split)], {"second": out.extend}, Settings(scheme=scheme, size=16))
    scheduler = Scheduler(flow, HEURISTICS[heuristic](), time_slice=1e-5, window=1e-3)
    crew = Workers(scheduler, workers)
    crew.start()
    for unit in units():
        scheduler.offer(first, unit)
    scheduler.close()
    crew.join()
    return [("#", one.number) if isinstance(one, At) else one for one in out]

right = expected()
for scheme in Scheme:
    for heuristic in HEURISTICS:
        for workers in (1, 4):
            assert run(scheme, heuristic, workers) == right, (scheme, heuristic, workers)
print("right")
"""


def outcome(interpreter: str) -> str:
    """What the script prints. attrs is found where it is for this interpreter."""
    places = os.pathsep.join([str(ROOT), str(Path(attr.__file__).parents[1])])
    environment = {**os.environ, "PYTHONPATH": places, "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run([interpreter, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=300, check=False)
    return ran.stdout.strip() or ran.stderr


def test_the_script_is_right_with_a_gil() -> None:
    assert outcome(sys.executable) == "right"


@pytest.fixture
def interpreter() -> str:
    """One without a GIL."""
    found = os.environ.get(VARIABLE) or shutil.which("python3.14t")
    if found is None:
        pytest.skip(f"python3.14t is not on the path, and {VARIABLE} names no interpreter without a GIL")
    assert said(found, ABOUT) == "True"
    return found


def said(interpreter: str, script: str) -> str:
    """What a script prints."""
    return subprocess.run([interpreter, "-c", script], capture_output=True, text=True, check=True).stdout.strip()


def test_the_runtime(interpreter: str) -> None:
    assert outcome(interpreter) == "right"


def need(interpreter: str, *names: str) -> None:
    """Skip if the interpreter cannot import all of these."""
    missing = said(interpreter, f"import importlib.util as u; print(*(n for n in {names} if u.find_spec(n) is None))")
    if missing:
        pytest.skip(f"{interpreter} has no {missing}")


def test_the_first_columns(interpreter: str, tmp_path: Path) -> None:
    """Arrow imports pandas for them."""
    need(interpreter, "attrs", "cloudpickle", "numpy", "pandas", "pyarrow")
    files = tmp_path / "web"
    files.mkdir()
    for number in range(6):
        rows = {"page": [f"p{at % 3}" for at in range(300_000)], "ts": [at % 10 for at in range(300_000)]}
        pq.write_table(pa.table(rows), files / f"{number}.parquet")
    script = tmp_path / "first_run.py"
    script.write_text(FIRST_RUN)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [interpreter, str(script), str(files)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert ran.stdout.strip() == str([(f"p{at}", 600_000) for at in range(3)]), ran.stderr


def test_the_backend(interpreter: str) -> None:
    need(interpreter, *NEEDED)
    modules = [f"tests/local/{name}.py" for name in BACKEND]
    # A package that asks for the GIL, as pandas 2 does, does not get it.
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHON_GIL": "0"}
    command = [interpreter, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *modules]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert ran.returncode == 0, ran.stdout[-5_000:] + ran.stderr[-2_000:]
