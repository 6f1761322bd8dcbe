"""The page on the workspace: its example runs, and every definition of the paper is where it says."""

from __future__ import annotations

import importlib
import re

import pytest

from tests.pages import ROOT, blocks
from tracetypes.compiler.workspace import definitions, merge_definition
from tracetypes.compiler.workspace.running import Decision

PAGE = (ROOT / "docs" / "workspace.md").read_text(encoding="utf-8")


def test_the_example_runs_as_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(blocks(PAGE, "python")[0], "workspace.md", "exec"), {})
    assert capsys.readouterr().out == blocks(PAGE, "text")[0]


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
