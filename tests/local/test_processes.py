"""Operators in worker processes: the same answers, errors and prints as in this process, whoever is killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
import types
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.graphs import Case, cases
from tests.local.test_driver import hits, run_into, two_stages
from tests.local.test_ordered_checkpoints import flow as ordered
from tests.spark.support import defined, differences
from tests.spark.test_agreement import as_lines, cut
from tracetypes import (
    Dataflow,
    Emit,
    EmitValue,
    Marker,
    OpKeyedOrdered,
    OpStateless,
    U,
    Unit,
    check,
    every,
    explain,
    sort,
)
from tracetypes import run as run_flow
from tracetypes.compiler.connectors.file_splits import Split
from tracetypes.compiler.connectors.program_rows import Rows
from tracetypes.compiler.local import placement, processes
from tracetypes.compiler.local.backend import LocalBackend
from tracetypes.compiler.local.frames import Frame, Kind
from tracetypes.compiler.local.options import LocalOptions, Processes
from tracetypes.compiler.local.placement import Cost, InPython, has_gil
from tracetypes.compiler.local.processes import ProcessRunner, WorkerPool
from tracetypes.compiler.local.worker_process import WorkerDied, WorkerProcess, close_all
from tracetypes.compiler.plan.facts import is_straight
from tracetypes.compiler.plan.in_python import in_python, names_of
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.spark.run import collect
from tracetypes.errors import RunError, TraceTypesError, UsageError

pytestmark = pytest.mark.skipif(not has_gil(), reason="there are no worker processes on an interpreter without a GIL")

QUICK: Final = set(Phase) - {Phase.shrink, Phase.explain}
ALWAYS: Final = LocalOptions(processes="always", least=5)


@pytest.fixture(scope="module", autouse=True)
def spare() -> Iterator[list[WorkerProcess]]:
    """Processes that are idle: the next run takes them, as a new one would have to import this module."""
    idle: list[WorkerProcess] = []
    real = close_all

    def take() -> WorkerProcess:
        while idle:
            one = idle.pop()
            if not one.ended:
                one.setup = None
                return one
            real([one])
        return WorkerProcess()

    def close(some: Sequence[WorkerProcess]) -> None:
        healthy = [one for one in some if not one.busy and not one.ended]
        idle.extend(healthy)
        real([one for one in some if one not in healthy])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "WorkerProcess", take)
        patch.setattr(processes, "close_all", close)
        yield idle
    real(idle)


# --------------------------------------------------------------------------------------------- random graphs


def agrees(case: Case, seed: int, workers: int) -> None:
    """Random operators of a random graph run in Python."""
    chance, checked = random.Random(seed), case.checked
    lines = {source.name: as_lines(checked.layout(source), case.rows[source.name]) for source in checked.graph.sources}
    whole = plan(checked, parallelism=workers, key_groups=max(case.key_groups, workers))
    planned = in_python(whole, {name for name in names_of(whole).values() if chance.random() < 0.7})
    drain = case.drain or is_straight(whole)
    expected = defined(case.flow, lines, drain=drain)
    rows = {name: Rows(cut(some, chance), chance.choice((None, 2))) for name, some in lines.items()}
    options = attrs.evolve(ALWAYS, reorder=chance.choice(("typed", "serial")), least=chance.choice((1, 5, 1 << 16)))
    backend: Any = LocalBackend(workers, options)
    assert differences(case.flow, collect(backend, planned, rows, drain=drain).answer, expected) == []


@settings(max_examples=12, phases=QUICK, suppress_health_check=list(HealthCheck), deadline=None)
@given(cases(most_operators=3), st.integers(0, 1 << 30))
def test_random_graphs_in_worker_processes(case: Case, seed: int) -> None:
    agrees(case, seed, 2)


@pytest.mark.nightly
@settings(max_examples=600, phases=QUICK, suppress_health_check=list(HealthCheck), deadline=None)
@given(cases(most_sources=4, most_operators=5), st.integers(0, 1 << 30), st.integers(2, 4))
def test_many_random_graphs_in_worker_processes(case: Case, seed: int, workers: int) -> None:
    agrees(case, seed, workers)


# ----------------------------------------------------------------------------------------------------- flows


@attrs.frozen
class Hit:
    """A hit of a page."""

    page: str
    ts: int


@attrs.frozen
class Scored(OpStateless[Unit, Hit, str, int]):
    """By page. No compiler looks into ``sorted``."""

    def on_item(self, key: Unit, value: Hit, emit: Emit[str, int]) -> None:
        emit(value.page, ord(sorted(value.page)[0]) * value.ts)


@attrs.frozen
class Steps(OpKeyedOrdered[str, int, int, list[int]]):
    """The differences of neighbours. Its states are objects."""

    def initial_state(self) -> list[int]:
        return [0]

    def on_item(self, state: list[int], key: str, value: int, emit: EmitValue[int]) -> list[int]:
        emit(value - state[-1])
        return [*state[-3:], value]

    def on_marker(self, state: list[int], key: str, marker: Marker, emit: EmitValue[int]) -> list[int]:
        emit(sum(state))
        return state


def scores(scored: OpStateless[Unit, Hit, str, int] | None = None) -> Dataflow:
    """Items go straight to the sink."""
    flow = Dataflow("scores")
    source = flow.source("web", U[Unit, Hit], markers=every(seconds=10, time=lambda hit: hit.ts, delay=10))
    flow.sink("out", source.through(scored or Scored()))
    return flow


def stepped(scored: OpStateless[Unit, Hit, str, int] | None = None) -> Dataflow:
    """Items go through a keyed operator."""
    flow = Dataflow("steps")
    source = flow.source("web", U[Unit, Hit], markers=every(seconds=10, time=lambda hit: hit.ts, delay=10))
    flow.sink("out", source.through(scored or Scored()).through(sort(by=lambda score: score)).through(Steps()))
    return flow


def rows(count: int = 100, seed: int = 1) -> list[Hit]:
    """Some of them late."""
    chance = random.Random(seed)
    return [Hit(chance.choice("abcdefgh"), max(0, at + chance.randint(-30, 8))) for at in range(count)]


def answers(flow: Dataflow, some: Sequence[Hit], path: Path, **options: Any) -> tuple[Any, ...]:
    """Rows, late rows and counts of a run of many epochs."""
    options = {"backend": "local", "parallelism": 2, "files_per_step": 1, **options}
    files = path / "in"
    files.mkdir(parents=True, exist_ok=True)
    for at in range(0, len(some), 20):
        lines = [f'{{"page": "{one.page}", "ts": {one.ts}}}\n' for one in some[at : at + 20]]
        (files / f"{at:05d}.jsonl").write_text("".join(lines))
    out = list[Any]()
    result = run_flow(flow, {"web": str(files)}, {"out": out}, order={"web": "name"}, **options)
    late = sorted((one.source, one.reason, str(one.row)) for one in result.late_rows)
    return sorted(out), late, result.rows


@pytest.mark.parametrize("make", [scores, stepped])
def test_the_same_answer_in_processes(tmp_path: Path, make: Callable[[], Dataflow], monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Counter[int]()
    real = WorkerProcess.ask

    def ask(self: WorkerProcess, frames: Iterable[Frame]) -> Iterator[Frame]:
        first, *more = frames
        asked[first.kind] += 1
        return real(self, [first, *more])

    here = answers(make(), rows(), tmp_path, processes="never")
    monkeypatch.setattr(WorkerProcess, "ask", ask)
    assert answers(make(), rows(), tmp_path, processes="always") == here
    assert len(here[0]) > 50
    assert here[1]
    assert asked[Kind.READ] >= 5
    assert (asked[Kind.STEP] >= 5) == (asked[Kind.STATE] >= 5) == (make is stepped)


def test_serial_order_has_the_same_bytes(tmp_path: Path) -> None:
    modes: tuple[tuple[int, Processes], ...] = ((1, "never"), (2, "never"), (2, "always"))
    written = set()
    for workers, mode in modes:
        options = LocalOptions(reorder="serial", least=1, processes=mode)
        written.add(run_into(tmp_path / f"{workers}{mode}", stepped(), {"web": hits(2, 60)["web"]}, workers, options))
    assert len(written) == 1
    assert written.pop().count(b"\n") > 30


# ---------------------------------------------------------------------------------------------------- crashes


@attrs.define
class Killer:
    """Kills the process that is asked for the ``n``th time, for each of some ``n``: before it has read the request, or a moment
    after."""

    chance: random.Random
    at: set[int]
    asked: int = 0
    killed: int = 0

    def ask(self, process: WorkerProcess, frames: Iterable[Frame], real: Callable[..., Iterator[Frame]]) -> Iterator[Frame]:
        """In place of :meth:`WorkerProcess.ask`."""
        self.asked += 1
        if self.asked in self.at:
            self.killed += 1
            if self.chance.random() < 0.4:
                os.kill(process.process.pid, signal.SIGKILL)
            else:
                delay = self.chance.choice((0.0, 0.0005, 0.002))
                threading.Timer(delay, self.kill, (process.process.pid,)).start()
        yield from real(process, frames)

    @staticmethod
    def kill(pid: int) -> None:
        """It may have ended meanwhile, with the run."""
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def run_with_kills(make: Callable[[], Dataflow], path: Path, seed: int, kills: int) -> tuple[tuple[Any, ...], int]:
    chance, real = random.Random(seed), WorkerProcess.ask
    first = answers(make(), rows(), path, processes="never")
    killer = Killer(chance, set(chance.sample(range(1, 8 if make is scores else 40), kills)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WorkerProcess, "ask", lambda self, frames: killer.ask(self, frames, real))
        assert answers(make(), rows(), path, processes="always") == first
    return first, killer.killed


@pytest.mark.parametrize("make", [scores, stepped])
def test_a_worker_that_is_killed_is_replaced(tmp_path: Path, make: Callable[[], Dataflow]) -> None:
    assert run_with_kills(make, tmp_path, 3, 2)[1] == 2


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("make", [scores, stepped])
def test_workers_that_are_killed_are_replaced(tmp_path: Path, make: Callable[[], Dataflow], seed: int) -> None:
    run_with_kills(make, tmp_path, seed, 2)


def test_a_broken_twin_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process goes on with what it holds from the epoch that failed."""
    here, real_ask = answers(stepped(), rows(), tmp_path, processes="never"), WorkerProcess.ask
    first = list[ProcessRunner]()
    real_init = ProcessRunner.__init__

    def init(self: ProcessRunner, *args: Any, **options: Any) -> None:
        real_init(self, *args, **options)
        if first:
            self.in_processes = first[0].in_processes
        first.append(self)

    steps = Counter[int]()

    def ask(self: WorkerProcess, frames: Iterable[Frame]) -> Iterator[Frame]:
        some = list(frames)
        steps[some[0].kind] += 1
        dies = some[0].kind == Kind.STEP and steps[Kind.STEP] == 3
        yield from real_ask(self, some)
        if dies:
            raise WorkerDied(0, -9)

    monkeypatch.setattr(WorkerProcess, "ask", ask)
    assert answers(stepped(), rows(), tmp_path, processes="always") == here
    steps.clear()
    monkeypatch.setattr(ProcessRunner, "__init__", init)
    monkeypatch.setattr(ProcessRunner, "_ready", lambda self, process: _same(first[0], process))
    try:
        assert answers(stepped(), rows(), tmp_path, processes="always") != here
    except RunError:
        assert len(first) > 1


