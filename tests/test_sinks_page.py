"""The recipes of ``docs/sinks.md``: run as they stand, with kills, and a second run with a new checkpoint into the same place."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import attrs
import pytest

import tracetypes
from tests.local.test_streams import Crash
from tests.pages import ROOT, blocks
from tracetypes import RunError, each_batch
from tracetypes.compiler.store.function_output import FunctionOutput

PAGE = (ROOT / "docs" / "sinks.md").read_text(encoding="utf-8")


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names of the page, whose programs run in an empty folder with three files of sales."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRACETYPES_BACKEND", "local")
    Path("sales").mkdir()
    for number in range(3):
        rows = [{"shop": shop, "cents": 5, "ts": 60 * number + at} for at, shop in enumerate("aab")]
        Path(f"sales/{number}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    names: dict[str, Any] = {"attrs": attrs, "__name__": "page"}
    for block in blocks(PAGE, "python"):
        if "pyiceberg" not in block:
            exec(compile(block, "docs/sinks.md", "exec"), names)
    return names


def test_the_programs_of_the_page_run(page: dict[str, Any]) -> None:
    assert list(Path("counts").glob("part-*"))


def killed_and_repeated(page: dict[str, Any], function: Callable[..., None], checkpoint: str) -> None:
    """A run that is killed twice: before the function is called for an epoch, and behind that."""
    call, calls = FunctionOutput._call, list[int]()

    def dies(self: FunctionOutput, rows: Any, epoch: Any) -> None:
        calls.append(epoch.number)
        if len(calls) == 1:
            raise Crash
        call(self, rows, epoch)
        if len(calls) == 2:
            raise Crash

    def run() -> None:
        outputs, inputs = {"counts": each_batch(function)}, {"sales": "sales/"}
        tracetypes.run(page["flow"], inputs, outputs, backend="local", checkpoint=checkpoint, files_per_step=1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FunctionOutput, "_call", dies)
        for _ in range(2):
            with pytest.raises(RunError, match="Crash"):
                run()
        run()
    assert calls[:3] == [calls[0]] * 3
    assert calls[-1] > calls[0]


COUNTS = Counter({("a", 2, minute): 1 for minute in (1, 2, 3)} | {("b", 1, minute): 1 for minute in (1, 2, 3)})


def counted(rows: list[tuple[str, int, Any]]) -> Counter[tuple[str, int, int]]:
    return Counter((key, value, int(str(until)[14:16])) for key, value, until in rows)


def test_a_database(page: dict[str, Any]) -> None:
    def found() -> Counter[tuple[str, int, int]]:
        with sqlite3.connect("counts.db") as database:
            return counted(database.execute("SELECT shop, count, until FROM counts").fetchall())

    killed_and_repeated(page, page["to_sqlite"], "one")
    assert found() == COUNTS
    killed_and_repeated(page, page["to_sqlite"], "two")
    assert found() == COUNTS + COUNTS


def test_an_Iceberg_table(page: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyiceberg", reason="pyiceberg is not installed")
    import pyiceberg.catalog
    from pyiceberg.catalog import load_catalog
    from pyiceberg.utils.config import Config

    monkeypatch.setenv("PYICEBERG_CATALOG__DEFAULT__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__DEFAULT__URI", f"sqlite:///{tmp_path}/catalog.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__DEFAULT__WAREHOUSE", f"file://{tmp_path}/warehouse")
    monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", Config())  # which it has read when it was imported
    (block,) = (block for block in blocks(PAGE, "python") if "pyiceberg" in block)
    exec(compile(block, "docs/sinks.md", "exec"), page)

    def found() -> Counter[tuple[str, int, int]]:
        rows = load_catalog("default").load_table("shop.counts").scan().to_arrow().to_pylist()
        return counted([(row["key"], row["value"], row["until"]) for row in rows])

    killed_and_repeated(page, page["to_iceberg"], "one")
    assert found() == COUNTS
    killed_and_repeated(page, page["to_iceberg"], "two")
    assert found() == COUNTS + COUNTS


@contextmanager
def receiver() -> Iterator[tuple[str, dict[str, list[Any]]]]:
    """The address of a server, and the rows that it has got, by the key of the request."""
    got: dict[str, list[Any]] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            rows = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            got.setdefault(self.headers["Idempotency-Key"], []).append(rows)
            self.send_response(204)
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", got
        server.shutdown()
        thread.join(20)


def test_a_webhook(page: dict[str, Any]) -> None:
    with receiver() as (address, got):
        (block,) = (block for block in blocks(PAGE, "python") if "urlopen" in block)
        exec(compile(block.replace("http://127.0.0.1:8000", address), "docs/sinks.md", "exec"), page)
        killed_and_repeated(page, page["to_webhook"], "one")
        killed_and_repeated(page, page["to_webhook"], "two")
    assert any(len(often) > 1 for often in got.values())
    assert all(sorted(map(str, one)) == sorted(map(str, often[0])) for often in got.values() for one in often)
    once = [(row["key"], row["value"], row["until"]) for often in got.values() for row in often[0]]
    assert counted(once) == COUNTS + COUNTS
