"""The command line: targets, exit codes, and what it says, without a JVM. (Running flows: tests/spark.)"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

from tracetypes import Dataflow, U, UsageError, __version__, every
from tracetypes.cli import epoch_lines, main
from tracetypes.compiler.backend.compilation import compile_program
from tracetypes.compiler.store.metrics import Batch
from tracetypes.progress import Progress
from tracetypes.targets import load

ROOT = Path(__file__).parents[1]

RIGHT = """
from tracetypes import Dataflow, U, Unit, every, sort
from tracetypes import OpKeyedOrdered, OpStateless

import attrs


@attrs.frozen
class Row:
    ts: int
    id: str


@attrs.frozen
class Count(OpKeyedOrdered[str, Row, int, int]):
    def initial_state(self):
        return 0

    def on_item(self, state, key, value, emit):
        emit(state)
        return state + 1


one = Dataflow("one")
rows = one.source("rows", U[str, Row], key=lambda r: r.id, markers=every(seconds=10, time=lambda r: r.ts))
one.sink("out", rows.through(sort(by=lambda r: r.ts)).through(Count()))
"""

WRONG = RIGHT.replace(".through(sort(by=lambda r: r.ts))", "").replace('"one"', '"wrong"')


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run a command in this process."""
    try:
        code = main(arguments)
    except SystemExit as stop:
        code = int(stop.code or 0)
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    return code, out, err


def process(*arguments: str, cwd: Path = ROOT, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **more}
    command = [sys.executable, "-m", "tracetypes.cli", *arguments]
    ran = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert "Traceback" not in ran.stdout + ran.stderr
    return ran


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory for modules, which are forgotten afterwards."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in set(sys.modules) - before:
        if not name.startswith(("numpy", "pyarrow", "tracetypes")):  # their libraries load once in a process
            del sys.modules[name]


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


# -------------------------------------------------------------------------------------------------- targets


def test_a_target_is_a_file_or_a_module_with_or_without_a_name(modules: Path) -> None:
    write(modules / "flow_a.py", RIGHT)
    write(modules / "package/__init__.py", "")
    write(modules / "package/flow_b.py", RIGHT)
    names = ["flow_a.py", "flow_a.py:one", "flow_a", "flow_a:one", str(modules / "flow_a.py"), "package/flow_b.py"]
    names += ["package.flow_b:one", "./package/../flow_a.py"]
    flows = [load(name) for name in names]
    assert {flow.name for flow in flows} == {"one"}
    assert len({id(flow) for flow in flows}) == 2
    assert "package.flow_b" in sys.modules, "workers import it by the name that it has in its package"


@pytest.mark.parametrize(
    ("text", "target", "said"),
    [
        (None, "none.py", ["none.py is no file", "give FILE.py:NAME"]),
        (None, "no_such_module:flow", ["no_such_module cannot be imported", "ModuleNotFoundError"]),
        (None, "", ["cannot be imported"]),
        (RIGHT, "m.py:two", ["m.py: there is no two", "its dataflows are one"]),
        (RIGHT, "m.py:rows", ["m.py: rows is a SourceStream", "its dataflows are one"]),
        ("x = 1\n", "m.py", ["m.py has no dataflow", "flow = Dataflow("]),
        (RIGHT + "two = Dataflow('two')\n", "m.py", ["m.py has 2 dataflows", "name one: m.py:one"]),
        ("x = (\n", "m.py", ["m.py cannot be imported: SyntaxError", "m.py, line 1"]),
        ("import nowhere\n", "m.py", ["ModuleNotFoundError: No module named 'nowhere'", "m.py:1"]),
        ("def f():\n    raise KeyError('k')\nf()\n", "m.py", ["KeyError: 'k'", "m.py:2"]),
        ("raise SystemExit(3)\n", "m.py", ["m.py cannot be imported: SystemExit: 3", "m.py:1"]),
        ("import sys\nsys.exit()\n", "m.py", ["m.py cannot be imported: SystemExit", "m.py:2"]),
        (RIGHT.replace("seconds=10", "seconds=-1"), "m.py", ["TT115", "seconds is -1"]),
    ],
)
def test_a_target_that_is_none(modules: Path, text: str | None, target: str, said: list[str]) -> None:
    if text is not None:
        write(modules / "m.py", text)
    with pytest.raises(UsageError) as refused:
        load(target)
    for part in said:
        assert part in str(refused.value)


