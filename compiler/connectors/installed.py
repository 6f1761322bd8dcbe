"""Connectors of other packages: those that entry points of the group ``tracetypes.connectors`` name, by their schemes."""

from __future__ import annotations

import re
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from tracetypes.connectors import Connector
from tracetypes.errors import CodedError, UsageError

__all__ = ["FILE_SYSTEMS", "GROUP", "installed", "installed_schemes", "scheme_of"]

GROUP: Final = "tracetypes.connectors"

FILE_SYSTEMS: Final = frozenset(
    {
        *("file", "hdfs", "viewfs", "webhdfs", "swebhdfs", "har", "ftp", "sftp"),
        *("s3a", "s3n", "abfs", "abfss", "wasb", "wasbs", "adl", "oss", "obs", "cosn", "dbfs", "alluxio", "ofs", "maprfs"),
    }
)
"""Schemes of file systems of Hadoop, which Spark reads."""

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*)://")


def scheme_of(address: object) -> str | None:
    """What stands before ``://`` in an address; None if it has no scheme."""
    match = _SCHEME.match(address) if isinstance(address, str) else None
    return None if match is None else match[1]


def installed_schemes() -> list[str]:
    """Those that entry points name."""
    return sorted({one.name for one in entry_points(group=GROUP)})


def installed(scheme: str) -> Connector | None:
    """The connector of a scheme, None if no package has one. Raises :class:`UsageError` ``TT402`` if several have one, or if it
    cannot be loaded."""
    if scheme in _LOADED:
        return _LOADED[scheme]
    points = {one.value: one for one in entry_points(group=GROUP, name=scheme)}
    if len(points) > 1:
        packages = " and ".join(_package(one) for one in points.values())
        raise UsageError("TT402", f"{packages} have a connector for {scheme}:// each", fix="uninstall all but one")
    for point in points.values():
        _LOADED[scheme] = _loaded(point)
    return _LOADED.get(scheme)


_LOADED: Final[dict[str, Connector]] = {}
"""By scheme. What is not there is looked for again: a package may be installed meanwhile."""


def _loaded(point: EntryPoint) -> Connector:
    try:
        connector: object = point.load()
    except CodedError:
        raise
    except Exception as error:
        raise UsageError(
            "TT402",
            f"the connector for {point.name}:// of {_package(point)} cannot be loaded: {type(error).__name__}: {error}",
            fix="see the cause, or install it anew",
        ) from error
    if not isinstance(connector, Connector):
        kind = type(connector).__name__
        raise UsageError(
            "TT402",
            f"the entry point {point.name} = {point.value} of {_package(point)} is a {kind}, and no connector",
            fix="let it name a tracetypes.connectors.Connector(source=..., sink=...)",
        )
    return connector


def _package(point: EntryPoint) -> str:
    return point.value if point.dist is None else point.dist.name
