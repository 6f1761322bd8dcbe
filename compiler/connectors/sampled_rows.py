"""The record of a file, a folder, a Delta table or a schema of Avro: from its types if it has some, else from a sample."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import unquote

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from tracetypes.compiler.connectors.avro_files import header_of
from tracetypes.compiler.connectors.csv_header import first_record
from tracetypes.compiler.connectors.delta import SCHEME, open_table, path_of
from tracetypes.compiler.connectors.folders import folder_texts, is_hidden
from tracetypes.compiler.connectors.proposals import (
    NO_ZONE,
    ZONE,
    Maybe,
    Proposal,
    ProposedField,
    ProposedList,
    ProposedRecord,
    Refused,
    is_number,
    of_cells,
    of_values,
)
from tracetypes.errors import RunError, UsageError
from tracetypes.formats import Avro as AvroFiles
from tracetypes.formats import Csv, Format, JsonLines, Layout, Parquet, format_of
from tracetypes.parsing import rows_of_text, split_header
from tracetypes.plain_data import json_decoder
from tracetypes.records import (
    Boolean,
    Bytes,
    Date,
    DecimalOf,
    Float,
    Integer,
    Mismatch,
    Schema,
    String,
    Timestamp,
    UnitValue,
    Unsigned,
    column,
)
from tracetypes.schemas import schema_of

__all__ = ["Sample", "sample_of"]

MOST: Final = 64 << 20
"""Bytes of a file that are read for a sample at most."""

SEPARATORS: Final = ",;\t|"
"""Those that are tried for a file of CSV."""


@attrs.frozen
class Sample:
    """What a place has. ``format``: of its files, None where it is none of files; ``origin``: from what."""

    record: ProposedRecord
    format: Format | None
    origin: str


def sample_of(address: str, rows: int) -> Sample:
    """The record of a file, of the first file of a folder, of a Delta table, or of a schema of Avro (``.avsc``). ``rows``: at
    most so many rows are read of a format without types. Raises :class:`UsageError` ``TT402``, :class:`RunError` ``TT203``,
    ``TT207``, ``TT208``."""
    if address.startswith(SCHEME):
        return Sample(_of_arrow(_schema_of_table(address)), None, f"the types of {address}")
    if "://" in address:
        fix = "give a file, a folder, delta://PATH or a schema of Avro, FILE.avsc"
        raise UsageError("TT402", f"tracetypes record does not read {address}", fix=fix)
    place = Path(address)
    files = _files(place)
    sample = _of_file(files[0], rows)
    folders = _of_folders([one.relative_to(place) for one in files] if place.is_dir() else [])
    besides = {one.column for one in sample.record.fields}
    fields = sample.record.fields + tuple(one for one in folders if one.column not in besides)
    return attrs.evolve(sample, record=ProposedRecord(fields))


def _of_file(file: Path, rows: int) -> Sample:
    try:
        if file.suffix == ".avsc":
            return Sample(Avro().record(json.loads(file.read_bytes())), None, f"the types of {file}")
        format = format_of(file.name, None)
        if isinstance(format, AvroFiles):
            return Sample(Avro().record(json.loads(header_of(str(file)).schema.text)), format, f"the types of {file}")
        if isinstance(format, Parquet):
            return _of_parquet(file, format)
        text, whole = _beginning(file)
    except (OSError, EOFError, pa.ArrowInvalid, ValueError) as error:
        raise RunError("TT208", f"{file} cannot be read: {error}", fix="see whether the file is whole") from error
    if isinstance(format, JsonLines):
        return _of_json(file, format, text, rows, whole)
    if isinstance(format, Csv):
        return _of_csv(file, format, text, rows, whole)
    return Sample(ProposedRecord((ProposedField("value", String()),)), format, f"lines of {file}")


def _files(place: Path) -> Sequence[Path]:
    """The file at a place, or those of a folder that a source reads, by name."""
    if place.is_dir():
        files = sorted(one for one in place.rglob("*") if one.is_file() and _is_read(one.relative_to(place)))
        if not files:
            raise UsageError("TT402", f"{place} has no file", fix="give a folder with the rows of a source")
        return files
    if not place.is_file():
        raise UsageError("TT402", f"{place} is no file and no folder", fix="give an existing one")
    return [place]


def _is_read(path: Path) -> bool:
    """Whether a source does not pass over a file. ``path``: from its folder on."""
    *folders, name = path.parts
    return not is_hidden(name, folder=False) and not any(is_hidden(one, folder=True) for one in folders)


def _of_folders(paths: Sequence[Path]) -> Sequence[ProposedField]:
    """The columns that folders ``NAME=VALUE`` above files have."""
    names = dict.fromkeys(unquote(part.partition("=")[0]) for path in paths for part in path.parts[:-1] if part.find("=") > 0)
    texts = [folder_texts(str(path), names) for path in paths]
    return [of_cells(name, [one.get(name) for one in texts]) for name in names]


def _beginning(file: Path) -> tuple[bytes, bool]:
    """The first bytes of a file, without compression, and whether that is all."""
    with pa.input_stream(str(file), compression="detect") as stream:
        text = stream.read(MOST + 1)
    return (text, True) if len(text) <= MOST else (text[: text.rfind(b"\n") + 1], False)


def _origin(rows: int, whole: bool, file: Path, *, broken: int) -> str:
    """From how many rows a record was made. ``broken``: of these, rows that cannot be read at all."""
    which = ("the only row" if whole else "the first row") if rows == 1 else f"{'all' if whole else 'the first'} {rows:,} rows"
    what = "one of them is a reject" if broken == 1 else f"{broken:,} of them are rejects"
    return f"{which} of {file}{f'; {what}' if broken else ''}"


# ------------------------------------------------------------------------------------------------- text


def _of_json(file: Path, format: JsonLines, text: bytes, rows: int, whole: bool) -> Sample:
    objects: list[Mapping[str, Any]] = []
    decoder, fault = json_decoder(()), "it has no rows"
    lines = [line for line in text.removeprefix(b"\xef\xbb\xbf").splitlines() if line.strip()]
    for number, line in enumerate(lines[:rows], 1):
        try:
            one = decoder.decode(line.decode())
        except ValueError as error:
            fault = f"row {number} is no JSON: {error}"
            continue
        if isinstance(one, dict):
            objects.append(one)
        else:
            fault = f"row {number} is no object of JSON"
    if not objects:
        raise RunError("TT203", f"{file} has no rows with fields: {fault}", fix="give lines of JSON objects")
    count = min(rows, len(lines))
    origin = _origin(count, whole and len(lines) <= rows, file, broken=count - len(objects))
    return Sample(_not_empty(of_values(objects), file), format, origin)


def _of_csv(file: Path, format: Csv, text: bytes, rows: int, whole: bool) -> Sample:
    header, separator = _header(text)
    format, no_header = attrs.evolve(format, separator=separator), ""
    if any(is_number(name) for name in header):
        header, no_header = [f"c{at}" for at in range(1, len(header) + 1)], "; it has no header"
        format = attrs.evolve(format, columns=tuple(header))
    names = [name for name in header if header.count(name) == 1 and _is_column(name)]
    if not names:
        raise RunError("TT203", f"{file} has no columns with names", fix="declare format=csv(columns=[...]) at the source")
    kinds: list[Any] = [Annotated[str | None, column(name)] for name in names]
    cells = {f"c{at}": attrs.field(type=kind) for at, kind in enumerate(kinds)}
    record: Any = attrs.make_class("Row", cells, frozen=True)
    layout = Layout(UnitValue(), schema_of(record))
    some = list(islice(rows_of_text(format, layout, text), rows + 1))
    count, whole = min(rows, len(some)), whole and len(some) <= rows
    values = [attrs.astuple(one[1]) for one in some[:rows] if not isinstance(one, Mismatch)]
    columns = zip(*values, strict=True) if values else [()] * len(names)
    fields = tuple(of_cells(name, cells) for name, cells in zip(names, columns, strict=True))
    left_out = tuple(ProposedField(name, Refused("a name that no column can have")) for name in header if name not in names)
    return Sample(ProposedRecord(fields + left_out), format, _origin(count, whole, file, broken=count - len(values)) + no_header)


def _header(text: bytes) -> tuple[Sequence[str], str]:
    """The names of a header, and the separator that gives most of them."""
    format = Csv()
    first = first_record([text], format).decode("utf-8", "replace")
    best: tuple[Sequence[str], str] | None = None
    problem: RunError | None = None
    for separator in SEPARATORS:
        try:
            names = split_header(attrs.evolve(format, separator=separator), first)
        except RunError as error:
            problem = problem or error
            continue
        if best is None or len(names) > len(best[0]):
            best = names, separator
    if best is None and problem is not None:
        raise problem
    return best if best is not None else ((), ",")


def _is_column(name: str) -> bool:
    try:
        column(name)
    except UsageError:
        return False
    return True


def _not_empty(record: ProposedRecord, file: Path) -> ProposedRecord:
    if not record.fields:
        raise RunError("TT203", f"{file} has no rows with fields", fix="give a file with rows")
    return record


# ------------------------------------------------------------------------------------------------- Parquet, Delta


def _of_parquet(file: Path, format: Parquet) -> Sample:
    parquet = pq.ParquetFile(file)
    without_nulls = _without_nulls(parquet.metadata)
    record = _of_arrow(parquet.schema_arrow, without_nulls)
    origin = f"the types of {file}; a column is not optional if its statistics count no null"
    return Sample(_not_empty(record, file), format, origin)


def _without_nulls(metadata: Any) -> frozenset[str]:
    """The columns at the top of which statistics say that no value is missing."""
    missing: dict[str, int | None] = {}
    for group in range(metadata.num_row_groups):
        for at in range(metadata.num_columns):
            one = metadata.row_group(group).column(at)
            count = one.statistics.null_count if one.is_stats_set and one.statistics.has_null_count else None
            before = missing.get(one.path_in_schema, 0)
            missing[one.path_in_schema] = None if count is None or before is None else before + count
    return frozenset(name for name, count in missing.items() if count == 0)


def _schema_of_table(address: str) -> pa.Schema:
    return pa.schema(open_table(path_of(address)).schema())


def _of_arrow(schema: Any, without_nulls: frozenset[str] = frozenset()) -> ProposedRecord:
    """The record of a schema of Arrow, or of a struct. ``without_nulls``: columns without nulls."""
    fields = []
    for one in schema:
        kind, about = _of_type(one.type)
        if one.nullable and one.name not in without_nulls and not isinstance(kind, Refused):
            kind = Maybe(kind)
        fields.append(ProposedField(one.name, kind, about))
    return ProposedRecord(tuple(fields))


def _of_type(kind: Any) -> tuple[Proposal, str]:
    """The type of a column of Arrow, and what is to be known of it."""
    types = pa.types
    if types.is_dictionary(kind):
        return _of_type(kind.value_type)
    if types.is_struct(kind):
        return _of_arrow(kind), ""
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        item, about = _of_type(kind.value_type)
        if isinstance(item, Refused):
            return Refused(str(kind)), about
        return ProposedList(Maybe(item) if kind.value_field.nullable else item), about
    if types.is_timestamp(kind):
        return (Timestamp(), "") if kind.tz is not None else (Timestamp(ZONE), NO_ZONE)
    if types.is_decimal(kind) and kind.scale >= 0 and kind.precision <= 38:
        return DecimalOf(kind.precision, kind.scale), ""
    for suits, schema in _SCALARS:
        if suits(kind):
            return schema, ""
    return Refused(str(kind)), ""


_SCALARS: Final[tuple[tuple[Callable[[Any], bool], Schema], ...]] = (
    (pa.types.is_boolean, Boolean()),
    (pa.types.is_uint64, Unsigned()),
    (pa.types.is_integer, Integer()),
    (pa.types.is_floating, Float()),
    (pa.types.is_string, String()),
    (pa.types.is_large_string, String()),
    (pa.types.is_string_view, String()),
    (pa.types.is_binary, Bytes()),
    (pa.types.is_large_binary, Bytes()),
    (pa.types.is_fixed_size_binary, Bytes()),
    (pa.types.is_date, Date()),
)


# ------------------------------------------------------------------------------------------------- Avro


@attrs.frozen
class Avro:
    """Reads a schema of Avro. ``named``: the types with names that were met so far; ``within``: the records around a field."""

    named: dict[str, Any] = attrs.Factory(dict)
    within: tuple[str, ...] = ()

    def record(self, schema: Any) -> ProposedRecord:
        """The record of the schema of one. Raises :class:`RunError` ``TT203``."""
        if not isinstance(schema, dict) or schema.get("type") != "record":
            raise RunError("TT203", "the schema of Avro is none of a record", fix="give the schema of a record")
        name = str(schema["name"])
        self.named[name.rpartition(".")[2]] = schema
        inner = Avro(self.named, (*self.within, name))
        return ProposedRecord(tuple(ProposedField(one["name"], inner.kind(one["type"])) for one in schema["fields"]))

    def kind(self, kind: Any) -> Proposal:
        """The type of a field."""
        if isinstance(kind, list):
            return self._union(kind)
        if isinstance(kind, str):
            known = self.named.get(kind.rpartition(".")[2])
            return self.kind(known) if known is not None else _AVRO.get(kind, Refused(f"the type {kind} of Avro"))
        if (logical := _logical(kind)) is not None:
            return logical
        match kind["type"]:
            case "record":
                return Refused("a record inside itself") if str(kind["name"]) in self.within else self.record(kind)
            case "array":
                item = self.kind(kind["items"])
                return Refused(f"an array of {item.what}") if isinstance(item, Refused) else ProposedList(item)
            case "enum" | "fixed" as base:
                self.named[str(kind["name"]).rpartition(".")[2]] = kind
                return String() if base == "enum" else Bytes()
            case "map":
                return Refused("a map")
            case base:
                return self.kind(base)

    def _union(self, members: Sequence[Any]) -> Proposal:
        some = [one for one in members if one != "null"]
        if len(some) != 1:
            return Refused(f"a union of {len(some)} types")
        item = self.kind(some[0])
        return item if isinstance(item, Refused) or len(some) == len(members) else Maybe(item)


_AVRO: Final[Mapping[str, Schema]] = {
    "boolean": Boolean(),
    "int": Integer(),
    "long": Integer(),
    "float": Float(),
    "double": Float(),
    "bytes": Bytes(),
    "string": String(),
}


def _logical(kind: Mapping[str, Any]) -> Schema | Refused | None:
    """The type of a logical type; None for a type without one, and for one that is read as what it is made of."""
    match kind.get("logicalType"):
        case "date":
            return Date()
        case "timestamp-millis" | "timestamp-micros" | "timestamp-nanos":
            return Timestamp()
        case "decimal":
            precision = kind["precision"]
            return DecimalOf(precision, kind.get("scale", 0)) if precision <= 38 else Refused(f"a decimal of {precision} digits")
        case _:
            return None