def test_names_that_python_cannot_import(modules: Path) -> None:
    for name in ("my-flow.py", "json.py", "a.b.py"):
        write(modules / name, RIGHT)
    assert load("my-flow.py").name == "one"  # a name for import_module, if not for the import statement
    with pytest.raises(UsageError, match="another module is called json"):
        load("json.py")
    with pytest.raises(UsageError, match=r"cannot be imported as a\.b"):
        load("a.b.py")


def test_a_dataflow_with_two_names_is_one(modules: Path) -> None:
    write(modules / "m.py", RIGHT + "same = one\n")
    assert isinstance(load("m.py"), Dataflow)


# -------------------------------------------------------------------------------------------- check, explain


def test_check(modules: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(modules / "right.py", RIGHT)
    write(modules / "wrong.py", WRONG)
    assert run(capsys, "check", "right.py") == (0, "one: 4 nodes, no violations\n", "")
    code, out, err = run(capsys, "check", "wrong.py")
    assert (code, out) == (1, "")
    lines = err.splitlines()
    assert lines[0] == "1 violation"
    assert re.fullmatch(r"TT101 .*wrong\.py:26: Count", lines[1])
    assert lines[2:] == [
        "    found:    U[str, Row], unordered between markers",
        "    expected: O[str, Row]: Count depends on the order of the items of a key",
        "    fix:      insert .through(sort(by=...)) before Count",
    ]
    for command in ("explain", "run"):
        code, out, err = run(capsys, command, "wrong.py")
        assert (code, out) == (1, "")
        assert "TT101" in err


def test_explain_of_the_smart_homes(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "explain", "examples/home_energy.py:flow", "--parallelism", "4", "--passes")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[:6] == [
        "dataflow home-energy",
        "",
        "what runs where",
        "    flat_map: over columns, behind the source 'readings'",
        "    sort, interpolate: over columns, by key, in 16 key groups",
        "    key_by: over columns, behind the operators before",
    ]
    at = lines.index("graph")
    assert lines[at + 1] == "      0  source 'readings' : U[Unit, Measurement]"
    for line in (
        "      1  flat_map <- 0 : U[Plug, Load]",
        "      2  sort <- 1 : O[Plug, Load]",
        "plan: 2 stages, parallelism 4, 16 key groups",
        "    source 'readings' : U[Unit, Measurement]   markers: every 10 s of event time, delay 0 s",
        "        native    flat_map",
        "    stage 0, one stateful operator by key group, 4 tasks : ordered per key",
        "        Arrow     sort (fused)",
        "        Arrow     interpolate",
        "    from stage 0",
        "        native    key_by",
        "        Arrow     sort (fused)",
        "        Arrow     time_window",
        "    sink 'averages' : O[str, Average]",
    ):
        assert line in lines
    passes = [line.partition(":")[0] for line in lines if line.startswith("after ")]
    assert len(passes) == len(set(passes)) >= 3
    _, short, _ = run(capsys, "explain", "examples/home_energy.py:flow", "--parallelism", "4")
    assert [line for line in short.splitlines() if line.startswith("after ")] == []
    assert "plan: 2 stages, parallelism 4, 16 key groups" in short


def test_explain_shows_the_parallelism_and_the_key_groups(capsys: pytest.CaptureFixture[str]) -> None:
    target = "examples/sensors.py:largest"
    _, out, _ = run(capsys, "explain", target)
    assert "plan: 1 stage, parallelism 1, 16 key groups" in out
    _, out, _ = run(capsys, "explain", target, "-p", "20")
    assert "plan: 1 stage, parallelism 20, 20 key groups" in out
    _, out, _ = run(capsys, "explain", target, "-p", "2", "--key-groups", "3")
    assert "plan: 1 stage, parallelism 2, 3 key groups" in out
    assert "MaxOfAverages (items folded as they come, every key visited at every marker)" in out
    code, _, err = run(capsys, "explain", target, "-p", "4", "--key-groups", "3")
    assert code == 2
    assert "TT404 parallelism 4 is more than the 3 key groups" in err


# ------------------------------------------------------------------------------------------------------ graph


def texts(svg: str) -> list[str]:
    """The texts of an SVG, which must be well-formed."""
    return [one.text or "" for one in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def svgs(page: str) -> list[str]:
    """The figures of a page, which must need nothing from elsewhere."""
    assert not re.search(r"<script|<link|<img|@import|url\(|href=|src=", page)
    assert set(re.findall(r"https?://[^\"]*", page)) == {"http://www.w3.org/2000/svg"}
    return re.findall(r"<svg.*?</svg>", page, re.DOTALL)


def test_graph_draws_the_typed_graph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "out.svg"
    assert run(capsys, "graph", "examples/home_energy.py:flow", "-o", str(file)) == (0, "", "")
    drawn = file.read_text(encoding="utf-8")
    shown = texts(drawn)
    for text in (
        ["readings", "source", "markers every 10 s of event time, delay 0 s"],
        ["flat_map", "OpStateless"],
        ["interpolate", "OpKeyedOrdered"],
        ["averages", "sink"],
    ):
        at = shown.index(text[0])
        assert shown[at : at + len(text)] == text
    edges = ["U[Unit, Measurement]", "U[Plug, Load]", "O[Plug, Load]", "O[Plug, Load]", "U[str, Load]", "O[str, Load]"]
    assert [text for text in shown if text[1:2] == "["] == [*edges, "O[str, Average]"]
    assert shown.count("sort") == 2
    assert "prefers-color-scheme: dark" in drawn
    again = tmp_path / "again.SVG"
    run(capsys, "graph", "examples/home_energy.py:flow", "-o", str(again))
    assert again.read_text(encoding="utf-8") == drawn


def test_graph_with_the_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "out.html"
    assert run(capsys, "graph", "examples/home_energy.py:flow", "-p", "4", "-o", str(file)) == (0, "", "")
    page = file.read_text(encoding="utf-8")
    graph, plan = svgs(page)
    assert "flat_map" in texts(graph)
    assert "Plan: 2 stages, parallelism 4, 16 key groups" in page
    shown = texts(plan)
    assert [text for text in shown if text.startswith("stage")] == [
        "stage 0, 4 tasks, by key group",
        "stage 1, 4 tasks, by key group",
    ]
    assert [shown.count(word) for word in ("RR", "HASH(16)", "sort")] == [1, 2, 2]
    badges = {name: next(t for t in shown[shown.index(name) :] if t in ("native", "Python")) for name in OPERATORS}
    assert badges == OPERATORS
    assert "stage 0, one stateful operator by key group" in page, "the plan as text"


def test_the_plan_of_a_graph_says_why_an_operator_runs_as_python(
    modules: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(modules / "opaque.py", RIGHT.replace("emit(state)", "emit(hash(key))"))
    assert run(capsys, "graph", "opaque.py:one", "-o", "opaque.html") == (0, "", "")
    assert "Python, because `Count` calls hash (" in (modules / "opaque.html").read_text(encoding="utf-8")


def test_the_plan_of_a_graph_with_a_merge(modules: Path, capsys: pytest.CaptureFixture[str]) -> None:
    merged = """
two = Dataflow("two")
streams = [
    two.source(name, U[str, Row], key=lambda r: r.id, markers=every(seconds=10, time=lambda r: r.ts)) for name in "ab"
]
two.sink("out", merge(*streams).through(sort(by=lambda r: r.ts)).through(Count()))
straight = Dataflow("straight")
rows = straight.source("rows", U[str, Row], key=lambda r: r.id, markers=every(seconds=10, time=lambda r: r.ts))
straight.sink("out", rows)
"""
    write(modules / "m.py", RIGHT.replace("every, sort", "every, merge, sort") + merged)
    assert run(capsys, "graph", "m.py:two", "-o", "two.html") == (0, "", "")
    shown = texts(svgs((modules / "two.html").read_text(encoding="utf-8"))[1])
    words = ("a", "b", "RR", "HASH(16)", "merge", "sort", "Count", "out")
    assert [shown.count(word) for word in words] == [1, 1, 2, 2, 1, 1, 1, 1]
    assert run(capsys, "graph", "m.py:straight", "-o", "straight.html") == (0, "", "")
    shown = texts(svgs((modules / "straight.html").read_text(encoding="utf-8"))[1])
    assert {"RR", "no exchange", "stage 0, in the driver", "close blocks"} <= set(shown)
    assert "HASH(16)" not in shown


OPERATORS = {
    "flat_map": "native",
    "interpolate": "native",
    "key_by": "native",
    "time_window": "native",
}

FAN_OUT = """
two = Dataflow("<two> & more")
both = two.source("rows", U[str, Row], key=lambda r: r.id, markers=every(seconds=10, time=lambda r: r.ts))
in_order = both.through(sort(by=lambda r: r.ts))
two.sink("raw", both)
two.sink("counts", in_order.through(Count()), marker="at")
two.sink("merged", merge(both, both, in_order))
"""


def test_any_graph_that_is_checked_is_drawn(modules: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(modules / "two.py", RIGHT.replace("every, sort", "every, merge, sort") + FAN_OUT)
    assert run(capsys, "graph", "two.py:two", "-o", "two.svg") == (0, "", "")
    shown = texts((modules / "two.svg").read_text(encoding="utf-8"))
    assert (
        sorted(text for text in shown if text[1:2] == "[")
        == ["O[str, Row]"] * 2 + ["O[str, int]"] + ["U[str, Row]"] * 5
    )
    assert {"raw", "counts", "merged", "merge", "column at: marker"} <= set(shown)

    assert run(capsys, "graph", "two.py:two", "-o", "two.html") == (0, "", "")
    page = (modules / "two.html").read_text(encoding="utf-8")
    graph, plan = svgs(page)
    assert "counts" in texts(graph)
    assert {"counts", "raw", "merged", "sort", "channel"} <= set(texts(plan))
    assert "<h2>Plan: 4 queries, " in page
    assert "<h1>&lt;two&gt; &amp; more</h1>" in page


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["right.py", "-o", "out.png"], 2, ["TT402 --output out.png: .png", "give FILE.svg or FILE.html"]),
        (["right.py", "-o", "out"], 2, ["TT402 --output out: no ending"]),
        (["right.py", "-o", "nowhere/out.svg"], 2, ["TT402 --output nowhere/out.svg: No such file or directory"]),
        (["right.py", "-o", "folder.html"], 2, ["TT402 --output folder.html: Is a directory"]),
        (["right.py"], 2, ["--output"]),
        (["none.py", "-o", "out.svg"], 2, ["TT403 none.py is no file"]),
        (["wrong.py", "-o", "out.svg"], 1, ["TT101"]),
        (["right.py", "-o", "out.html", "-p", "4", "--key-groups", "3"], 2, ["TT404 parallelism 4 is more"]),
    ],
)
def test_graph_that_cannot_be_drawn(
    modules: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, said: list[str]
) -> None:
    write(modules / "right.py", RIGHT)
    write(modules / "wrong.py", WRONG)
    (modules / "folder.html").mkdir()
    got, out, err = run(capsys, "graph", *arguments)
    assert (got, out) == (code, "")
    for part in said:
        assert part in err


def test_graph_that_is_too_large(modules: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(
        modules / "large.py",
        "from benchmarks.shapes import SHAPES\nfrom tracetypes import Dataflow\n"
        "flow = Dataflow('large')\nSHAPES['chain'](flow, 498)\n",
    )
    code, out, err = run(capsys, "graph", "large.py", "-o", str(modules / "large.svg"))
    assert (code, out) == (2, "")
    assert "TT402 dataflow 'large' has 501 nodes, too many to draw (at most 500)" in err
    assert "tracetypes explain" in err


def test_pictures_need_the_core_only(tmp_path: Path) -> None:
    write(tmp_path / "right.py", RIGHT)
    write(tmp_path / "numpy.py", "raise ModuleNotFoundError(\"No module named 'numpy'\", name='numpy')\n")
    where = {"PYTHONPATH": f"{tmp_path}:{ROOT}"}
    for ending in ("html", "svg"):
        ran = process("graph", "right.py", "-o", f"out.{ending}", cwd=tmp_path, **where)
        assert (ran.returncode, ran.stderr) == (0, "")


# ------------------------------------------------------------------------------------------------ exit codes


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--version"], 0, f"tracetypes {__version__}"),
        (["--help"], 0, "COMMAND"),
        ([], 2, "COMMAND"),
        (["fly"], 2, "TT402 tracetypes has no command 'fly'\n    fix:      the commands are new, examples, check"),
        (["rn", "x"], 2, "TT402 tracetypes has no command 'rn'\n    fix:      did you mean run?"),
        (["check"], 2, "TT402 tracetypes check: TARGET is missing\n    fix:      write tracetypes check TARGET\n"),
        (["graph", "x"], 2, "TT402 tracetypes graph: --output/-o is missing\n    fix:      write tracetypes graph --output FILE"),
        (["workspace"], 2, "TT402 tracetypes workspace: ACTION is missing\n    fix:      its commands are serve"),
        (["check", "x", "y"], 2, "TT402 y is one argument too many\n    fix:      write tracetypes check TARGET\n"),
        (["explain", "x", "-p", "0"], 2, "'0' is no whole number from 1\n    fix:      write --parallelism N"),
        (["explain", "x", "-p", "two"], 2, "'two' is no whole number from 1"),
        (["run", "x", "-i"], 2, "run --input/-i: expected one argument\n    fix:      write --input SOURCE=ADDRESS"),
        (["run", "x", "--quiet=1"], 2, "ignored explicit argument '1'\n    fix:      write --quiet; see tracetypes run --help"),
        (["run", "x", "--backend", "storm"], 2, "run --backend is 'storm'\n    fix:      it is one of spark, local"),
        (["run", "x", "--backend", "loca"], 2, "TT402 tracetypes run --backend is 'loca'\n    fix:      did you mean local?"),
        (["run", "x", "--files-per-step", "-1"], 2, "'-1' is no whole number from 1"),
        (["check", "x", "--limit", "3"], 2, "check: there is no option --limit\n    fix:      --limit is an option of"),
        (["workspace", "serve", "--prt", "3"], 2, "TT402 tracetypes workspace serve: there is no option --prt"),
        (["check", "nowhere.py"], 2, "TT403 nowhere.py is no file"),
    ],
)
def test_usage(capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str) -> None:
    got, out, err = run(capsys, *arguments)
    assert got == code
    assert said in out + err