_real_ready: Final = ProcessRunner._ready


def _same(first: ProcessRunner, process: WorkerProcess) -> bool:
    return process.setup is first or _real_ready(first, process)


@attrs.frozen
class Exits(OpStateless[Unit, Hit, str, int]):
    """Ends its process."""

    def on_item(self, key: Unit, value: Hit, emit: Emit[str, int]) -> None:
        if value.ts == 77:
            os._exit(7)
        emit(value.page, value.ts)


def test_TT223_an_epoch_that_no_worker_survives(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"ended with status 7, the 3rd time in micro-batch 3") as error:
        answers(scores(Exits()), [Hit("a", at) for at in range(100)], tmp_path, processes="always")
    assert error.value.code == "TT223"
    assert isinstance(error.value.__cause__, WorkerDied)


# ------------------------------------------------------------------------------------------- errors and prints


@attrs.frozen
class Fails(OpStateless[Unit, Hit, str, int]):
    """Divides by zero."""

    def on_item(self, key: Unit, value: Hit, emit: Emit[str, int]) -> None:
        print(f"at {value.ts}")
        emit(value.page, 100 // (value.ts - 55))


class Odd(Exception):
    """An error that cannot be pickled."""

    def __init__(self, one: object, other: object) -> None:
        super().__init__(f"{one} and {other}")
        self.lock = threading.Lock()


@attrs.frozen
class Odder(OpStateless[Unit, Hit, str, int]):
    """Raises it."""

    def on_item(self, key: Unit, value: Hit, emit: Emit[str, int]) -> None:
        raise Odd(sorted("ba"), key)


@pytest.mark.parametrize("op", [Fails(), Odder()])
def test_TT202_an_error_of_an_operator(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], op: OpStateless[Unit, Hit, str, int]
) -> None:
    shown = list[tuple[str, list[str]]]()
    for mode in ("never", "always"):
        with pytest.raises(TraceTypesError) as error:
            answers(scores(op), [Hit("a", at) for at in range(100)], tmp_path, processes=mode)
        assert error.value.code == "TT202"
        lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("at ")]
        shown.append((str(error.value), sorted(lines)))
    assert shown[0] == shown[1]
    assert f"{Path(__file__).name}:" in shown[0][0]
    assert isinstance(error.value.__cause__, ZeroDivisionError if isinstance(op, Fails) else RuntimeError)
    assert len(shown[0][1]) >= (50 if isinstance(op, Fails) else 0)


