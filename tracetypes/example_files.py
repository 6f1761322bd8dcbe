"""``tracetypes examples``: the examples that come with tracetypes, and copies of them."""

from __future__ import annotations

import ast
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tracetypes.calls import like
from tracetypes.errors import UsageError

__all__ = ["copy_example", "example_lines"]

PLACE = Path(__file__).resolve().parent / "examples"
"""In a clone this is a link to the folder ``examples``."""

_RUNS: Final = re.compile(r"^\s*(?:tracetypes run|python -m|>>> tracetypes\.run|from examples\.)", re.MULTILINE)
"""How an example that can be run says so."""


def _examples() -> dict[str, str]:
    """The first line about each example, by its name. Modules that only others use are none."""
    found: dict[str, str] = {}
    for file in sorted(PLACE.glob("*.py")):
        about = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
        if _RUNS.search(about) and not file.stem.endswith(("_data", "_sources")):
            found[file.stem] = about.partition("\n")[0].strip()
    return found


def example_lines() -> list[str]:
    """A line for each example, and how to get one."""
    examples = _examples()
    wide = max(map(len, examples), default=0)
    lines = [f"  {name.ljust(wide)}  {about}" for name, about in examples.items()]
    return [*lines, "", "tracetypes examples NAME copies one, with what it needs, to ./examples"]


def copy_example(name: str, folder: Path) -> list[Path]:
    """Copy an example, and what it imports of the others, into ``folder/examples``; the files. Raises :class:`UsageError`
    ``TT402`` for a name that is none and for files that are there."""
    name = name.removesuffix(".py")
    if not (PLACE / f"{name}.py").is_file() or name == "__init__":
        known = [file.stem for file in PLACE.glob("*.py")]
        fix = like(name, known) or "see tracetypes examples for their names"
        raise UsageError("TT402", f"there is no example {name!r}", fix=fix)
    to = folder / "examples"
    files = [PLACE / "__init__.py", *_needed(name)]
    there = [file for file in files[1:] if (to / file.name).exists()]
    if there:
        raise UsageError("TT402", f"{to / there[0].name} is there already", fix="remove it, or copy into another folder")
    try:
        to.mkdir(parents=True, exist_ok=True)
        return [Path(shutil.copyfile(file, to / file.name)) for file in files]
    except OSError as error:
        raise UsageError("TT402", f"{to}: {error.strerror}", fix="give a folder that can be written") from error


def _needed(name: str) -> Iterator[Path]:
    """The file of an example, and the files that it reads or imports."""
    seen, pending = {name}, [name]
    while pending:
        file = PLACE / f"{pending.pop()}.py"
        yield file
        text = file.read_text(encoding="utf-8")
        for other in re.findall(r"^\s*from examples\.(\w+) import", text, re.MULTILINE):
            if other not in seen:
                seen.add(other)
                pending.append(other)
        for data in re.findall(r'"(\w+\.json)"', text):
            if (PLACE / data).is_file():
                yield PLACE / data
