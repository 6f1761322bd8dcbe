"""Connectors of one's own: the example of ``docs/connectors.md`` as an installed package, and what is said of bad ones."""

from __future__ import annotations

import ast
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import attrs
import pytest

from tests.connector_twins import (
    SINKS,
    Changing,
    Failing,
    Falling,
    Forgetful,
    Growing,
    Lists,
    Numbers,
    OddOffsets,
    OddRows,
    OddSplits,
    Open,
    Skipping,
    SkippingSplits,
    Talking,
)
from tests.pages import ROOT, blocks
from tracetypes import (
    ROW_POSITION,
    Dataflow,
    EmitValue,
    LawBroken,
    Marker,
    O,
    OpKeyedOrdered,
    RunError,
    Stream,
    U,
    Unit,
    UsageError,
    csv,
    every,
    run,
    start,
)
from tracetypes.compiler.connectors import installed
from tracetypes.compiler.connectors.registry import connector_of_kind, known_schemes
from tracetypes.compiler.store.run_store import RunStore
from tracetypes.connectors import Connector, SourceRequest
from tracetypes.stdlib import aggregate, count, key_by
from tracetypes.testing import check_connector

EXAMPLE, TRIAL = blocks((ROOT / "docs" / "connectors.md").read_text(encoding="utf-8"), "python")


@attrs.frozen
class Click:
    page: str
    ts: int


def counts(format: Any = None) -> Dataflow:
    flow = Dataflow("counts")
    markers = every(seconds=100, time=lambda click: click.ts)
    clicks = flow.source("clicks", U[Unit, Click], markers=markers, format=format)
    by_page = clicks.through(key_by(lambda key, click: click.page, to=str))
    flow.sink("counts", by_page.through(aggregate(count())), marker="until")
    return flow


@attrs.frozen
class Last(OpKeyedOrdered[str, Click, int, int]):
    """The time of the last click of each page in each block."""

    def initial_state(self) -> int:
        return 0

    def on_item(self, state: int, key: str, value: Click, emit: EmitValue[int]) -> int:
        return value.ts

    def on_marker(self, state: int, key: str, marker: Marker, emit: EmitValue[int]) -> int:
        emit(state)
        return state


def package(site: Path, name: str, program: str, points: str) -> None:
    """A package as pip installs it. ``points``: lines of its entry points."""
    site.mkdir(exist_ok=True)
    (site / f"{name}.py").write_text(program, encoding="utf-8")
    about = site / f"{name}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[tracetypes.connectors]\n{points}\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory of packages, with that of the page."""
    site = tmp_path / "site"
    package(site, "shelves", EXAMPLE, "shelf = shelves:connector")
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setattr(installed, "_LOADED", {})
    yield site
    for name in ("shelves", "broken"):
        sys.modules.pop(name, None)


CLICKS = [{"page": f"page {at % 7}", "ts": at} for at in range(2500)]


def fill(file: Path, rows: list[dict[str, Any]], first: int = 1) -> None:
    with closing(sqlite3.connect(file)) as base, base:
        base.execute("CREATE TABLE IF NOT EXISTS clicks (id INTEGER PRIMARY KEY, page TEXT, ts INTEGER)")
        base.executemany("INSERT INTO clicks VALUES (?, ?, ?)", [(first + at, *row.values()) for at, row in enumerate(rows)])


def rows_in(file: Path, table: str) -> Counter[Any]:
    with closing(sqlite3.connect(file)) as base:
        return Counter(base.execute(f"SELECT * FROM {table}"))


def expected(tmp_path: Path, rows: list[dict[str, Any]]) -> Counter[Any]:
    """Keys and values of a run without connectors."""
    into: list[Any] = []
    run(counts(), {"clicks": [Click(**row) for row in rows]}, {"counts": into}, backend="local")
    return Counter(into)


# ------------------------------------------------------------------------------------------------------- the page


