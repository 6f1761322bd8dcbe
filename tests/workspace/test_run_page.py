"""The page of a single run: what it shows, who may see it, and that the run does not depend on it."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest

import tracetypes
from tracetypes import Dataflow, U, every
from tracetypes.compiler.backend.run_view import RunView
from tracetypes.compiler.plan.live_page import Box, Column, Drawing, LivePage, Row, Speeds, Table
from tracetypes.compiler.plan.program import program
from tracetypes.compiler.store.metrics import Batch, OperatorMetrics, StageMetrics
from tracetypes.compiler.workspace.service import run_page
from tracetypes.compiler.workspace.service.run_page_process import last_reasons
from tracetypes.errors import UsageError
from tracetypes.gates import period
from tracetypes.results import GateReport
from tracetypes.running import Run
from tracetypes.stdlib import count, map_values, sum, tumbling


@attrs.frozen
class Click:
    user: str
    ts: int
    cents: int


def clicks_of() -> Dataflow:
    """A gate in front of one of two sinks."""
    flow = Dataflow("shop")
    markers = every(seconds=10, time=lambda click: click.ts)
    clicks = flow.source("clicks", U[str, Click], key=lambda click: click.user, markers=markers)
    spent = clicks.through(map_values(lambda click: click.cents, to=int)).through(tumbling(sum(to=int), size=10))
    flow.sink("totals", spent)
    visits = clicks.through(tumbling(count(), size=10)).gate(period(seconds=100))
    flow.sink("visits", visits.through(map_values(lambda visits: visits + 1, to=int)))
    return flow


shop = clicks_of()


def write(folder: Path, name: str, rows: list[Any]) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f".{name}").write_text("".join(f"{one if isinstance(one, str) else json.dumps(one)}\n" for one in rows))
    (folder / f".{name}").rename(folder / name)


ROWS = [{"user": "ann", "ts": ts, "cents": 5} for ts in range(0, 400, 5)]


def started(tmp_path: Path, **options: Any) -> Run:
    late = {"user": "ann", "ts": 3, "cents": 5}
    write(tmp_path / "in", "1.jsonl", [*ROWS, '{"user": "ann", "ts": "soon"}'])
    write(tmp_path / "in", "2.jsonl", [late])
    places = {"clicks": tmp_path / "in"}, {"totals": tmp_path / "totals", "visits": tmp_path / "visits"}
    run = tracetypes.start(clicks_of(), *places, backend="local", files_per_step=1, page=True, **options)
    until(lambda: sum_of(run, "late") == 1)
    return run


def sum_of(run: Run, what: str) -> int:
    return max((sum_values(getattr(one, what)) for one in list(run._epochs)), default=0)


def sum_values(counts: dict[str, int]) -> int:
    return max(counts.values(), default=0)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    run = started(tmp_path)
    yield run
    if run.running:
        run.stop()


def until(true: Callable[[], Any], seconds: float = 30) -> Any:
    """What a function gives as soon as it is true."""
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


def news(address: str) -> Iterator[dict[str, Any]]:
    """What a browser gets; the last one is empty."""
    with httpx.stream("GET", f"{address}page/events", timeout=30) as answer:
        assert answer.status_code == 200
        kind = ""
        for line in answer.iter_lines():
            kind = line.removeprefix("event: ") if line.startswith("event:") else kind
            if line.startswith("data:") and kind == "news":
                yield json.loads(line[5:])
            elif line.startswith("data:"):
                yield {}


def address_of(run: Run) -> str:
    assert run.page is not None
    return run.page


def text_of(html: str) -> str:
    return re.sub(r"<[^>]+>", " ", html)


def test_the_page_shows_what_runs(run: Run) -> None:
    address = address_of(run)
    until(lambda: "1 late, 1 rejected" in next(news(address))["parts"]["graph"])
    parts = next(news(address))["parts"]
    assert parts["heading"].startswith("shop: running, 82 rows")
    titles = re.findall(r'class="tt-title"[^>]*>([^<]+)<', parts["graph"])
    assert {"source &#x27;clicks&#x27;", "map_values", "tumbling", "gate", "sink totals", "sink visits"} <= set(titles)
    assert "1 late, 1 rejected" in parts["graph"]
    assert "executions saved" in parts["graph"]
    words = text_of(parts["tables"])
    assert re.search(r"period\([^)]*100", words)
    assert "its block ended at" in words  # why a row was late
    assert ".ts is &#x27;soon&#x27;, expected int" in words


def test_a_browser_gets_what_has_changed(run: Run, tmp_path: Path) -> None:
    stream = news(address_of(run))
    assert set(next(stream)["parts"]) == {"heading", "graph", "tables"}
    write(tmp_path / "in", "3.jsonl", [{"user": "bob", "ts": 450, "cents": 5}])

    def rows_in_a_box() -> bool:
        """Whether a box says how many rows there are by now. Before that, rates may change."""
        boxes = {name: one for name, one in next(stream).get("pieces", {}).items() if name.startswith("box ")}
        return any("83" in text_of(one) for one in boxes.values())

    until(rows_in_a_box)
    run.drain()
    last = list(stream)
    assert last.pop() == {}  # it is over
    assert any("over" in one.get("parts", {}).get("heading", "") for one in last)
    assert run.page is None


def test_nobody_sees_it_without_the_token(run: Run) -> None:
    address = address_of(run)
    base, token = re.fullmatch(r"(http://127\.0\.0\.1:\d+)/([\w-]{43})/", address).groups()  # type: ignore[union-attr]
    for path in ("/", "/page/events", "/page/page.js", f"/{token[:-1]}/", f"/{token}x/page/events", f"/{token}/other", "//"):
        answer = httpx.get(f"{base}{path}")
        assert (answer.status_code, answer.text) == (404, "not found"), path
    assert httpx.post(address).status_code in (404, 405)
    whole = httpx.get(address)
    assert whole.headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self';")
    assert whole.headers["Referrer-Policy"] == "no-referrer"
    for place in re.findall(r'(?:src|href)="([^"]*)"', whole.text):
        assert httpx.get(f"{address}{place}").status_code == 200
    arguments = subprocess.run(["ps", "axww", "-o", "args"], capture_output=True, text=True, check=True).stdout
    assert "run_page_process" in arguments
    assert token not in arguments


def test_the_page_is_for_this_machine(run: Run) -> None:
    port = int(re.findall(r":(\d+)/", address_of(run))[0])
    addresses = {one[4][0] for one in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)} - {"127.0.0.1"}
    for address in addresses:
        if not str(address).startswith("127."):
            with socket.socket() as other, pytest.raises(OSError, match="refused"):
                other.connect((address, port))


def has_read(run: Run, rows: int) -> bool:
    return bool(run.metrics["rows"] == rows)


def test_a_run_goes_on_when_its_page_does_not(run: Run, tmp_path: Path) -> None:
    """A stopped page takes nothing more, then it is killed."""
    process = run._page._process  # type: ignore[union-attr]
    os.kill(process.pid, signal.SIGSTOP)
    for number in range(3, 10):
        write(tmp_path / "in", f"{number}.jsonl", [{"user": "bob", "ts": number * 100 + 300, "cents": 5}])
        until(partial(has_read, run, 80 + number))
    os.kill(process.pid, signal.SIGKILL)
    write(tmp_path / "in", "99.jsonl", [{"user": "bob", "ts": 5000, "cents": 5}])
    until(partial(has_read, run, 90))
    assert run.drain().drained


def test_it_ends_with_the_run() -> None:
    """Also if the run is killed."""
    script = (
        "import time\nfrom tests.workspace.test_run_page import shop\n"
        "from tracetypes.compiler.backend.compilation import compile_program\n"
        "from tracetypes.compiler.workspace.service.run_page import RunPage\n"
        "print(RunPage(compile_program(shop), 0, {})._process.pid, flush=True)\ntime.sleep(100)\n"
    )
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        page = int(process.stdout.readline())
        process.kill()
    until(lambda: not Path(f"/proc/{page}").exists() or "Z" in Path(f"/proc/{page}/stat").read_text().rpartition(")")[2][:3])


def test_the_command_line_prints_the_address(tmp_path: Path) -> None:
    write(tmp_path / "in", "1.jsonl", ROWS)
    places = ["-i", f"clicks={tmp_path / 'in'}", "-o", f"totals={tmp_path / 'a'}", "-o", f"visits={tmp_path / 'b'}"]
    command = [sys.executable, "-m", "tracetypes", "run", "tests.workspace.test_run_page:shop", "--backend", "local", "-q"]
    done = subprocess.run([*command, *places, "--page"], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"page: http://127\.0\.0\.1:\d+/[\w-]{43}/\n", done.stderr)
def test_what_is_missing_or_wrong_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(run_page, "NEEDED", ("starlette", "no_such_package"))
        with pytest.raises(UsageError, match=r"TT401 no_such_package.*\n.*pip install 'tracetypes\[workspace\]'"):
            started(tmp_path)
    places: Any = {"clicks": tmp_path / "in"}, {"totals": [], "visits": []}
    wrong: Any
    for wrong in (70_000, "8000", None):
        with pytest.raises(UsageError, match="TT402"):
            tracetypes.start(clicks_of(), *places, backend="local", page=wrong)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(UsageError, match=r"TT402 --page \d+: Address already in use"):
            tracetypes.start(clicks_of(), *places, backend="local", page=taken.getsockname()[1])


def test_the_reasons_are_those_of_the_newest_files(tmp_path: Path) -> None:
    for number in range(9):
        reasons = [f"reason {number}", f"reason {number}", "password=hunter2" if number == 8 else "same"]
        lines = "".join(json.dumps({"reason": one, "row": {}}) + "\n" for one in reasons)
        (tmp_path / f"part-1-0000000{number}-0000.jsonl").write_text(lines + '{"reason": "half')
    assert last_reasons(tmp_path) == ["reason 8", "password=***", "reason 7", "same", "reason 6"]


# ----------------------------------------------------------------------------------------------------- parts of it


def test_figures_are_sums_and_speeds() -> None:
    """Two looks, two seconds from each other."""
    now = [0.0]
    compiled = program(tracetypes.check(clicks_of()))
    view = RunView(compiled, clock=lambda: now[0])
    view.page()
    names = [one.name for one in compiled.segments]
    gated = next(one.name for one in compiled.segments if one.gate is not None)
    for number in range(2):
        now[0] += 1
        for name in names:
            stage = StageMetrics(0, 30, 10, 4, 2_000_000, 500, (OperatorMetrics("tumbling", 30, 10, 7),))
            gate = GateReport(bound="every 9", markers=9 * (number + 1), executions=number + 1, held=0) if name == gated else None
            more: dict[str, Any] = {"query": name, "newest": {"clicks": 5_000_000}, "read": {"clicks": 30}, "gate": gate}
            view.add(Batch(number, 30, 4, 2_000_000, {"clicks": 1}, {}, 0.5, stages=(stage,), written=10, **more))
    page = view.page()
    assert page.heading == f"shop: running, {60 * len(names)} rows, 2 s"
    sink = next(one for one in page.boxes if one.title == "sink totals")
    assert sink.lines == ("20 rows, 10/s", "4 blocks/s, lag 3 s")
    gate_box = next(one for one in page.boxes if one.kind == "gate")
    assert gate_box.lines == ("2 of 18 markers", "16 executions saved")
    window = next(one for one in page.boxes if one.title == "tumbling")
    assert window.lines == ("60 items, 30/s", "7 keys, 500 B")
    assert {above for one in page.boxes for above in one.inputs} <= {one.name for one in page.boxes}
    tables = {one.title: one for one in page.tables}
    assert tables["Gates"].rows[0].cells[1:] == ("every 9", "18", "2", "16", "0")
    assert LivePage.of_plain(json.loads(json.dumps(page.plain))) == page


def test_a_reader_gets_pieces_while_the_places_stay() -> None:
    drawing = Drawing()

    def shown(lines: dict[str, str], rows: dict[str, str]) -> Any:
        boxes = tuple(Box(name=name, title=name, lines=(line,), inputs=()) for name, line in lines.items())
        table = Table(title="t", columns=(), rows=tuple(Row(name=name, cells=(cell,)) for name, cell in rows.items()))
        return drawing.of(LivePage(heading="h", boxes=boxes, tables=(attrs.evolve(table, columns=(COLUMN,)),)))

    first = shown({"a": "1", "b": "1"}, {"r": "1"})
    assert set(first.since(None)["parts"]) == {"heading", "graph", "tables"}
    assert first.since(first) == {}
    second = shown({"a": "2", "b": "1"}, {"r": "2"})
    assert set(second.since(first)) == {"pieces"}
    assert set(second.since(first)["pieces"]) == {"box a", "row 0 r"}
    third = shown({"a": "2", "b": "1", "c": "1"}, {"r": "2"})
    assert set(third.since(second)["parts"]) == {"graph"}
    assert "pieces" not in third.since(second)


def test_what_is_shown_is_text() -> None:
    bad = '<script>alert("1")</script>'
    box = Box(name=bad, title=bad, lines=(bad,), facts=(bad,), words=(bad,))
    table = Table(title=bad, columns=(COLUMN,), rows=(Row(name=bad, cells=(bad,), words=bad),))
    for text in Drawing().of(LivePage(heading=bad, boxes=(box,), tables=(table,))).parts.values():
        assert "<script" not in text
        assert 'alert("' not in text


COLUMN = Column("c", about="<b>")


def test_speeds() -> None:
    now = [0.0]
    speeds = Speeds(5.0, clock=lambda: now[0])
    assert speeds.of("a", 10) == 0
    now[0] = 2
    assert speeds.of("a", 30) == 10
    for now[0] in (4, 6, 8, 10, 12):
        last = speeds.of("a", 30)
    assert last == 0  # nothing came in the last seconds
    now[0] = 13
    assert speeds.of("a", 3) == 0  # it counts anew
    speeds.keep(())
    assert speeds.of("a", 100) == 0


def test_many_queries_report_at_once() -> None:
    compiled = program(tracetypes.check(clicks_of()))
    view = RunView(compiled)
    names = [one.name for one in compiled.segments]

    def report(name: str) -> None:
        for number in range(200):
            view.add(Batch(number, 1, 0, None, {}, {}, 0.0, query=name))

    threads = [threading.Thread(target=report, args=(name,)) for name in names for _ in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert f"{400 * len(names):,} rows" in view.page().heading
