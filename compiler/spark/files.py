"""Files as Spark reads them: paths, headers, schemas, and the errors that can be found before anything runs."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StructField,
    StructType,
)

from tracetypes.compiler.analysis.traced import Opaque
from tracetypes.compiler.columns.arrow import arrow_type, signed, type_in_files
from tracetypes.compiler.connectors.endpoint_identity import EndpointIdentity
from tracetypes.compiler.connectors.files import Order
from tracetypes.compiler.connectors.parquet import parts_of
from tracetypes.compiler.connectors.registry import connector_of
from tracetypes.compiler.plan.plan import FromSource, SourceLink
from tracetypes.compiler.spark.catalyst import tree
from tracetypes.compiler.spark.catalyst_operations import NotNative
from tracetypes.compiler.spark.input_interface import Input
from tracetypes.compiler.spark.scan import AvroScan, ColumnScan, End, LinesScan, ParquetScan, Scan, TextScan
from tracetypes.compiler.store.input_files import InputFiles
from tracetypes.compiler.store.listings import Listings
from tracetypes.compiler.store.places import Place, spark_address
from tracetypes.compiler.store.source_files import SourceFiles
from tracetypes.compiler.tracing import expr
from tracetypes.conformance import name_of
from tracetypes.errors import RunError, envelope
from tracetypes.formats import Avro, Csv, Parquet
from tracetypes.records import (
    DecimalOf,
    EnumOf,
    Float,
    Integer,
    ListOf,
    LiteralOf,
    OneOf,
    Optional,
    Record,
    Schema,
    UnitValue,
    Unsigned,
)

__all__ = ["FileInput", "check_types", "literal", "numbered", "read_as", "spark_type"]

SCAN = "TRACETYPES_SCAN"
"""Environment: ``spark`` has Spark read local files too, as it does where the workers cannot open them by path."""

WHOLE = 18
"""Digits of decimals that surely fit into 64 bits."""

PLACE = {
    "_time": "unix_micros(_metadata.file_modification_time)",
    "_file": "xxhash64(_metadata.file_path)",
    "_start": "_metadata.file_block_start",
}
"""Which piece a row belongs to: columns, and what they are to Spark."""


class FileInput(Input):
    """A file, or a directory with all files below it, as the input of a source."""

    def __init__(
        self, spark: SparkSession, leaf: FromSource, path: str, files_per_step: int | None, order: Order = "modified"
    ) -> None:
        self.spark, self.leaf, self.path, self.files_per_step = spark, leaf, path, files_per_step
        self.source_files = SourceFiles(leaf, path, order, self.is_listed)
        self.format = self.source_files.format
        if not self.is_listed and leaf.source.file_name is not None:
            raise RunError(
                "TT402",
                f"source {leaf.source.name!r}: Spark reads {path}, and no names of files",
                fix="read the files from a local or mounted disk, or leave file_name out",
            )
        if not self.is_listed and isinstance(self.format, Avro):
            raise RunError(
                "TT402",
                f"source {leaf.source.name!r}: Spark reads {path}, and no files of Avro",
                fix="read the files from a local or mounted disk",
            )
        if not self.is_listed and isinstance(self.format, Csv) and self.format.encoding != "utf-8":
            raise RunError(
                "TT402",
                f"source {leaf.source.name!r}: Spark reads {path}, and no text in {self.format.encoding}",
                fix="read the files from a local or mounted disk, or give text in UTF-8",
            )

    @property
    def identity(self) -> EndpointIdentity:
        """The identity of files, which are known by their names."""
        return EndpointIdentity(connector_of(self.path).kind)

    @property
    def is_listed(self) -> bool:
        """Whether the driver lists these files and the workers read them: on a local or mounted disk, or on an object store."""
        return connector_of(self.path).is_listed(self.path) and os.environ.get(SCAN) != "spark"

    @property
    def waiting(self) -> tuple[int | None, set[str]] | None:
        """All files, if Spark lists them."""
        if self.is_listed:
            return None
        return self.files_per_step, {connector_of(name).absolute(name) for name in self.source_files.names}

    def files(self, checkpoint: Place, label: str, *, tasks: int, appended: bool, follows: bool) -> InputFiles | None:
        """The files, if the driver lists them."""
        if not self.is_listed:
            return None
        options = {"tasks": tasks, "at_once": self.files_per_step, "appended": appended, "follows": follows}
        return self.source_files.input_files(checkpoint, label, **options)

    def scanned(self, end: End, files: InputFiles | None) -> tuple[DataFrame, Scan]:
        """Lines of listings, or rows."""
        if files is not None:
            frame = self.listing(files.listings)
            if isinstance(self.format, Parquet):
                return frame, ParquetScan(end)
            if isinstance(self.format, Avro):
                return frame, AvroScan(end)
            return frame, LinesScan(end, self.format, self.source_files.header)
        frame, native = self.frame(end.link)
        if isinstance(self.format, Parquet):
            return frame, ColumnScan(end, native)
        assert not isinstance(self.format, Avro)
        return frame, TextScan(end, self.format, self.source_files.header)

    def listing(self, listings: Listings) -> DataFrame:
        """The lines of listings. Spark takes one listing at a time, which has a file for each of the tasks, or one for all."""
        self.source_files.check_first()
        reader = self.spark.readStream.format("text").option("recursiveFileLookup", "true").option("maxFileAge", "1d")
        lines = reader.option("maxFilesPerTrigger", listings.parts).load(literal(spark_address(listings.path)))
        return lines.repartition(listings.tasks) if listings.parts < listings.tasks else lines

    def frame(self, link: SourceLink) -> tuple[DataFrame, bool]:
        """The rows, with the split of each (:mod:`tracetypes.compiler.spark.scan`). And whether Catalyst computes the
        first operator of the link."""
        reader = self.spark.readStream.option("recursiveFileLookup", "true").option("maxFileAge", "36500d")
        if self.files_per_step is not None:
            reader = reader.option("maxFilesPerTrigger", self.files_per_step)
        if isinstance(self.format, Parquet):
            schema = self._schema()
            check_types(self.leaf, self.path, {field.name: field.dataType for field in schema})
            for name, field in self.leaf.layout.columns:
                if signed(arrow_type(field)) != arrow_type(field):
                    raise RunError(
                        "TT203",
                        f"{self.path}: Spark does not read the unsigned integers of {name!r}",
                        fix="read from a local or mounted disk, or declare Annotated[Decimal, decimal(20, 0)]",
                    )
            columns = []
            for at, (name, type_) in enumerate(self.leaf.layout.columns):
                here = name in schema.names and not isinstance(type_, UnitValue)
                column = F.lit(None).cast(spark_type(type_))
                if here:
                    column = read_as(F.col(f"`{name.replace('`', '``')}`"), schema[name].dataType, type_)
                columns.append(column.alias(numbered(at)))
            lacking = [name for name, _ in self.leaf.layout.columns if name not in schema.names]
            rows = reader.schema(schema).parquet(_glob(self.path)).select(*columns, *self._place(lacking))
            native = native_emissions(link)
            fields = map(numbered, range(len(columns)))
            return rows.select(*fields, *native, *PLACE), bool(native)
        lines = reader.format("text").load(_glob(self.path))
        place = self._place([name for name, _ in self.leaf.layout.columns])
        return lines.select(F.expr("CAST(value AS BINARY) AS raw"), *place), False

    def _place(self, lacking: Sequence[str]) -> list[Column]:
        """The columns of :data:`PLACE`. Stops the run at a file in a folder ``NAME=VALUE`` for one of the columns that files
        lack: Spark knows no such folders where it reads them by path."""
        columns = {name: F.expr(what) for name, what in PLACE.items()}
        if lacking:
            refused = RunError(
                "TT402",
                f"source {self.leaf.source.name!r}: files at {self.path} lie in folders for its columns "
                f"({', '.join(map(repr, lacking))}), which are not read from ://",
                fix="read them from a local or mounted disk, or write the columns into the files",
            )
            names = "|".join(map(re.escape, lacking))
            inside = F.col("_metadata.file_path").rlike(f"/({names})=[^/]*/")
            columns["_file"] = F.when(inside, F.raise_error(F.lit(envelope(refused)))).otherwise(columns["_file"])
        return [column.alias(name) for name, column in columns.items()]

    def _schema(self) -> StructType:
        """The columns of the files; without files yet, those of the layout."""
        if not self.source_files.names:
            return StructType([StructField(name, spark_type(schema)) for name, schema in self.leaf.layout.columns])
        try:
            return self.spark.read.option("recursiveFileLookup", "true").parquet(_glob(self.path)).schema
        except (PySparkException, Py4JError) as error:
            first = next(line for line in str(error).splitlines() if not line.startswith("An error occurred"))
            raise RunError(
                "TT208", f"{self.path} cannot be read as Parquet: {first}", fix="give Parquet files, or another format"
            ) from error


def numbered(at: int) -> str:
    """The name of a column of a layout in a frame: Spark does not take every name everywhere."""
    return f"_{at}"


def native_emissions(link: SourceLink) -> list[Column]:
    """The emissions of the first operator of a link, as Catalyst expressions of the layout's columns: a list of pairs,
    and whether a row must run in Python. Nothing if it is opaque, or has no exact equivalent in Spark."""
    if not link.path or isinstance(link.path[0].traced, Opaque) or not link.leaf.gives_items:
        return []
    layout, stream = link.leaf.layout, link.path[0].stream
    if any(type_in_files(schema) != arrow_type(schema) for _, schema in layout.columns):
        return []  # structs whose fields have other names in the file

    def find(leaf: expr.Input) -> Column:
        if leaf.path[0] == "key" and not layout.keyed:
            raise NotNative("the key is computed from the value")
        if leaf.path[0] == "value" and not layout.opened:
            raise NotNative("the value is one column")
        at, inner = (0, leaf.path[1:]) if leaf.path[0] == "key" else (layout.places[str(leaf.path[1])], leaf.path[2:])
        column = F.col(numbered(at))
        for field in inner:
            column = column.getField(str(field))
        return column

    try:
        native = tree(link.path[0].traced, find, stream.key, stream.value)
    except NotNative:
        return []
    undefined = F.lit(False) if native.undefined is None else native.undefined
    return [native.pairs.alias("_emitted"), undefined.alias("_undefined")]


def check_types(leaf: FromSource, path: str, types: dict[str, DataType]) -> None:
    """Check that columns fit a source. Raises :class:`RunError` ``TT203``."""
    for name, schema in leaf.layout.columns:
        if isinstance(schema, UnitValue):
            continue
        if name not in types:
            if isinstance(schema, Optional):
                continue
            raise RunError(
                "TT203",
                f"{path} has no column {name!r}; it has {', '.join(map(repr, types)) or 'no columns'}",
                fix=f"name the column {name!r}, or rename the field",
            )
        if not _casts(types[name], schema):
            raise RunError(
                "TT203",
                f"{path}: the column {name!r} is {types[name].simpleString()}, expected {name_of(schema)}",
                fix="change the field's type, or give the column the type of the field",
            )


def read_as(column: Column, actual: DataType, schema: Schema) -> Column:
    """A column of a file, whose type fits, as one of a schema. The fields of structs match by name, and keep it."""
    match schema, actual:
        case Optional(item), _:
            return read_as(column, actual, item)
        case UnitValue(), _:
            return F.lit(None)
        case ListOf(item), ArrayType(elementType=inner):
            return F.transform(column, lambda one: read_as(one, inner, item))
        case Record() | OneOf(), StructType():
            fields = [
                (read_as(column.getField(name), actual[name].dataType, one) if name in actual.names else F.lit(None))
                .cast(spark_type(one))
                .alias(name)
                for name, one in parts_of(schema)
            ]
            return F.when(column.isNotNull(), F.struct(*fields))
        case _:
            return column.cast(spark_type(schema))


def spark_type(schema: Schema) -> DataType:
    """The type of a column of a file."""
    from pyspark.sql.pandas.types import from_arrow_type

    return from_arrow_type(signed(type_in_files(schema)))


def _casts(actual: DataType, schema: Schema) -> bool:
    """Is a column of a file of the wanted type, or of a narrower one? Fields of structs by name."""
    match schema:
        case Optional(item) | LiteralOf(item) | EnumOf(item=item):
            return _casts(actual, item)
        case Record() | OneOf():
            parts = parts_of(schema)
            return isinstance(actual, StructType) and all(
                _casts(actual[name].dataType, one) if name in actual.names else isinstance(one, Optional | UnitValue)
                for name, one in parts
            )
        case ListOf(item):
            return isinstance(actual, ArrayType) and _casts(actual.elementType, item)
        case UnitValue():
            return True
        case Integer() | Unsigned():
            decimal = isinstance(actual, DecimalType) and actual.scale == 0 and actual.precision <= WHOLE
            return decimal or isinstance(actual, LongType | ByteType | ShortType | IntegerType)
        case Float():
            return isinstance(actual, DoubleType | FloatType)
        case DecimalOf(precision, scale):
            if not isinstance(actual, DecimalType) or actual.scale > scale:
                return False
            return actual.precision - actual.scale <= precision - scale
        case _:
            return type(actual) is type(spark_type(schema))


def literal(text: str) -> str:
    """A path as a pattern that matches only that path."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", text)


def _glob(path: str) -> str:
    """A path that Spark's streaming file source accepts: a single file must be spelled as a pattern."""
    if "://" in path or not os.path.isfile(path):
        special = "://" not in path and re.search(r"[\\*?\[\]{}]", path)
        return literal(os.path.abspath(path)) if special else path
    head, tail = os.path.split(os.path.abspath(path))
    at = next((at for at in range(len(tail) - 1, -1, -1) if tail[at].isalnum()), None)
    if at is None:
        raise RunError("TT208", f"{path} has no letter in its name", fix="rename it")
    return f"{literal(head)}/{literal(tail[:at])}[{tail[at]}]{literal(tail[at + 1 :])}"
