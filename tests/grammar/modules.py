"""Programs as Python writes them: source text in a file, which the tracer reads again, and the module that it makes."""

from __future__ import annotations

import importlib.util
import itertools
import linecache
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Final

__all__ = ["imported"]

_FOLDER: Final = tempfile.TemporaryDirectory(prefix="programs-")
_NUMBERS: Final = itertools.count()
_FIRST: Final = "from tests.grammar.prelude import *\n\n"


@contextmanager
def imported(source: str) -> Iterator[ModuleType]:
    """The module of such a source, as long as it is looked at."""
    name = f"program_{next(_NUMBERS)}"
    file = Path(_FOLDER.name, f"{name}.py")
    file.write_text(_FIRST + textwrap.dedent(source), "utf-8")
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        exec(compile(file.read_text("utf-8"), str(file), "exec", dont_inherit=True), module.__dict__)
        yield module
    finally:
        del sys.modules[name]
        linecache.cache.pop(str(file), None)
        file.unlink()
