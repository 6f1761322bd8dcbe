"""What the administrator of a service allows: operators, inputs and owners, each by its name, in a file.

::

    SERVICE/registry.toml    [operators]         the types that JSON may name, each with a MODULE:NAME
                             [inputs.NAME]       address, record, key, markers; the owners that may read it
                             [owners.NAME]       the folder of the outputs, and whether others see what is shared
                             [limits]            of bodies, tasks, flows, rates and memory

Reading the file imports nothing. Only a worker imports what it names.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from tracetypes.errors import UsageError

__all__ = ["LIBRARY", "Input", "Limits", "Owner", "Registry", "is_name", "read_registry"]

LIBRARY: Final = (
    *("aggregate", "approx_count_distinct", "bit_and", "bit_or", "bit_xor", "both", "collect", "collect_set", "correlation"),
    *("count", "count_distinct", "count_window", "covariance", "deduplicate", "diff", "equi_join", "ewm_mean"),
    *("exact_quantile", "exact_quantiles", "filter", "first", "histogram", "interpolate", "interval_join", "key_by", "last"),
    *("map_values", "max", "mean", "median", "min", "mode", "quantile", "regression", "running", "scan", "session"),
    *("sliding", "stddev", "sum", "top_distinct", "tumbling", "variance", "window_join"),
)
"""Operators and aggregates of the library that JSON may name. None of them opens a file or a connection."""

FORMATS: Final = ("csv", "json_lines", "parquet")
"""Formats of files."""

MOST: Final = 60
"""Characters of a name."""

_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*:")
"""The beginning of an address that is no path."""


@attrs.frozen(kw_only=True)
class Input:
    """An input that flows read by its name. ``address``: as of :func:`tracetypes.run`. ``record``: MODULE:NAME of the class of
    its rows. ``key``, ``time``: fields of it, or MODULE:NAME of functions; without a key the rows have none. ``seconds``,
    ``delay``, ``unit``: of its markers. ``format``: of its files, one of :data:`FORMATS`; None by
    their names. ``owners``: who may read it; None for all."""

    name: str
    address: str
    record: str
    key: str | None
    time: str
    seconds: float
    delay: float
    unit: str
    format: str | None
    owners: frozenset[str] | None

    def is_for(self, owner: str) -> bool:
        """Whether an owner may read it."""
        return self.owners is None or owner in self.owners


@attrs.frozen(kw_only=True)
class Owner:
    """A user of a service, or several who trust each other. ``outputs``: the folder below which all outputs lie. ``is_open``:
    whether others see which of this owner's flows they share operators with. ``packages``: modules and packages of this owner
    whose dataflows may be submitted by their names; ``folder``: where they are imported from."""

    name: str
    outputs: Path
    is_open: bool = False
    packages: tuple[str, ...] = ()
    folder: Path | None = None


@attrs.frozen(kw_only=True)
class Limits:
    """What the service refuses beyond. ``body``: bytes of a request; ``depth``: of its JSON; ``tasks``: of a flow; ``flows``: of
    an owner; ``changes``, ``requests``: of a token in a minute; ``memory``: bytes of a worker process; ``seconds``: of
    one call of an operator; ``operators``: of all flows, each counted for itself."""

    body: int = 1 << 20
    depth: int = 20
    tasks: int = 200
    flows: int = 100
    changes: int = 120
    requests: int = 1200
    memory: int = 4 << 30
    seconds: int = 60
    operators: int = 100_000


@attrs.frozen(kw_only=True)
class Registry:
    """All that a file of a service allows. ``operators``: MODULE:NAME by type. ``folder``: of the file; modules are looked for
    there first."""

    folder: Path
    operators: Mapping[str, str]
    inputs: Mapping[str, Input]
    owners: Mapping[str, Owner]
    limits: Limits

    def owner(self, name: str) -> Owner:
        """An owner. One that the file does not name has a folder of its own below that of the service."""
        return self.owners.get(name) or Owner(name=name, outputs=self.folder / "outputs" / name)

    def of_owner(self, name: str) -> Registry:
        """What one owner may know of it."""
        inputs = {one.name: one for one in self.inputs.values() if one.is_for(name)}
        inputs = {one: attrs.evolve(each, owners=None) for one, each in inputs.items()}
        return attrs.evolve(self, inputs=inputs, owners={name: self.owner(name)})


def is_name(text: object) -> bool:
    """Whether a text may be the name of an owner, a flow or a task: letters, digits, ``-`` and ``_`` of ASCII."""
    return isinstance(text, str) and 0 < len(text) <= MOST and text.isascii() and all(c.isalnum() or c in "-_" for c in text)


def read_registry(path: Path) -> Registry:
    """The registry of a file; that of no file allows the library only. Raises :class:`UsageError` ``TT414``."""
    try:
        plain = tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except (OSError, ValueError) as error:
        raise _wrong(path, str(error), "correct this line") from error
    return _Reader(path).registry(plain)


def _wrong(path: Path, message: str, fix: str) -> UsageError:
    return UsageError("TT414", f"{path}: {message}", fix=fix)


@attrs.frozen
class _Reader:
    """Makes a registry of plain values."""

    path: Path

    def registry(self, plain: dict[str, Any]) -> Registry:
        """All of it."""
        self._known("the file", plain, ("operators", "library", "inputs", "owners", "limits"))
        folder = self.path.resolve().parent
        library = plain.get("library", True)
        if not isinstance(library, bool):
            raise _wrong(self.path, f"library is {library!r}", "give true or false")
        allowed = {name: f"tracetypes.stdlib:{name}" for name in LIBRARY if library} | {"sort": "tracetypes:sort"}
        for name, target in self._table("operators", plain).items():
            if not is_name(name) or not _is_target(target):
                raise _wrong(self.path, f"operator {name} is {target!r}", f'write {name} = "MODULE:NAME"')
            allowed[name] = target
        return Registry(
            folder=folder,
            operators=allowed,
            inputs={name: self._input(name, one, folder) for name, one in self._table("inputs", plain).items()},
            owners={name: self._owner(name, one, folder) for name, one in self._table("owners", plain).items()},
            limits=self._limits(self._table("limits", plain)),
        )

    def _input(self, name: str, plain: Any, folder: Path) -> Input:
        what = f"input {name}"
        if not is_name(name) or not isinstance(plain, dict):
            raise _wrong(self.path, f"{what} is {plain!r}", f"write a table [inputs.{name}]")
        self._known(what, plain, ("address", "record", "key", "markers", "format", "owners"))
        self._known(f"markers of {what}", self._table("markers", plain), ("seconds", "time", "delay", "unit"))
        markers = self._table("markers", plain)
        address, record, time = plain.get("address"), plain.get("record"), markers.get("time")
        for word, one in (("address", address), ("record", record), ("markers.time", time)):
            if not isinstance(one, str) or not one:
                raise _wrong(self.path, f"{what} has {word} {one!r}", f'write {word} = "..."')
        format = plain.get("format")
        if format is not None and format not in FORMATS:
            raise _wrong(self.path, f"{what} has format {format!r}", f"give one of {', '.join(FORMATS)}")
        owners = plain.get("owners")
        if owners is not None and not (isinstance(owners, list) and all(map(is_name, owners))):
            raise _wrong(self.path, f"{what} has owners {owners!r}", 'write owners = ["NAME", ...], or leave it out for all')
        address, record, time = str(address), str(record), str(time)
        if _SCHEME.match(address) is None:
            address = str(folder / address)
        return Input(
            name=name,
            address=address,
            record=record,
            key=plain.get("key"),
            time=time,
            seconds=self._number(f"{what} has markers.seconds", markers.get("seconds")),
            delay=self._number(f"{what} has markers.delay", markers.get("delay", 0)),
            unit=markers.get("unit", "s"),
            format=format,
            owners=None if owners is None else frozenset(owners),
        )

    def _owner(self, name: str, plain: Any, folder: Path) -> Owner:
        if not is_name(name) or not isinstance(plain, dict):
            raise _wrong(self.path, f"owner {name} is {plain!r}", f"write a table [owners.{name}]")
        self._known(f"owner {name}", plain, ("outputs", "open", "packages", "folder"))
        packages, code = plain.get("packages", []), plain.get("folder")
        if not isinstance(packages, list) or not all(isinstance(one, str) for one in packages):
            raise _wrong(self.path, f"owner {name} has packages {packages!r}", 'write packages = ["PACKAGE", ...]')
        return Owner(
            name=name,
            outputs=folder / str(plain.get("outputs", f"outputs/{name}")),
            is_open=plain.get("open", False) is True,
            packages=tuple(packages),
            folder=None if code is None else folder / str(code),
        )

    def _limits(self, plain: dict[str, Any]) -> Limits:
        self._known("limits", plain, [one.name for one in attrs.fields(Limits)])
        for name, one in plain.items():
            if isinstance(one, bool) or not isinstance(one, int) or one < 1:
                raise _wrong(self.path, f"the limit {name} is {one!r}", "give a whole number from 1")
        return Limits(**plain)

    def _table(self, word: str, plain: dict[str, Any]) -> dict[str, Any]:
        table = plain.get(word, {})
        if not isinstance(table, dict):
            raise _wrong(self.path, f"{word} is {table!r}", f"write a table [{word}]")
        return table

    def _number(self, what: str, one: Any) -> float:
        if isinstance(one, bool) or not isinstance(one, int | float) or one < 0:
            raise _wrong(self.path, f"{what} {one!r}", "give a number of seconds")
        return one

    def _known(self, what: str, plain: Mapping[str, Any], words: Any) -> None:
        for word in plain:
            if word not in words:
                raise _wrong(self.path, f"{what} has {word!r}", f"it may have {', '.join(words)}")


def _is_target(text: object) -> bool:
    return isinstance(text, str) and text.count(":") == 1 and all(text.split(":"))
