"""The command line: targets, exit codes, and what it says, without a JVM. (Running flows: tests/spark.)"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tracetypes import Dataflow, UsageError, __version__
from tracetypes.cli import load, main

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
        (RIGHT, "m.py:rows", ["m.py: rows is a Stream", "its dataflows are one"]),
        ("x = 1\n", "m.py", ["m.py has 0 dataflows", "name one: m.py:NAME"]),
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
    code, out, err = run(capsys, "explain", "examples/home_energy.py:flow", "--parallelism", "4")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[:4] == ["dataflow home-energy", "", "graph", "      0  source 'readings' : U[Unit, Measurement]"]
    for line in (
        "      1  JoinFilterMap x2 <- 0 : U[Plug, Load]",
        "      2  SORT <- 1 : O[Plug, Load]",
        "plan: 2 stages, parallelism 4, 16 key groups",
        "    source 'readings' : U[Unit, Measurement]   markers: every 10 s of event time, delay 0 s",
        "        native    JoinFilterMap",
        "    stage 0, one stateful operator by key group, 4 tasks : ordered per key",
        "        Python    SORT (fused)",
        "        Python    LinearInterpolation",
        "                  because the items of a key are taken one after the other",
        "    from stage 0",
        "        native    DeviceType",
        "        Python    AveragePerSecond",
        "    sink 'averages' : O[str, Average]",
    ):
        assert line in lines
    passes = [line.partition(":")[0] for line in lines if line.startswith("after ")]
    assert len(passes) == len(set(passes)) >= 3


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


# ------------------------------------------------------------------------------------------------ exit codes


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--version"], 0, f"tracetypes {__version__}"),
        (["--help"], 0, "COMMAND"),
        ([], 2, "COMMAND"),
        (["fly"], 2, "invalid choice: 'fly'"),
        (["check"], 2, "TARGET"),
        (["explain", "x", "-p", "0"], 2, "'0' is no whole number from 1"),
        (["explain", "x", "-p", "two"], 2, "'two' is no whole number from 1"),
        (["run", "x", "--backend", "storm"], 2, "invalid choice: 'storm'"),
        (["run", "x", "--files-per-step", "-1"], 2, "'-1' is no whole number from 1"),
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


def test_without_spark(tmp_path: Path) -> None:
    write(tmp_path / "right.py", RIGHT)
    write(tmp_path / "pyspark.py", "raise ModuleNotFoundError(\"No module named 'pyspark'\", name='pyspark')\n")
    ran = process(
        "run", "right.py", "-i", "rows=in.jsonl", "-o", "out=out", cwd=tmp_path, PYTHONPATH=f"{tmp_path}:{ROOT}"
    )
    assert ran.returncode == 2
    assert "TT401 pyspark is not installed" in ran.stderr
    assert "pip install 'tracetypes[spark]'" in ran.stderr