def test_the_page_as_it_stands(tmp_path: Path) -> None:
    """The example, and its trial, in an empty folder."""
    (tmp_path / "page.py").write_text(f"{EXAMPLE}\n{TRIAL}", encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "page.py"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_page_names_all_of_both_protocols() -> None:
    """Its tables, and its example, have each method."""
    names = {
        one.name: {part.name for part in one.body if isinstance(part, ast.FunctionDef)}
        for one in ast.parse(EXAMPLE).body
        if isinstance(one, ast.ClassDef)
    }
    assert names["TableSource"] >= {"identity", "begin", "end", "splits", "read"}
    assert names["TableSink"] >= {"identity", "begin", "last", "write", "close"}


# ----------------------------------------------------------------------------------------------------------- runs


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_run_from_table_to_table(site: Path, tmp_path: Path, parallelism: int) -> None:
    file = tmp_path / "shop.db"
    fill(file, CLICKS)
    address = f"shelf://{file}/"
    options: dict[str, Any] = {"backend": "local", "checkpoint": tmp_path / "checkpoint", "parallelism": parallelism}
    run(counts(), {"clicks": address + "clicks"}, {"counts": address + "counts"}, drain=False, **options)
    before = sum(rows_in(file, "counts").values())
    assert 0 < before < sum(expected(tmp_path, CLICKS).values())  # the last block is open
    more = [{"page": "page 1", "ts": 2500 + at} for at in range(300)]
    fill(file, more, 2501)
    run(counts(), {"clicks": address + "clicks"}, {"counts": address + "counts"}, **options)
    found = Counter((key, value) for key, value, _ in rows_in(file, "counts").elements())
    assert found == expected(tmp_path, [*CLICKS, *more])


def test_processes_read_a_source(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They get the source, and not the address."""
    monkeypatch.setenv("TRACETYPES_PROCESSES", "always")
    file = tmp_path / "shop.db"
    fill(file, CLICKS)
    into: list[Any] = []
    run(counts(), {"clicks": f"shelf://{file}/clicks"}, {"counts": into}, backend="local", parallelism=2)
    assert Counter(into) == expected(tmp_path, CLICKS)


class Crash(Exception):
    pass


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("at", [1, 2])
def test_a_run_that_dies_at_its_commit_writes_each_row_once(site: Path, tmp_path: Path, when: str, at: int) -> None:
    """The table has more rows when it goes on: they belong to a later epoch, because those of this one may be visible."""
    file, rows = tmp_path / "shop.db", [{"page": f"page {at % 7}", "ts": at} for at in range(15_000)]
    fill(file, rows[:12_000])  # two epochs
    commit, calls = RunStore.commit, list[int]()

    def dies(self: RunStore, number: int, record: Any) -> None:
        calls.append(number)
        if len(calls) == at and when == "before":
            raise Crash
        commit(self, number, record)
        if len(calls) == at:
            raise Crash

    def go(*, drain: bool) -> None:
        addresses = {"clicks": f"shelf://{file}/clicks"}, {"counts": f"shelf://{file}/counts"}
        run(counts(), *addresses, backend="local", checkpoint=tmp_path / "checkpoint", drain=drain)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunStore, "commit", dies)
        with pytest.raises(RunError, match="Crash"):
            go(drain=False)
    fill(file, rows[12_000:], 12_001)
    go(drain=True)
    assert len(calls) == at
    found = Counter((key, value) for key, value, _ in rows_in(file, "counts").elements())
    assert found == expected(tmp_path, rows)


FLOW = """
import attrs
from tracetypes import Dataflow, U, Unit, every
from tracetypes.stdlib import aggregate, count, key_by


@attrs.frozen
class Click:
    page: str
    ts: int


flow = Dataflow("counts")
clicks = flow.source("clicks", U[Unit, Click], markers=every(seconds=100, time=lambda click: click.ts))
flow.sink("counts", clicks.through(key_by(lambda key, click: click.page, to=str)).through(aggregate(count())), marker="until")
"""


def killed(tmp_path: Path, backend: str, times: int, choice: random.Random) -> int:
    """Run the flow of ``tmp_path`` by the command line from table to table, with ``kill -9`` when its output has grown. How often
    it was killed."""
    file = tmp_path / "shop.db"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path / "site"), str(ROOT)])}
    command = [sys.executable, "-m", "tracetypes", "run", "flow.py", "--backend", backend, "--checkpoint", "checkpoint"]
    command += ["--parallelism", "2", "--input", f"clicks=shelf://{file}/clicks", "--output", f"counts=shelf://{file}/counts"]

    def size() -> int:
        try:
            return rows_in(file, "counts").total()
        except sqlite3.OperationalError:
            return 0

    kills = 0
    while True:
        until = size() + choice.randrange(1, 60) if kills < times else None
        with subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, start_new_session=True) as process:
            while process.poll() is None and until is not None:
                if size() >= until:
                    os.killpg(process.pid, signal.SIGKILL)
                    break
                time.sleep(0.002)
            said = process.communicate()[1].decode()
        kills += process.returncode == -signal.SIGKILL
        if process.returncode != -signal.SIGKILL:
            assert process.returncode == 0, said
            return kills


@pytest.mark.parametrize("times", [1, pytest.param(15, marks=pytest.mark.nightly)])
def test_kill_9_between_tables(tmp_path: Path, times: int) -> None:
    package(tmp_path / "site", "shelves", EXAMPLE.replace("LARGEST = 1000", "LARGEST = 20"), "shelf = shelves:connector")
    (tmp_path / "flow.py").write_text(FLOW)
    rows = [{"page": f"page {at % 7}", "ts": at} for at in range(5000)]
    fill(tmp_path / "shop.db", rows)
    assert killed(tmp_path, "local", times, random.Random(5)) > 0
    found = Counter((key, value) for key, value, _ in rows_in(tmp_path / "shop.db", "counts").elements())
    assert found == expected(tmp_path, rows)


def test_a_run_that_does_not_follow_reads_what_was_there(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However fast the table grows."""
    import shelves  # type: ignore[import-not-found]

    file, reads = tmp_path / "shop.db", list[int]()
    fill(file, CLICKS)
    read = shelves.TableSource.read

    def grows(self: Any, split: Any) -> Any:
        reads.append(0)
        fill(file, [{"page": "late", "ts": 9999}], 10_000 + len(reads))
        return read(self, split)

    monkeypatch.setattr(shelves, "LARGEST", 100)  # three epochs
    monkeypatch.setattr(shelves.TableSource, "read", grows)
    into: list[Any] = []
    run(counts(), {"clicks": f"shelf://{file}/clicks"}, {"counts": into}, backend="local")
    assert Counter(into) == expected(tmp_path, CLICKS)
    assert len(reads) == 25


@pytest.mark.parametrize("parallelism", [1, 3])
def test_rows_are_in_the_order_of_the_splits(site: Path, tmp_path: Path, parallelism: int) -> None:
    """So the last row of a page is known, and which rows are late."""
    flow = Dataflow("last")
    markers = every(seconds=100, delay=50, time=lambda click: click.ts)
    source = flow.source("clicks", O[str, Click], key=lambda click: click.page, markers=markers, ordered_by=ROW_POSITION)
    flow.sink("counts", source.through(Last()))
    rows: list[dict[str, Any]] = [{"page": f"page {at % 7}", "ts": at // 2 if at % 900 else 0} for at in range(9000)]
    fill(tmp_path / "shop.db", rows)
    found: list[Any] = []
    wanted: list[Any] = []
    address = f"shelf://{tmp_path}/shop.db/clicks"
    result = run(flow, {"clicks": address}, {"counts": found}, backend="local", parallelism=parallelism)
    other = run(flow, {"clicks": [Click(**row) for row in rows]}, {"counts": wanted}, backend="local")
    assert (Counter(found), result.late) == (Counter(wanted), other.late)
    assert result.late["clicks"] > 5


def test_values_that_do_not_fit_are_rejects(site: Path, tmp_path: Path) -> None:
    file = tmp_path / "shop.db"
    fill(file, [{"page": "a", "ts": 1}, {"page": None, "ts": 2}, {"page": "b", "ts": 3}])
    into: list[Any] = []
    result = run(counts(), {"clicks": f"shelf://{file}/clicks"}, {"counts": into}, backend="local")
    assert (sorted(into), result.rejects) == ([("a", 1), ("b", 1)], {"clicks": 1})


def test_a_run_that_follows(site: Path, tmp_path: Path) -> None:
    """It is not bounded: the source is asked again and again."""
    file, into = tmp_path / "shop.db", list[Any]()
    fill(file, CLICKS[:200])
    running = start(counts(), {"clicks": f"shelf://{file}/clicks"}, {"counts": into}, backend="local", follow=True)
    until = time.monotonic() + 30
    while not running.metrics["epochs"] and running.running and time.monotonic() < until:
        time.sleep(0.01)
    fill(file, CLICKS[200:400], 201)
    running.drain()
    assert Counter(into) == expected(tmp_path, CLICKS[:400])


# ------------------------------------------------------------------------------------------------ what is refused


def go(address: str, tmp_path: Path, *, into: Any = None, flow: Dataflow | None = None) -> Any:
    outputs = {"counts": [] if into is None else into}
    return run(flow or counts(), {"clicks": address}, outputs, backend="local", checkpoint=tmp_path / "checkpoint")


def test_TT402_a_scheme_that_nobody_has(site: Path, tmp_path: Path) -> None:
    match = r"TT402 nowhere://x/y: there is no connector for nowhere://\n.*kafka://, .*postgres://, .*s3://, shelf://, tcp"
    with pytest.raises(UsageError, match=match):
        go("nowhere://x/y", tmp_path)
    (tmp_path / "in.jsonl").write_text('{"page": "a", "ts": 1}\n')
    with pytest.raises(UsageError, match=match):
        go(str(tmp_path / "in.jsonl"), tmp_path, into="nowhere://x/y")
    assert "shelf://" in known_schemes()


@pytest.mark.parametrize("scheme", ["hdfs", "s3a", "abfss"])
def test_file_systems_of_spark_are_no_unknown_schemes(tmp_path: Path, scheme: str) -> None:
    with pytest.raises(UsageError, match=f"reads {scheme}://x/y, which is not on this machine's disks"):
        go(f"{scheme}://x/y", tmp_path)


def test_TT402_two_packages_have_one_scheme(site: Path, tmp_path: Path) -> None:
    package(site, "broken", EXAMPLE, "shelf = broken:connector")
    with pytest.raises(UsageError, match=r"TT402 (broken and shelves|shelves and broken) have a connector for shelf:// each"):
        go("shelf:///x/y", tmp_path)


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import nothing_like_that", "TT402 the connector for half:// of broken cannot be loaded: ModuleNotFoundError"),
        ("", "TT402 the connector for half:// of broken cannot be loaded: AttributeError"),
        ("connector = 5", "TT402 the entry point half = broken:connector of broken is a int, and no connector"),
        ("connector = Connector()", r"TT402 .*\n.*reads half:///x/y, which is no input"),
        (
            "def source(request): raise OSError('away')\nconnector = Connector(source=source)",
            "TT208 half:///x/y cannot be read: OSError: away",
        ),
    ],
)
def test_a_connector_that_is_none(site: Path, tmp_path: Path, program: str, said: str) -> None:
    package(site, "broken", f"from tracetypes.connectors import Connector\n{program}", "half = broken:connector")
    with pytest.raises((UsageError, RunError), match=said):
        go("half:///x/y", tmp_path)


def test_TT402_a_connector_without_a_sink(site: Path, tmp_path: Path) -> None:
    package(site, "broken", EXAMPLE.replace(", sink=TableSink)", ")"), "half = broken:connector")
    fill(tmp_path / "shop.db", CLICKS[:5])
    with pytest.raises(UsageError, match="TT402 --output half:///x/y: nothing is written to half://"):
        go(f"half://{tmp_path}/shop.db/clicks", tmp_path, into="half:///x/y")


@pytest.mark.parametrize("scheme", ["rows", "files", "table"])
def test_a_scheme_that_is_a_kind_of_ours(site: Path, tmp_path: Path, scheme: str) -> None:
    """It is opened by its own connector alone."""
    package(site, "broken", EXAMPLE.replace("(source=TableSource, ", "("), f"{scheme} = broken:connector")
    with pytest.raises(UsageError, match=f"source 'clicks' reads {scheme}:///x/y, which is no input"):
        go(f"{scheme}:///x/y", tmp_path)
    flow, address = counts(), f"{scheme}://{tmp_path}/out.db/counts"
    flow.sink("folders", Stream(flow, 1), partition_by="key")
    with pytest.raises(UsageError, match="partition_by"):
        run(flow, {"clicks": []}, {"counts": [], "folders": address}, backend="local", checkpoint=tmp_path / "checkpoint")


def test_TT207_a_format_is_refused(site: Path, tmp_path: Path) -> None:
    fill(tmp_path / "shop.db", CLICKS[:5])
    with pytest.raises(RunError, match=r"TT207 source 'clicks': shelf://.* gives columns, and no Csv"):
        go(f"shelf://{tmp_path}/shop.db/clicks", tmp_path, flow=counts(csv()))


def test_TT203_a_column_of_another_type(site: Path, tmp_path: Path) -> None:
    fill(tmp_path / "shop.db", [{"page": "a", "ts": "soon"}])
    with pytest.raises(RunError, match=r"TT203 .*the column 'ts'"):
        go(f"shelf://{tmp_path}/shop.db/clicks", tmp_path)


def test_TT208_a_source_that_fails(site: Path, tmp_path: Path) -> None:
    fill(tmp_path / "shop.db", CLICKS[:5])
    with pytest.raises(RunError, match=r"TT208 shelf://.*/none cannot be read: OperationalError: no such table: none"):
        go(f"shelf://{tmp_path}/shop.db/none", tmp_path)


@pytest.mark.parametrize(
    ("twin", "said"),
    [
        (Open, "its source cannot be sent to workers: .*sqlite3.Connection.*\\n.*when it needs it"),
        (OddOffsets, "TypeError: end\\(\\) is {'at': {1, 2}}, which is no plain data"),
        (OddSplits, "TypeError: a split is <object object at .*>, which is no plain data"),
        (OddRows, "TypeError: read\\(\\) gives \\[1, 2\\], and no table or record batch of Arrow"),
    ],
)
def test_TT208_what_no_run_can_take(site: Path, tmp_path: Path, twin: type[Numbers], said: str) -> None:
    program = f"from tests.connector_twins import {twin.__name__}\nfrom tracetypes.connectors import Connector\n"
    program += f"connector = Connector(source=lambda request: {twin.__name__}())\n"
    package(site, "broken", program, "odd = broken:connector")
    with pytest.raises(RunError, match=f"TT208 odd://x cannot be read: {said}"):
        go("odd://x", tmp_path)


@pytest.mark.parametrize("end", ["source 'clicks'", "sink 'counts'"])
def test_TT218_data_that_were_made_anew(site: Path, tmp_path: Path, end: str) -> None:
    """In a file of the same name, which may have the same inode."""
    file, out = tmp_path / "shop.db", tmp_path / "out.db"
    fill(file, CLICKS)
    addresses: Any = {"clicks": f"shelf://{file}/clicks"}, {"counts": f"shelf://{out}/counts"}
    run(counts(), *addresses, backend="local", checkpoint=tmp_path / "checkpoint", drain=False)
    if end.startswith("sink"):
        out.unlink()
    else:
        file.unlink()
        fill(file, [{"page": "other", "ts": at} for at in range(2500)])
    with pytest.raises(RunError, match=f"TT218 {end}: shelf://.* is another one than it began with"):
        run(counts(), *addresses, backend="local", checkpoint=tmp_path / "checkpoint", drain=False)


def test_TT209_a_copy_of_a_checkpoint_is_shut_out(site: Path, tmp_path: Path) -> None:
    file = tmp_path / "shop.db"
    fill(file, CLICKS)

    def go(checkpoint: str) -> None:
        addresses = {"clicks": f"shelf://{file}/clicks"}, {"counts": f"shelf://{tmp_path}/out.db/counts"}
        run(counts(), *addresses, backend="local", checkpoint=tmp_path / checkpoint, drain=False)

    go("one")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    fill(file, [{"page": "a", "ts": 3000}], 2501)
    go("one")
    with pytest.raises(RunError, match=r"TT209 shelf://.*/out.db/counts is written by another driver of the same run"):
        go("two")


def test_the_identity_of_what_is_not_installed_any_more() -> None:
    assert connector_of_kind("gone").display_name.format("gone://x") == "gone://x"


# ------------------------------------------------------------------------------------------------- check_connector


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (Forgetful(), r"it has other rows between the offsets .* when it reads them again"),
        (Skipping(), r"its epochs have other rows than it has between the first offset and the last one\n.* lost"),
        (SkippingSplits(), r"it loses rows\n    1 lost, such as \[\('number', 4\)\]"),
        (Falling(), "the numbers of its splits do not rise"),
        (Growing(), r"its epochs have other rows than|gives rows twice"),
        (Changing(), "its identity is another one in each process"),
        (Failing(), "it fails with OSError: away"),
        (Open(), r"it cannot be sent to other processes\n    TypeError: .*sqlite3.Connection"),
        (OddOffsets(), "it fails with TypeError: .*JSON"),
        (OddSplits(), "it fails with TypeError: .*JSON"),
    ],
    ids=lambda one: type(one).__name__,
)
def test_TT315_a_source_that_breaks_a_promise(source: Numbers, said: str) -> None:
    with pytest.raises(LawBroken, match=f"TT315 source {type(source).__name__}: {said}"):
        check_connector(source=source, expected=[{"number": at} for at in range(20)], kills=2)


