"""The page on the workspace: its example runs, and every definition of the paper is where it says."""

from __future__ import annotations

import importlib
import re
import runpy
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
