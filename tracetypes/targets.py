"""The dataflow, or the record, that a command names: `FILE.py`, `package.module:NAME` or `__main__:NAME`."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Final

from tracetypes.errors import TraceTypesError, UsageError, is_ours, raised_at
from tracetypes.graph import Dataflow
from tracetypes.records import Record
from tracetypes.schemas import schema_of

__all__ = ["load", "load_record"]

_OURS: Final = ("tracetypes.stdlib", "tracetypes")
"""Modules whose names a dataflow imports."""


def load(target: str) -> Dataflow:
    """The dataflow that a target names. Raises :class:`UsageError` ``TT403``."""
    place, _, name = target.partition(":")
    module = _module(place)
    flows = {n: v for n, v in vars(module).items() if isinstance(v, Dataflow)}
    if name:
        value = vars(module).get(name)
        if isinstance(value, Dataflow):
            return value
        kind = f"{name} is a {type(value).__name__}" if value is not None else f"there is no {name}"
        raise UsageError("TT403", f"{place}: {kind}", fix=f"its dataflows are {', '.join(flows) or 'none'}")
    if len({id(f) for f in flows.values()}) == 1:
        return next(iter(flows.values()))
    if not flows:
        raise UsageError("TT403", f"{place} has no dataflow", fix='define one at its top level: flow = Dataflow("NAME")')
    raise UsageError("TT403", f"{place} has {len(flows)} dataflows", fix=f"name one: {place}:{next(iter(flows))}")


def load_record(target: str) -> Record:
    """The schema of the record that a target names. Raises :class:`UsageError` ``TT403``, :class:`DataError` ``TT106``."""
    place, _, name = target.partition(":")
    module = _module(place)
    value = vars(module).get(name)
    if value is None:
        classes = [n for n, v in vars(module).items() if isinstance(v, type) and v.__module__ == module.__name__]
        found = f"there is no {name}" if name else "no record is named"
        raise UsageError("TT403", f"{place}: {found}", fix=f"name one of its classes: {', '.join(classes) or 'it has none'}")
    schema = schema_of(value) if isinstance(value, type) else None
    if not isinstance(schema, Record):
        fix = "name a frozen attrs class, a frozen dataclass or a NamedTuple"
        raise UsageError("TT403", f"{place}: {name} is no record", fix=fix)
    return schema


def _module(place: str) -> ModuleType:
    """Import a file under the name that workers can import it by, or a module."""
    if not place.endswith(".py"):
        if Path(place).is_file():
            raise UsageError("TT403", f"{place} is no file of Python", fix="give FILE.py:NAME; rows come by --input SOURCE=FILE")
        sys.path[:0] = [os.getcwd()] if os.getcwd() not in sys.path else []
        return _imported(place, place)
    path = Path(place).resolve()
    if not path.is_file():
        raise UsageError("TT403", f"{place} is no file", fix="give FILE.py:NAME or package.module:NAME")
    parts, root = [path.stem], path.parent
    while (root / "__init__.py").is_file():
        parts.insert(0, root.name)
        root = root.parent
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    name = ".".join(parts)
    module = sys.modules.get(name)
    if module is not None and Path(str(module.__file__)).resolve() != path:
        raise UsageError("TT403", f"{place}: another module is called {name}", fix="rename the file")
    try:
        spec = importlib.util.find_spec(name)
    except ImportError:  # a.b.py is no module b of a package a
        spec = None
    if spec is None or spec.origin is None or Path(spec.origin).resolve() != path:
        where = f"{spec.origin} comes first" if spec is not None else "it is no Python name"
        raise UsageError("TT403", f"{place} cannot be imported as {name}: {where}", fix="rename the file")
    return _imported(name, place)


def _imported(name: str, place: str) -> ModuleType:
    try:
        return import_module(name)
    except TraceTypesError:
        raise
    except (Exception, SystemExit) as error:
        import traceback

        frames = [f for f in traceback.extract_tb(error.__traceback__) if "importlib" not in f.filename]
        at = f" at {frames[-1].filename}:{frames[-1].lineno}" if len(frames) > 1 else ""
        if (line := raised_at(error)) is not None and is_ours(frames[-1].filename):
            at = f" at {line}"
        if isinstance(error, SyntaxError) and error.filename:
            at = f" at {error.filename}:{error.lineno}"
        raise UsageError(
            "TT403",
            f"{place} cannot be imported: {type(error).__name__}: {error}{at}",
            fix=_correction(error) if at else "give FILE.py:NAME or package.module:NAME of a module that can be imported",
        ) from error


def _correction(error: BaseException) -> str:
    """What to write instead of a name that is not there."""
    name = error.name if isinstance(error, NameError) else None
    if isinstance(error, ImportError) and error.name in _OURS and (match := re.search(r"cannot import name '(\w+)'", str(error))):
        name = match[1]
    if name is None:
        return "correct this line"
    for module in _OURS:
        exported = import_module(module).__all__
        if name in exported:
            return f"write from {module} import {name}"
    near = [(get_close_matches(name, import_module(module).__all__, n=1), module) for module in _OURS]
    best = next(((one[0], module) for one, module in near if one), None)
    return "correct this line" if best is None else f"did you mean {best[0]} of {best[1]}?"
