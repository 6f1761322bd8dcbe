"""What the page of a service shows to owners and to administrators, without a service."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

from tracetypes.compiler.workspace.merged_graph import OperatorView
from tracetypes.compiler.workspace.service.process_tree import ProcessorSeconds, tree_seconds
from tracetypes.compiler.workspace.service.viewer import Viewer

SECONDS = ProcessorSeconds(flows=8.0, left=1.0, workers=0.75, http=0.25)


def operator(name: str, *flows: str, others: int = 0, **more: Any) -> OperatorView:
    facts: dict[str, Any] = {"inputs": (), "state": "running", "written": 0, "kept": 0, "error": None, **more}
    return OperatorView(name=name, title=f"the {name}", flows=flows, others=others, **facts)


def flow(owner: str, name: str, **more: Any) -> dict[str, Any]:
    counts = dict.fromkeys(("operators", "shared", "rows", "late", "rejects"), 0)
    facts: dict[str, Any] = {"owner": owner, "name": name, "state": "running", "error": None, "notes": []}
    return {**facts, "seconds": 0.0, "saved": 0.0, **counts, **more}


def stripes(graph: str) -> list[list[str]]:
    """The colours of each box."""
    return [re.findall(r'"tt-stripe([^"]*)"', box) for box in graph.split("<g ")[1:]]


def row(tables: str, name: str) -> list[str]:
    """The cells behind the heading of a row."""
    found = re.search(rf'<tr data-piece="row \d+ {re.escape(name)}".*?</tr>', tables)
    assert found is not None
    return re.findall(r"<td[^>]*>([^<]*)</td>", found.group())


def test_an_administrator_sees_owners_by_their_colours() -> None:
    viewer = Viewer(is_administrator=True)
    operators = [operator("a", "ann.x", "bob.y"), operator("b", "bob.y"), operator("c", "ann.x", "ann.z")]
    flows = [flow("ann", "x", seconds=2.0, saved=1.0), flow("ann", "z", seconds=1.0), flow("bob", "y", seconds=5.0)]
    shown = viewer.shown(operators, flows, SECONDS).parts
    assert stripes(shown["graph"]) == [[" tt-colour-0", " tt-colour-1"], [" tt-colour-1"], [" tt-colour-0"]]
    assert row(shown["tables"], "ann")[:3] == ["2", "3.0 s", "1.0 s"]
    assert row(shown["tables"], "bob")[:3] == ["1", "5.0 s", "0.0 s"]


def test_an_owner_sees_his_colour_and_one_grey() -> None:
    viewer = Viewer(is_administrator=False)
    operators = [operator("a", "x"), operator("b", "x", others=2), operator("c", "x", "open.y")]
    shown = viewer.shown(operators, [flow("zoe", "x")]).parts
    assert stripes(shown["graph"]) == [[" tt-colour-0"], [" tt-colour-0", ""], [" tt-colour-0", ""]]
    assert "Owners" not in shown["tables"]
    assert "zoe" not in shown["tables"]


def test_rates_and_failures_are_shown() -> None:
    now = [0.0]
    viewer = Viewer(is_administrator=False, clock=lambda: now[0])
    before: dict[str, Any] = {"written": 10, "seconds": 1.0, "starts": 1, "lag": 3.0, "kept": 2_000}
    viewer.shown([operator("a", "x", **before)], [flow("ann", "x", rows=10, seconds=1.0)])
    now[0] = 2.0
    after = {**before, "written": 50, "seconds": 1.5, "starts": 2, "error": "TT230 it broke"}
    shown = viewer.shown([operator("a", "x", **after)], [flow("ann", "x", rows=50, seconds=1.5)]).parts
    assert "20 rows/s, 25% busy" in shown["graph"]
    assert "tt-failed" not in shown["graph"]  # it runs again
    assert row(shown["tables"], "0") == ["x", "50", "20", "3 s", "2.0 kB", "1.5 s", "25%", "2", "TT230 it broke"]
    assert row(shown["tables"], "x")[3:5] == ["50", "20"]
    now[0] = 3.0
    broken = viewer.shown([operator("a", "x", **{**after, "state": "failed"})], [flow("ann", "x")]).parts
    assert "tt-failed" in broken["graph"]
    assert "TT230 it broke" in broken["graph"]


def test_the_lines_of_an_administrator_add_up() -> None:
    viewer = Viewer(is_administrator=True)
    tables = viewer.shown([], [], SECONDS).parts["tables"]
    amounts = [float(row(tables, name)[0].removesuffix(" s")) for name in ("flows", "left", "workers", "http", "all")]
    assert sum(amounts[:-1]) == amounts[-1] == 10.0


def test_processor_seconds_of_a_tree() -> None:
    """A process that works, and one below it that has worked and is over."""
    work = "import time\nwhile time.process_time() < 0.3: pass\n"
    program = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {work!r}])\n{work}"
    program += "print(flush=True)\nsys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = tree_seconds(process.pid)
        assert found is not None
        assert found.own >= 0.28
        assert found.below >= 0.28
        process.communicate()
    assert tree_seconds(process.pid) is None
