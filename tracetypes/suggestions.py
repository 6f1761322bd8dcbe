"""What to write instead of a method that no stream has, for people who look for one."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final, get_overloads

from tracetypes.calls import like

__all__ = ["instead"]


def instead(name: str) -> str | None:
    """What to write instead of ``stream.NAME(...)``."""
    library: Any = import_module("tracetypes.stdlib")
    near = like(name, [*library.__all__, *_ON_STREAMS])
    if name in _ON_STREAMS:
        return f"write {_ON_STREAMS[name]}"
    if name not in library.__all__:
        return near or None
    function = getattr(library, name)
    first = next(iter(get_overloads(function)), function)
    gives = "" if isinstance(function, type) else str(first.__annotations__.get("return", ""))
    if gives.startswith("Stream"):
        return f"write {name}(stream, other, ...), with {name} of tracetypes.stdlib"
    if gives.startswith("Aggregate"):
        return f"write .through(aggregate({name}(...))), with aggregate and {name} of tracetypes.stdlib"
    if "Operator" in gives:
        return f"write .through({name}(...)), with {name} of tracetypes.stdlib"
    return f"{name} is a {'class' if isinstance(function, type) else 'function'} of tracetypes.stdlib"


_ON_STREAMS: Final = {
    "sort": ".through(sort(by=...)), with sort of tracetypes",
    "merge": "merge(stream, other), with merge of tracetypes",
    "sink": "flow.sink(name, stream)",
}
"""What is done with streams and is no operator of the library."""