# ---------------------------------------------------------------------------------------------- when it pays


class Clock:
    """A clock that a test sets."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_what_pays() -> None:
    clock = Clock()
    idle, busy = Cost(clock), Cost(clock)
    for _ in range(50):  # a tenth of a core
        clock.now += 1.0
        idle.add(0.1)
    assert not idle.pays
    found = []
    for _ in range(16):
        clock.now += 0.25
        busy.add(0.2)
        found.append(busy.pays)
    assert found == sorted(found)
    assert (found[4], found[-1]) == (False, True)
    once = Cost(clock)
    clock.now += 3
    once.add(2.9)
    assert once.pays


def test_rows_of_parquet_decide_what_pays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def expected(rows: int, width: int, gone: bool = False) -> bool:
        path = tmp_path / f"{rows}-{width}-{gone}.parquet"
        table = pa.table({f"c{n}": np.random.default_rng(n).integers(0, 2**62, rows) for n in range(width)})
        pq.write_table(table, path, row_group_size=100)
        size = path.stat().st_size
        task = cast(Any, SimpleNamespace(split=tuple(Split(0, str(path), 0, size, 0, n, n + 1, parts=4) for n in (1, 3))))
        if gone:
            path.unlink()
        cost = Cost(Clock())
        cost.expect([task])
        return cost.pays

    monkeypatch.setattr(placement, "ROWS", 1000)
    monkeypatch.setattr(placement, "SMALL", 5000)
    assert expected(2400, 1)  # half of them are read
    assert not expected(1600, 1)
    assert not expected(1600, 20)  # many bytes, few rows
    assert not expected(2400, 1, gone=True)
    monkeypatch.setattr(placement, "SMALL", 50_000)
    assert not expected(2400, 1)


def test_cheap_flows_start_no_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spare: list[WorkerProcess]) -> None:
    started = list[int]()
    real = WorkerPool._new

    def new(self: WorkerPool) -> WorkerProcess:
        started.append(1)
        return real(self)

    monkeypatch.setattr(WorkerPool, "_new", new)
    monkeypatch.setattr(placement, "_cores", lambda: 2)
    here = answers(stepped(), rows(), tmp_path)
    assert not started
    monkeypatch.setattr(placement, "SECONDS", 0.0)  # in the middle of an epoch
    assert answers(stepped(), rows(), tmp_path) == here
    assert started
    started.clear()
    monkeypatch.undo()
    monkeypatch.setattr(WorkerPool, "_new", new)
    monkeypatch.setattr(placement, "_cores", lambda: 2)
    monkeypatch.setattr(placement, "TEXT", 100)
    assert answers(stepped(), rows(), tmp_path) == here
    assert started
    started.clear()
    assert answers(stepped(), rows(), tmp_path, parallelism=1, processes="always") == here
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    assert answers(stepped(), rows(), tmp_path, processes="always") == here
    assert not started


def planned(flow: Dataflow) -> Plan:
    return plan(check(flow), parallelism=2)


def test_what_calls_python() -> None:
    assert InPython.of(planned(scores())) == InPython(frozenset({(0, 0)}), frozenset())
    assert InPython.of(planned(stepped())) == InPython(frozenset({(0, 0)}), frozenset({0}))
    assert InPython.of(planned(two_stages())) == InPython(frozenset(), frozenset({0, 1}))
    over_columns = plan(ordered("interpolate"), parallelism=2)
    assert InPython.of(over_columns) == InPython(frozenset(), frozenset())
    assert InPython.of(in_python(over_columns, names_of(over_columns).values())).stages == {0}


def test_explain_says_so() -> None:
    text = explain(stepped(), backend="local", parallelism=2)
    assert text.count("in worker processes") == 2
    assert "in worker processes" not in explain(stepped(), backend="local")


@attrs.frozen
class Nowhere(Scored):
    """In a module that no other process can import."""


def test_TT402_what_cannot_be_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = answers(stepped(Nowhere()), rows(), tmp_path, processes="never")
    module = types.ModuleType("only_here")
    module.Nowhere = Nowhere  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "only_here", module)
    monkeypatch.setattr(Nowhere, "__module__", "only_here")
    with pytest.raises(UsageError, match="cannot be sent to another process: ModuleNotFoundError") as error:
        answers(stepped(Nowhere()), rows(), tmp_path, processes="always")
    assert error.value.code == "TT402"
    monkeypatch.setattr(placement, "_cores", lambda: 2)
    monkeypatch.setattr(placement, "SECONDS", 0.0)
    assert answers(stepped(Nowhere()), rows(), tmp_path) == here


# -------------------------------------------------------------------------------------------------- the end

PROGRAM: Final = """
    import os, sys, time
    import attrs
    import tracetypes
    from tracetypes import Dataflow, Emit, OpStateless, U, Unit, every

    print("imported", flush=True)

    @attrs.frozen
    class Hit:
        page: str
        ts: int

    @attrs.frozen
    class Slow(OpStateless[Unit, Hit, str, int]):
        def on_item(self, key: Unit, value: Hit, emit: Emit[str, int]) -> None:
            print("pid", os.getpid())
            while value.ts == 7:
                time.sleep(0.01)
            emit(value.page, value.ts)

    flow = Dataflow("slow")
    source = flow.source("web", U[Unit, Hit], markers=every(seconds=10, time=lambda hit: hit.ts))
    flow.sink("out", source.through(Slow()))
    out = []
    hits = [Hit("a", n) for n in (1, 7 if sys.argv[1] == "forever" else 2)]
    tracetypes.run(flow, {"web": hits}, {"out": out}, backend="local", parallelism=2, processes="always")
    print(sorted(out))
"""


def script(path: Path, text: str, *arguments: str) -> subprocess.Popen[str]:
    """A script without ``if __name__``, as a process with a session of its own."""
    (path / "script.py").write_text(text)
    command = [sys.executable, str(path / "script.py"), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def is_alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def test_a_script_and_its_workers(tmp_path: Path) -> None:
    """Its classes are in ``__main__``, and it is not imported again."""
    with script(tmp_path, textwrap.dedent(PROGRAM), "once") as one:
        out, err = one.communicate(timeout=60)
    assert out == "imported\n[('a', 1), ('a', 2)]\n"
    assert one.returncode == 0
    assert all(line.startswith("pid") for line in err.splitlines() if line.split()[:1] == ["pid"])


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
def test_no_worker_outlives_its_run(tmp_path: Path) -> None:
    """Also one that never ends its work."""
    with script(tmp_path, textwrap.dedent(PROGRAM), "forever") as one:
        assert one.stderr is not None
        lines = (line for line in one.stderr if line.startswith("pid"))
        pids = {int(next(lines).split()[1]) for _ in range(2)}
        assert all(map(is_alive, pids))
        one.kill()
        deadline = time.monotonic() + 20
        while any(map(is_alive, pids)) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not any(map(is_alive, pids))
