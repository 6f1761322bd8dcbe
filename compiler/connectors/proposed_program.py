"""The program text of a record that was proposed for rows, and of a source that reads them."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Final

import attrs

from tracetypes.compiler.connectors.proposals import (
    Maybe,
    Proposal,
    ProposedField,
    ProposedList,
    ProposedRecord,
    Refused,
)
from tracetypes.compiler.connectors.sampled_rows import Sample
from tracetypes.errors import UsageError
from tracetypes.formats import Csv
from tracetypes.markers import TimeUnit
from tracetypes.records import (
    Boolean,
    Bytes,
    Date,
    DecimalOf,
    Float,
    Integer,
    Schema,
    String,
    Timestamp,
    Unsigned,
    column,
)

__all__ = ["class_name", "program_of"]

_SCALARS: Final[Mapping[type[Schema], str]] = {
    Boolean: "bool",
    Bytes: "bytes",
    Date: "dt.date",
    Float: "float",
    Integer: "int",
    String: "str",
    Timestamp: "dt.datetime",
    Unsigned: "UInt64",
}

_OF_TYPES: Final = frozenset(
    ("Annotated", "UInt64", "attrs", "bool", "bytes", "column", "decimal", "dt", "float", "int", "list", "str")
)
"""Names that the types of fields need, so that no field has one of them."""

_TIMES: Final = re.compile(r"(?:^|_)(?:ts|time|timestamp|datetime|at|when|date)(?:$|_)|(?:time|timestamp)$", re.IGNORECASE)
"""Names of fields that look like times."""


def program_of(sample: Sample, address: str, name: str) -> str:
    """The text of a program with a record for a sample, and a source of it. ``name``: of the record. Raises :class:`UsageError`
    ``TT403`` for one that is no name of a class."""
    if not name.isidentifier() or keyword.iskeyword(name):
        raise UsageError("TT403", f"--name {name!r} is no name of a class", fix="give a name of Python, such as Reading")
    text = _Program()
    text.record(sample.record, name)
    source, time = _stem(address), text.time
    lines = [f"# From {sample.origin}.", *_source(sample, source, name, time), ""]
    body = "\n\n\n".join([*text.classes, "\n".join(lines)])
    used = ["Dataflow", *(["U", "Unit", "every"] if time else [])]
    if time and (format := _format(sample)) is not None:
        used.append(format[0])
    used += [one for one in ("UInt64", "column", "decimal") if re.search(rf"\b{one}\b", "\n".join(text.classes))]
    imports = ["import attrs", "", f"from tracetypes import {', '.join(sorted(used, key=lambda name: (name.islower(), name)))}"]
    if "Annotated[" in body:
        imports.insert(0, "from typing import Annotated")
    if "Decimal," in body:
        imports.insert(0, "from decimal import Decimal")
    if "dt." in body:
        imports.insert(0, "import datetime as dt")
    if len(imports) > 3:
        imports.insert(-3, "")
    return "\n".join(imports) + "\n\n\n" + body


def _format(sample: Sample) -> tuple[str, str] | None:
    """The name of the format and its call, where the ending of the files does not say all of it."""
    if sample.format is None:
        return None
    arguments = list[str]()
    if isinstance(sample.format, Csv):
        if sample.format.separator not in (",", None):
            arguments.append(f"separator={_text(str(sample.format.separator))}")
        if sample.format.columns is not None:
            arguments.append(f"columns=[{', '.join(map(_text, sample.format.columns))}]")
    if _has_local_times(sample.record):
        arguments.append('zone="UTC"')
    name = {"csv": "csv", "jsonl": "json_lines", "parquet": "parquet", "avro": "avro"}.get(sample.format.extension)
    return None if name is None or not arguments else (name, f"{name}({', '.join(arguments)})")


def _has_local_times(kind: Proposal | None) -> bool:
    """Whether a type has times that name no zone."""
    match kind:
        case Timestamp(zone):
            return zone is not None
        case Maybe(item) | ProposedList(item):
            return _has_local_times(item)
        case ProposedRecord(fields):
            return any(_has_local_times(one.kind) for one in fields)
        case _:
            return False


def _source(sample: Sample, source: str, name: str, time: str | None) -> Iterator[str]:
    """The lines of the dataflow."""
    if time is None:
        yield "# No field looks like a time. A source needs markers: every(seconds=..., time=...), see docs/sources.md."
        yield f'flow = Dataflow("{source}")'
        return
    yield f'flow = Dataflow("{source}")'
    format = _format(sample)
    if format is not None and "zone=" in format[1]:
        yield "# Times that name no zone are read in that of the format: correct it."
    markers = f"markers=every(seconds=60, time={time})"
    if format is None:
        yield f'rows = flow.source("{source}", U[Unit, {name}], {markers})'
        return
    yield "rows = flow.source("
    yield from (f"    {one}," for one in (f'"{source}"', f"U[Unit, {name}]", markers, f"format={format[1]}"))
    yield ")"


def _stem(address: str) -> str:
    """A name for a source at an address."""
    name = PurePath(address.rstrip("/")).name.partition(".")[0]
    return re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "rows"


def class_name(text: str) -> str:
    """A name of a class that is like a text."""
    parts = re.findall(r"[A-Za-z0-9]+", text)
    name = "".join(part[:1].upper() + part[1:] for part in parts).lstrip("0123456789")
    return name if name and not keyword.iskeyword(name) else f"Row{name}"


@attrs.define
class _Program:
    """The text of classes, those first that others need."""

    classes: list[str] = attrs.Factory(list)
    names: set[str] = attrs.Factory(lambda: {"Annotated", "Dataflow", "Decimal", "U", "UInt64", "Unit"})
    time: str | None = None
    """The text of a function that gives the time of a row, once there is a field for it."""

    def record(self, record: ProposedRecord, like: str, *, inside: bool = False) -> str:
        """Add the class of a record; its name."""
        name, more = like, 2
        while name in self.names:
            name, more = f"{like}{more}", more + 1
        self.names.add(name)
        lines, names = list[str](), set[str]()
        for field in record.fields:
            lines.extend(self._field(field, names, inside=inside))
        if not names:
            lines.append("    ...  # no field that can be read")
        self.classes.append("\n".join(["@attrs.frozen", f"class {name}:", *lines]))
        return name

    def _field(self, field: ProposedField, names: set[str], *, inside: bool) -> Iterator[str]:
        """The lines of a field."""
        about = " ".join(field.about.split())
        if (reason := _refused(field.kind)) is not None or not _can_be_named(field.column):
            what = reason or "a name that no column can have"
            yield f"    # {_text(field.column)} is left out: {' '.join(what.split())}"
            return
        name = _field_name(field.column, names)
        names.add(name)
        kind = self.kind(field.kind, field.column)
        if name != field.column:
            kind = _annotated(kind.removesuffix(" | None"), field.column, optional=kind.endswith(" | None"))
        self._notice_time(field, name, inside=inside)
        yield f"    {name}: {kind}" + (f"  # {about}" if about else "")

    def _notice_time(self, field: ProposedField, name: str, *, inside: bool) -> None:
        if inside or self.time is not None:
            return
        unit = _unit(field.example)
        is_number = isinstance(field.kind, Integer | Float)
        if isinstance(field.kind, Timestamp) or (is_number and (_TIMES.search(field.column) or unit is not None)):
            self.time = f"lambda row: row.{name}" + (f', unit="{unit}"' if unit not in ("s", None) else "")

    def kind(self, kind: Proposal, like: str) -> str:
        """The text of a type."""
        match kind:
            case Maybe(item):
                return f"{self.kind(item, like)} | None"
            case ProposedList(item):
                return f"list[{self.kind(String() if item is None else item, like)}]"
            case ProposedRecord():
                return self.record(kind, class_name(like), inside=True)
            case DecimalOf(precision, scale):
                return f"Annotated[Decimal, decimal({precision}, {scale})]"
            case _:
                return _SCALARS[type(kind)]  # type: ignore[index]


def _unit(number: float | None) -> TimeUnit | None:
    """The unit in which a number is a time from 2001 to 2096, if it is one."""
    units: Mapping[TimeUnit, float] = {"s": 1e9, "ms": 1e12, "us": 1e15}
    return next((unit for unit, first in units.items() if number is not None and first <= number < 4 * first), None)


def _text(name: str) -> str:
    """A text in a program."""
    text = ascii(name)
    return text if '"' in text or "\\'" in text else f'"{text[1:-1]}"'


def _annotated(kind: str, name: str, *, optional: bool) -> str:
    """A type with the name of its column."""
    if kind.startswith("Annotated["):
        return f"{kind[:-1]}, column({_text(name)})]" if not optional else f"Annotated[{kind} | None, column({_text(name)})]"
    return f"Annotated[{kind}{' | None' if optional else ''}, column({_text(name)})]"


def _refused(kind: Proposal) -> str | None:
    """Why a type cannot be that of a field."""
    match kind:
        case Refused(what):
            return what
        case Maybe(item) | ProposedList(item):
            return None if item is None else _refused(item)
        case ProposedRecord(fields):
            return None if any(_refused(one.kind) is None for one in fields) else "a record without fields that can be read"
        case _:
            return None


def _can_be_named(name: str) -> bool:
    try:
        column(name)
    except UsageError:
        return False
    return True


def _field_name(name: str, names: set[str]) -> str:
    """The name of a field for a column."""
    plain = name
    is_name = name.isidentifier() and name.isascii() and not keyword.iskeyword(name) and not name.startswith("__")
    if not is_name or not name.strip("_"):
        plain = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_").lower() or "field"
        plain = f"n{plain}" if plain[0].isdigit() else plain
        plain = f"{plain}_" if keyword.iskeyword(plain) else plain
    if plain in _OF_TYPES:
        plain = f"{plain}_"
    unique, more = plain, 2
    while unique in names:
        unique, more = f"{plain}{more}", more + 1
    return unique
