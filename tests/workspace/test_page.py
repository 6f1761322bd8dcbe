"""The page on the workspace: its example runs, and every definition of the paper is where it says."""

from __future__ import annotations

import importlib
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pages import ROOT, blocks
from tracetypes.compiler.workspace import definitions, merge_definition
from tracetypes.compiler.workspace.running import Decision

PAGE = (ROOT / "docs" / "workspace.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("number", [0, 1])
def test_the_examples_run_as_they_stand(number: int, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    script = tmp_path / "page.py"
    script.write_text(blocks(PAGE, "python")[number])
    runpy.run_path(str(script))
    assert capsys.readouterr().out == blocks(PAGE, "text")[number]


def test_two_terminals_are_typed_as_they_stand(tmp_path: Path) -> None:
    first, *second = blocks(PAGE, "sh")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path}
    script = first.replace("\ntracetypes workspace serve shop\n", "\nexec tracetypes workspace serve shop --port 0\n")
    with subprocess.Popen(["bash", "-c", script], cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as service:
        try:
            assert service.stderr is not None
            addresses = (re.search(r"at (http://\S+)", line) for line in service.stderr)
            environment["TRACETYPES_WORKSPACE"] = next(found.group(1) for found in addresses if found)
            command = ["bash", "-e", "-c", "\n".join(second)]
            done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        finally:
            service.terminate()
    assert done.returncode == 0, done.stdout + done.stderr
    said = [line.split() for line in done.stdout.splitlines()]
    assert ["spent", "ann", "running", "4", "1", "9,999"] in said
    assert ["slowly", "bob", "running", "4", "0", "9,999"] in said  # nobody shares with him any more
    assert '{"key":"u1","value":26,"until":"1970-01-01T00:05:00.000000Z"}' in done.stdout


def test_each_definition_is_where_the_table_says() -> None:
    table = PAGE.partition("\n## The definitions and their places\n")[2].partition("\n## ")[0]
    named = re.findall(r"`(\w+)\.(\w+)`", table)
    for module, name in named:
        if module == "Decision":
            assert hasattr(Decision, name), name
        else:
            assert hasattr(importlib.import_module(f"tracetypes.compiler.workspace.{module}"), name), name
    shown = {name for _, name in named}
    assert shown >= set(definitions.__all__) - {"AncestorGraph"}
    assert shown >= set(merge_definition.__all__)
