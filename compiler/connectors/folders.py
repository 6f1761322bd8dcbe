"""Folders ``NAME=VALUE`` above a file are columns of its rows, as Hive, Spark, DuckDB and Arrow write them.

Names and values are percent-encoded. A column that the file has itself comes from the file. ``__HIVE_DEFAULT_PARTITION__`` is a
missing value.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import PurePath
from typing import Any, Final
from urllib.parse import unquote

from tracetypes.conformance import name_of, zoned
from tracetypes.errors import RunError
from tracetypes.formats import Layout
from tracetypes.plain_data import from_text
from tracetypes.records import Mismatch, Optional, Schema, UnitValue

__all__ = ["NULL", "folder_name", "folder_texts", "folder_values", "is_hidden"]

NULL: Final = "__HIVE_DEFAULT_PARTITION__"
"""The value of rows without one."""

_SPECIAL: Final = re.compile(r"""[\x00-\x1f"#%'*/:=?\\\x7f{\[\]^]""")
"""The characters that Hive and Spark encode."""


def is_hidden(name: str, *, folder: bool) -> bool:
    """Whether a source passes over a file or a folder of this name: it begins with ``_`` or ``.``, and is no column."""
    return name.startswith(("_", ".")) and not (folder and name.find("=") > 0)


def folder_name(column: str, text: str | None) -> str:
    """The folder of the rows with this value of a column, None for those without one."""
    return f"{_encoded(column)}={NULL if text is None else _encoded(text)}"


def _encoded(text: str) -> str:
    return _SPECIAL.sub(lambda found: f"%{ord(found[0]):02X}", text)


def folder_texts(path: str, names: Collection[str], file_name: str | None = None) -> dict[str, str | None]:
    """The values of the columns of these names that the folders above a file have. ``file_name``: the column that is its own
    name. Raises :class:`RunError` ``TT203`` if there are two of one column."""
    texts: dict[str, str | None] = {}
    if file_name is not None:
        texts[file_name] = PurePath(path).name
        names = [name for name in names if name != file_name]
    for folder in PurePath(path).parts[:-1] if "=" in path else ():
        name, is_column, text = folder.partition("=")
        if not is_column or (name := unquote(name)) not in names:
            continue
        value = None if text == NULL else unquote(text)
        if texts.setdefault(name, value) != value:
            raise RunError(
                "TT203",
                f"{path} lies in two folders for the column {name!r}",
                fix="let one folder on the way to a file have the name of a column",
            )
    return texts


def folder_values(
    path: str, layout: Layout, zone: str | None, besides: Collection[str] = (), file_name: str | None = None
) -> Mapping[str, Any]:
    """The values of the columns of a layout that the folders above a file have, without those ``besides``. ``file_name``: as of
    :func:`folder_texts`. Raises :class:`RunError` ``TT203`` if one is no value of its column."""
    wanted = {name: schema for name, schema in layout.columns if name not in besides and not isinstance(schema, UnitValue)}
    texts = folder_texts(path, wanted, file_name if file_name in wanted else None)
    return {name: _value(path, name, wanted[name], zone, text) for name, text in texts.items()}


def _value(path: str, name: str, schema: Schema, zone: str | None, text: str | None) -> Any:
    if text is None:
        return None
    bare = schema.item if isinstance(schema, Optional) else schema
    try:
        return from_text(zoned(bare, zone) if zone else bare, text)
    except Mismatch as error:
        raise RunError(
            "TT203",
            f"{path}: the folder {name}={text} is no value of the column {name!r}, expected {error.expected or name_of(bare)}",
            fix="change the field's type, or move the file to a folder with a value of the type",
        ) from None
