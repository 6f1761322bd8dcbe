"""The ordered runtime on an interpreter without a GIL, where one is at hand."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import attr
import pytest

VARIABLE: Final = "TRACETYPES_FREE_THREADED"
"""Names an interpreter; python3.14t of the path otherwise."""

ABOUT: Final = """
import sys, sysconfig
print(sysconfig.get_config_var("Py_GIL_DISABLED") == 1 or getattr(sys.flags, "nogil", False))
"""
"""Whether it has no GIL; in the fork of Python 3.12 from before PEP 703 a flag says so."""

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
    root = Path(__file__).parents[2]
    places = os.pathsep.join([str(root), str(Path(attr.__file__).parents[1])])
    environment = {**os.environ, "PYTHONPATH": places, "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run([interpreter, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=300, check=False)
    return ran.stdout.strip() or ran.stderr


def test_the_script_is_right_with_a_gil() -> None:
    assert outcome(sys.executable) == "right"


def test_without_a_gil() -> None:
    interpreter = os.environ.get(VARIABLE) or shutil.which("python3.14t")
    if interpreter is None:
        pytest.skip(f"python3.14t is not on the path, and {VARIABLE} names no interpreter without a GIL")
    assert subprocess.run([interpreter, "-c", ABOUT], capture_output=True, text=True, check=True).stdout.strip() == "True"
    assert outcome(interpreter) == "right"
