"""Copies of the code of submitted flows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from tracetypes import RunError, UsageError
from tracetypes.compiler.workspace import code_copies
from tracetypes.compiler.workspace.code_copies import CodeCopies, Sources, sources_of

FILES = {
    "flow.py": "import attrs, json\nimport helper\nfrom shop import prices\nLIMIT = helper.limit() + prices.PRICE\n",
    "helper.py": "def limit():\n    from deeper import one\n    return one.ONE\n",
    "deeper/one.py": "ONE = 1\n",
    "shop/__init__.py": "",
    "shop/prices.py": "from . import table\nPRICE = len(table.ROWS)\n",
    "shop/table.py": "from pathlib import Path\nROWS = Path(__file__).with_name('rows.csv').read_text().split()\n",
    "shop/rows.csv": "a b c\n",
    "shop/.hidden": "no",
    "shop/__pycache__/prices.cpython-311.pyc": "no",
    "other.py": "raise SystemExit\n",
}
COPIED = {"flow.py", "helper.py", "deeper/one.py", "shop/__init__.py", "shop/prices.py", "shop/table.py", "shop/rows.csv"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "project"


@pytest.fixture
def copies(tmp_path: Path) -> CodeCopies:
    return CodeCopies(tmp_path / "code")


def test_what_a_flow_imports_is_copied(root: Path) -> None:
    sources = sources_of("flow", root)
    assert set(sources.files) == COPIED
    assert sources.versions["attrs"] == attrs.__version__
    assert set(sources.versions) == {"python", "tracetypes", "attrs"}
    assert set(sources_of("shop.prices", root).files) == {name for name in COPIED if name.startswith("shop/")}


def test_a_copy_runs_whatever_has_changed_since(root: Path, copies: CodeCopies) -> None:
    copy = copies.of(copies.keep(sources_of("flow", root)))
    (root / "helper.py").write_text("def limit():\n    return 99\n")
    (root / "shop" / "rows.csv").unlink()
    code = [sys.executable, "-c", "import flow; print(flow.LIMIT)"]
    found = subprocess.run(code, env={**os.environ, "PYTHONPATH": str(copy.root)}, capture_output=True, text=True, check=True)
    assert found.stdout == "4\n"


def test_equal_files_have_one_copy(root: Path, copies: CodeCopies) -> None:
    sources = sources_of("flow", root)
    digest = copies.keep(sources)
    assert copies.keep(sources_of("flow", root)) == digest
    (root / "other.py").write_text("")  # nobody imports it
    assert copies.keep(sources_of("flow", root)) == digest
    assert copies.keep(attrs.evolve(sources, versions={**sources.versions, "attrs": "1"})) != digest
    (root / "deeper" / "one.py").write_text("ONE = 2\n")
    assert copies.keep(sources_of("flow", root)) != digest
    assert len(os.listdir(copies.folder)) == 3


def test_what_has_another_version_is_said(root: Path, copies: CodeCopies) -> None:
    sources = sources_of("flow", root)
    assert copies.of(copies.keep(sources)).changes == []
    older = attrs.evolve(sources, versions={**sources.versions, "attrs": "20.1", "gone": "3"})
    said = [f"attrs was 20.1, and is {attrs.__version__}", "gone was 3, and is not installed"]
    assert copies.of(copies.keep(older)).changes == said


def test_copies_that_nobody_needs_are_removed(root: Path, copies: CodeCopies) -> None:
    digest = copies.keep(sources_of("flow", root))
    other = copies.keep(sources_of("shop", root))
    (copies.folder / ".part-of-a-kill" / "files").mkdir(parents=True)
    copies.forget_others({other})
    assert os.listdir(copies.folder) == [other]
    with pytest.raises(RunError, match=r"TT225 .* is not what the run wrote there: it is gone"):
        copies.of(digest)


@pytest.mark.parametrize("damage", ["changed", "gone", "about", "another copy's"])
def test_TT225_a_damaged_copy(root: Path, copies: CodeCopies, damage: str) -> None:
    digest = copies.keep(sources_of("flow", root))
    place = copies.folder / digest
    match damage:
        case "changed":
            (place / "files" / "helper.py").write_text("def limit():\n    return 99\n")
        case "gone":
            (place / "files" / "shop" / "rows.csv").unlink()
        case "about":
            (place / "about.json").write_text("{}")
        case _:
            other = copies.folder / copies.keep(sources_of("shop", root))
            (place / "about.json").write_bytes((other / "about.json").read_bytes())
    with pytest.raises(RunError, match="TT225"):
        copies.of(digest)


def test_TT403_no_such_module(root: Path) -> None:
    with pytest.raises(UsageError, match=r"TT403 there is no module nothing in"):
        sources_of("nothing", root)


def test_TT403_data_is_no_code(root: Path, copies: CodeCopies, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_copies, "LARGEST", 100)
    with pytest.raises(UsageError, match=r"TT403 the source files have \d+ bytes, and a workspace copies at most 100"):
        copies.keep(sources_of("flow", root))
    assert not copies.folder.exists()


def test_TT403_a_file_that_is_gone(root: Path, copies: CodeCopies) -> None:
    sources = Sources(files={"flow.py": root / "flow.py", "no.py": root / "no.py"}, versions={})
    with pytest.raises(UsageError, match=r"TT403 .*no\.py cannot be read"):
        copies.keep(sources)
