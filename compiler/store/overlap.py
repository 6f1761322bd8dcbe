"""Checks that the inputs of a run do not overlap with its outputs. Otherwise it would read what it writes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress

from tracetypes.compiler.connectors.folders import is_hidden
from tracetypes.compiler.connectors.registry import connector_of
from tracetypes.compiler.connectors.store_address import is_store
from tracetypes.errors import UsageError

__all__ = ["is_file", "is_listed", "local", "refuse_overlaps"]


def local(address: str) -> str | None:
    """The local path of an input or output; None if it has none."""
    return connector_of(address).path(address)


def is_file(address: str) -> bool:
    """Whether an input or output is a local file or directory of files."""
    return local(address) is not None and connector_of(address).is_directory


def is_listed(address: object) -> bool:
    """Whether the driver lists the files of an input, and the workers read them."""
    return isinstance(address, str) and connector_of(address).is_listed(address)


def refuse_overlaps(inputs: Mapping[str, str], places: Mapping[str, str]) -> None:
    """Refuse an input inside a place that the run writes, and the reverse. Follows links. ``inputs``: by source.
    ``places``: by their purpose. Raises :class:`UsageError` ``TT222``."""
    outputs = {what: path for what, address in places.items() if (path := local(address)) is not None}
    for source, address in inputs.items():
        path = local(address)
        if path is None:
            for what, place in places.items():
                if is_store(address) and is_store(place) and (_is_in(address, place) or _is_in(place, address)):
                    raise _overlap(source, address, what, place)
            continue
        for visible, real in _reached(path):
            for what, place in outputs.items():
                there = os.path.realpath(place)
                if _is_in(real, there) or _is_in(there, real):
                    link = "" if os.path.abspath(visible) == real else f", which is {real}"
                    raise _overlap(source, f"{visible}{link}", what, place)


def _overlap(source: str, read: str, what: str, place: str) -> UsageError:
    return UsageError(
        "TT222",
        f"source {source!r} reads {read}, and {what} is {place}: one lies in the other",
        fix="let the directories that are read and those that are written lie apart",
    )


def _is_in(inner: str, outer: str) -> bool:
    return f"{inner.rstrip(os.sep)}{os.sep}".startswith(f"{outer.rstrip(os.sep)}{os.sep}")


def _reached(path: str) -> Iterator[tuple[str, str]]:
    """A file or directory, and what the links in it lead to, each once: as it is seen, and where it is."""
    entered = set[str]()

    def below(seen: str) -> Iterator[tuple[str, str]]:
        real = os.path.realpath(seen)
        if real in entered:
            return
        entered.add(real)
        yield seen, real
        yield from links(real)

    def links(directory: str) -> Iterator[tuple[str, str]]:
        with suppress(OSError), os.scandir(directory) as entries:  # what cannot be listed is named when it is read
            for entry in entries:
                if is_hidden(entry.name, folder=entry.is_dir()):
                    continue
                if entry.is_symlink():
                    yield from below(entry.path)
                elif entry.is_dir():
                    yield from links(entry.path)

    return below(path)
