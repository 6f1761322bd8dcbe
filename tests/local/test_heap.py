"""The process keeps its memory while a run goes on, and gives it back behind it."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tracetypes.compiler.local import heap
from tracetypes.compiler.local.heap import ARENAS, BY_USER, KEPT, LARGEST, KeptMemory


class Library:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int, int]] = []

    def mallopt(self, parameter: int, value: int) -> int:
        self.calls.append(("mallopt", parameter, value))
        return 1

    def malloc_trim(self, pad: int) -> int:
        self.calls.append(("malloc_trim", pad, 0))
        return 1


def test_the_first_segment_begins_and_the_last_one_ends_it() -> None:
    library = Library()
    memory = KeptMemory(lambda: library)
    with memory:
        assert [call[2] for call in library.calls] == [LARGEST, KEPT]
        with memory:
            pass
        assert len(library.calls) == 2
    assert library.calls[-1][0] == "malloc_trim"
    assert {value for name, _, value in library.calls[2:] if name == "mallopt"} == {32 << 20, 64 << 20}


@pytest.mark.skipif(heap._adjustable() is None, reason="the C library is not glibc")
@pytest.mark.parametrize("chosen", [None, "6"])
def test_inputs_with_many_threads_have_few_heaps(tmp_path: Path, chosen: str | None) -> None:
    """As clients of Kafka, whose threads there are before the segment starts. What the user chooses stays."""
    script = f"""
import ctypes, threading
import attrs
from tracetypes import Dataflow, U, every, run
from tracetypes.compiler.local.backend import LocalBackend

@attrs.frozen
class Row:
    key: str
    ts: int

barrier = threading.Barrier(40)

def work():
    barrier.wait()
    blocks = [bytearray(4096) for _ in range(100)]
    barrier.wait()

def opened(opening, whole=LocalBackend.open):
    threads = [threading.Thread(target=work) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return whole(opening)

LocalBackend.open = staticmethod(opened)
flow = Dataflow("heaps")
flow.sink("out", flow.source("rows", U[str, Row], key=lambda row: row.key, markers=every(seconds=1, time=lambda row: row.ts)))
out = []
run(flow, inputs={{"rows": [Row("a", 1)]}}, outputs={{"out": out}}, backend="local")
assert len(out) == 1, out
library = ctypes.CDLL(None)
library.fopen.restype = ctypes.c_void_p
file = ctypes.c_void_p(library.fopen({str(tmp_path / "heaps.xml").encode()!r}, b"w"))
library.malloc_info(0, file)
library.fclose(file)
"""
    environment = dict(os.environ) | ({} if chosen is None else {"MALLOC_ARENA_MAX": chosen})
    ran = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    heaps = (tmp_path / "heaps.xml").read_text().count("<heap nr")
    assert heaps <= ARENAS if chosen is None else heaps == int(chosen)


@pytest.mark.parametrize("name", BY_USER)
def test_what_the_user_has_chosen_stays(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "1000000" if name.startswith("MALLOC") else "glibc.malloc.arena_max=2")
    assert heap._adjustable() is None


@pytest.mark.skipif(heap._adjustable() is None, reason="the C library is not glibc")
def test_pages_of_columns_are_not_mapped_again() -> None:
    def faults() -> int:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(20):
            np.ones(6_000_000)  # 48 MB, 11,719 pages
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    outside = faults()
    with KeptMemory():
        np.ones(6_000_000)
        inside = faults()
    assert inside * 4 < outside


@pytest.mark.parametrize(
    ("before", "chosen", "found"),
    [("", None, "10000"), ("", "50", "50"), ("import pyarrow", None, "None")],
    ids=["unset", "chosen", "too late"],
)
def test_the_allocator_of_arrow_keeps_free_memory(before: str, chosen: str | None, found: str) -> None:
    """If the user has not chosen, and Arrow is not there already."""
    script = f"""
{before}
import os
from tracetypes.compiler.backend.compilation import PURGE_DELAY
from tracetypes.running import engine_of
engine_of("local")
print(os.environ.get(PURGE_DELAY[0]))
"""
    environment = {name: value for name, value in os.environ.items() if name != "MIMALLOC_PURGE_DELAY"}
    environment |= {} if chosen is None else {"MIMALLOC_PURGE_DELAY": chosen}
    ran = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert (ran.stdout.strip(), ran.stderr) == (found, "")
