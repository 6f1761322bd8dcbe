"""Modules made of texts, with a source that ``linecache`` knows."""

from __future__ import annotations

import itertools
import linecache
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager

_NUMBERS = itertools.count()


@contextmanager
def modules(**texts: str) -> Iterator[dict[str, types.ModuleType]]:
    """Modules by name, made one after the other; they are gone afterwards."""
    made: dict[str, types.ModuleType] = {}
    files: list[str] = []
    try:
        for name, text in texts.items():
            module = types.ModuleType(name)
            module.__file__ = f"/made/{next(_NUMBERS)}/{name}.py"
            files.append(module.__file__)
            linecache.cache[module.__file__] = (len(text), None, text.splitlines(keepends=True), module.__file__)
            sys.modules[name] = made[name] = module
            exec(compile(text, module.__file__, "exec"), module.__dict__)
        yield made
    finally:
        for name in made:
            sys.modules.pop(name, None)
        for file in files:
            linecache.cache.pop(file, None)
