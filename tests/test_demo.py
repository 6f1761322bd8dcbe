"""The demo: what is local comes first, and needs neither pyspark nor Java. (With Spark: ``test_packaging.py``, nightly.)"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from examples.home_energy import write

ROOT = Path(__file__).resolve().parents[1]

LOCAL = re.compile(
    r"^local, parallelism 2 +(\d+) +3 +\d+\.\d\n"
    r"interpreter \(definition\) +\1 +3 +\d+\.\d   equal\n\n"
    r"The same pipeline, which sorts twice, over 3,000 measurements of 2,000 plugs in Parquet files:\n"
    r"\d+\.\d\d million measurements a second \(\d+\.\d s; \d+\.\d s the first time\)\.\n\n+"
    r"Three users submit dataflows over the same measurements to a workspace in this process:\n\n"
    r" +needs +shared +starts +run in all\n"
    r"ann: average load +8 +0 +8 +8\n"
    r"bob: where it is high +9 +7 +2 +10\n"
    r"carl: loads by plug +4 +1 +3 +13\n\n"
    r"21 operators were submitted, and 13 run\. \d+\.\d of \d+\.\d processor seconds are saved\.\n\n"
    r"carl leaves +10\nbob leaves +8\nann leaves +0\n\n"
    r"ann's answers are those of a run of her dataflow alone: \d+ rows\.\n"
    r"docs/service\.md has more: [^\n]+\n\n+"
    r"The last second of each device:\n\n(  [a-z ]+ +\d+\.\d\d W   over \d+ plugs\n){3,}\n"
    r"The two traces are equal\.\n\Z",
    re.MULTILINE,
)
"""The end of what is shown without Spark."""


@pytest.fixture(scope="module")
def readings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small file for the demo."""
    path = tmp_path_factory.mktemp("demo") / "readings.txt"
    write(path, seconds=12, plugs=40)
    return path


def without_java(folder: Path, *names: str) -> dict[str, str]:
    """An environment with some programs only, and no JAVA_HOME."""
    folder.mkdir()
    for name in names:
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    return {"PATH": str(folder), "PYTHONPATH": str(ROOT)}


def test_the_local_part_needs_neither_pyspark_nor_java(tmp_path: Path, readings: Path) -> None:
    program = "import runpy, sys; sys.modules['pyspark'] = sys.modules['py4j'] = None; sys.argv = ['demo', sys.argv[1], '3000']; "
    program += "runpy.run_module('examples.demo', run_name='__main__')"
    environment = without_java(tmp_path / "bin")
    done = subprocess.run([sys.executable, "-c", program, readings], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert LOCAL.search(done.stdout), done.stdout + done.stderr
    said, fix = done.stderr.splitlines()
    assert re.fullmatch(r"demo: the part on Spark is missing: TT401 pyspark\S* is not installed", said)
    assert fix.split() == ["fix:", "pip", "install", "'tracetypes[spark]'"]
    assert done.returncode == 1


def test_java_is_looked_for_when_the_local_part_has_been_shown(tmp_path: Path, readings: Path) -> None:
    """The command of the README, where there is no Java and none can be installed."""
    for name in ("__init__.py", "demo.py", "demo_workspace.py", "home_energy.py"):
        (tmp_path / "examples").mkdir(exist_ok=True)
        shutil.copy(ROOT / "examples" / name, tmp_path / "examples")
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    shutil.copy(ROOT / "scripts" / "run.sh", scripts)
    (scripts / "setup.sh").write_text("")
    (scripts / "java.sh").write_text("echo 'java: none was found' >&2\nexit 1\n")
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    done = subprocess.run(
        ["sh", scripts / "run.sh", "demo", readings, "3000"],
        env=without_java(tmp_path / "bin", "sh", "dirname") | {"HOME": os.environ.get("HOME", "/")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    before, java, after = done.stdout.partition("java: none was found\n")
    assert re.search(r"^interpreter \(definition\) .* equal\n", before, re.MULTILINE), done.stdout
    assert java
    shown, missing, why = after.partition("demo: the part on Spark is missing: ")
    assert LOCAL.search(before + shown), done.stdout
    assert missing
    assert why == "TT213 Spark needs Java, and there is none\n    fix:      install a Java 17 or 21, and set JAVA_HOME to it\n"
    assert done.returncode == 1