def test_a_source_that_keeps_its_promises() -> None:
    assert check_connector(source=Numbers(), expected=[{"number": at} for at in range(20)], kills=5) == 5
    assert check_connector(source=Talking(), kills=1) == 1
    with pytest.raises(LawBroken, match="it gives rows in another order"):
        check_connector(source=Numbers(3), expected=[{"number": at} for at in (1, 0, 2)], kills=0)


TWINS = {
    "condition": "an epoch that is written again is there twice",
    "transaction": "an epoch is visible in part: it is not one transaction|an epoch that is written again is there twice",
    "two": "an epoch that is written again is there twice",
    "lost": "it loses rows of an epoch that it has written",
    "run": "it loses rows of an epoch that it has written|it fails with RunError: TT209",
    "fence": "a driver still writes behind which the run was started again",
    "check": "a copy of the checkpoint goes on that does not know who has written",
}

def stored(file: Path) -> Callable[[], list[dict[str, Any]]]:
    def rows() -> list[dict[str, Any]]:
        if not file.exists():
            return []
        with closing(sqlite3.connect(file)) as base:
            base.row_factory = sqlite3.Row
            return [dict(row) for row in base.execute("SELECT * FROM rows")]

    return rows


@pytest.mark.parametrize("twin", TWINS)
def test_TT315_a_sink_that_breaks_a_promise(tmp_path: Path, twin: str) -> None:
    file = tmp_path / "sink.db"
    with pytest.raises(LawBroken, match=f"TT315 sink Lists{twin.title()}: ({TWINS[twin]})"):
        check_connector(sink=SINKS[twin], address=str(file), stored=stored(file), kills=40)


def test_a_sink_that_keeps_its_promises(tmp_path: Path) -> None:
    file = tmp_path / "sink.db"
    assert check_connector(sink=SINKS[""], address=str(file), stored=stored(file), kills=8) == 8
    assert check_connector(sink=SINKS[""], address=str(file), stored=stored(file), kills=1) == 1  # beside other rows


@pytest.mark.parametrize(
    "options", [{}, {"source": Numbers(), "sink": Lists}, {"sink": Lists}, {"source": Numbers(), "kills": -1}]
)
def test_TT402_arguments_that_do_not_fit(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="TT402"):
        check_connector(**options)


def test_requests_and_connectors_are_typed() -> None:
    """As a package would write them: mypy checks this file."""
    connector = Connector(source=lambda request: Numbers(len(request.columns)), sink=Lists)
    request = SourceRequest(address="x://y", source="s", columns=("a",), bounded=True)
    assert connector.source is not None
    assert connector.source(request).begin() == {"at": 0}