def test_interrupted(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tracetypes.cli.load", interrupt)
    assert run(capsys, "check", "x") == (130, "", "tracetypes: stopped\n")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["-m", "tracetypes"], "tracetypes: stopped\n"),
        (["tracetypes"], "tracetypes: stopped\n"),
        (["program.py"], "KeyboardInterrupt\n"),
    ],
)
def test_interrupted_while_it_is_imported(tmp_path: Path, command: list[str], said: str) -> None:
    """The import of attrs is the moment. In a program of one's own it is an exception, as always."""
    write(tmp_path / "attrs.py", "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    for name in ("tracetypes", "program.py"):
        write(tmp_path / name, "from tracetypes.cli import main\nmain()\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(tmp_path), str(ROOT)))}
    ran = subprocess.run([sys.executable, *command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ran.stderr == said if said.startswith("tracetypes") else ran.stderr.endswith(said)
    assert ran.returncode == (130 if said.startswith("tracetypes") else -signal.SIGINT)


def test_interrupts_after_the_imports_are_exceptions() -> None:
    """A command takes them as they come, with what it has to close."""
    code = "import signal, tracetypes.cli as c; c.main(['--version'])"
    code = f"import sys; sys.argv[0] = 'tracetypes'\ntry:\n    {code}\nexcept SystemExit:\n    pass\n"
    code += "print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.stdout.splitlines()[-1:] == ["True"], ran.stderr


def test_in_processes(tmp_path: Path) -> None:
    """The way it is started from a shell; also where nobody reads what it says."""
    write(tmp_path / "my flow.py", RIGHT)
    write(tmp_path / "wrong.py", WRONG)
    ran = process("check", "my flow.py", cwd=tmp_path)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "one: 4 nodes, no violations\n", "")
    ran = process("run", "wrong.py", cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith("tracetypes: 1 violation\nTT101 ")
    command = f"'{sys.executable}' -m tracetypes.cli explain examples/home_energy.py -p 4"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    piped = subprocess.run(
        f"{command} | head -n 1", shell=True, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert piped.stdout == "dataflow home-energy\n"
    assert "Traceback" not in piped.stderr
    closed = subprocess.run(
        f"{command} >&-", shell=True, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in closed.stderr


def test_without_java(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    write(tmp_path / "right.py", RIGHT)
    write(tmp_path / "in.jsonl", "")
    where = {"JAVA_HOME": str(tmp_path), "PATH": str(tmp_path)}
    ran = process("run", "right.py", "-i", "rows=in.jsonl", "-o", "out=out", cwd=tmp_path, **where)
    assert ran.returncode == 1
    assert "TT213 Spark did not start" in ran.stderr
    assert "JAVA_HOME" in ran.stderr


@pytest.mark.parametrize("package", ["numpy", "pyspark"])
def test_without_spark(package: str, tmp_path: Path) -> None:
    """The core alone is installed, or more."""
    write(tmp_path / "right.py", RIGHT)
    write(tmp_path / f"{package}.py", f"raise ModuleNotFoundError(\"No module named '{package}'\", name='{package}')\n")
    ran = process(
        "run", "right.py", "-i", "rows=in.jsonl", "-o", "out=out", cwd=tmp_path, PYTHONPATH=f"{tmp_path}:{ROOT}"
    )
    assert ran.returncode == 2
    assert ran.stderr.startswith(f"tracetypes: TT401 {package} is not installed")
    assert "pip install 'tracetypes[spark]'" in ran.stderr
    ran = process("state", "out", cwd=tmp_path, PYTHONPATH=f"{tmp_path}:{ROOT}")
    assert ran.returncode == 2
    assert ran.stderr.startswith(f"tracetypes: TT401 {package} is not installed")


def test_a_target_in_main(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, object] = {}
    exec(RIGHT, names)
    monkeypatch.setattr(sys.modules["__main__"], "one", names["one"], raising=False)
    assert run(capsys, "check", "__main__:one") == (0, "one: 4 nodes, no violations\n", "")
    code, _, err = run(capsys, "check", "__main__:two")
    assert (code, "TT403 __main__: there is no two" in err) == (2, True)


@pytest.mark.parametrize("file", ["flow.py", None])
def test_another_process_knows_main_by_its_file(
    file: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "flow.py").write_text(RIGHT)
    main = ModuleType("__main__")
    if file is not None:
        main.__file__ = str(tmp_path / file)
    exec(RIGHT, vars(main))
    monkeypatch.setitem(sys.modules, "__main__", main)
    code, out, err = run(capsys, "test", "__main__:one", "--examples", "2")
    assert (code, err) == (0, "")
    assert ("one: another process" in out) == (file is not None)
    assert ("note    another process cannot import __main__" in out) == (file is None)


@pytest.mark.parametrize(("sinks", "said"), [(("out", "late"), "late, micro-batch 0:"), (("late",), "micro-batch 0:")])
def test_progress_counts_what_a_sink_of_late_items_wrote(
    sinks: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    flow = Dataflow("one")
    rows = flow.source("rows", U[str, int], markers=every(seconds=10, time=abs))
    for sink in sinks:
        flow.sink(sink, rows if sink == "out" else rows.late())
    told = epoch_lines(Progress(quiet=False), compile_program(flow))
    for query in sinks if len(sinks) > 1 else ("",):
        told(Batch(0, 7, 1, None, {}, {}, 0.5, query, written=2))
    *out, late = capsys.readouterr().err.splitlines()
    assert late == f"{said} 2 rows written, 1 marker, 0.5 s"
    assert out == ["out, micro-batch 0: 7 rows, 1 marker, 0.5 s"] * (len(sinks) - 1)


def test_progress_counts_what_a_second_reading_wrote(capsys: pytest.CaptureFixture[str]) -> None:
    """The rows of the source are those of the first, here of the late items."""
    flow = Dataflow("one")
    rows = flow.source("rows", U[str, int], markers=every(seconds=10, time=abs))
    flow.sink("late", rows.late())
    flow.sink("out", rows)
    epoch_lines(Progress(quiet=False), compile_program(flow))(Batch(0, 0, 1, None, {}, {}, 0.5, "out", written=2))
    assert capsys.readouterr().err == "out, micro-batch 0: 2 rows written, 1 marker, 0.5 s\n"
