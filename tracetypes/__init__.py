"""Typed streaming dataflows that give the same answer at every parallelism."""

# ruff: noqa: E402
from tracetypes.interrupt import end_by_interrupt

end_by_interrupt()

from tracetypes.algebra import ExactSum
from tracetypes.check import Checked, check
from tracetypes.debezium import Change, debezium
from tracetypes.edges import EdgeType, O, U
from tracetypes.epochs import Epoch, each_batch
from tracetypes.errors import (
    CheckFailed,
    DataError,
    LawBroken,
    OperatorFailed,
    RunError,
    TraceTypesError,
    UsageError,
    Violation,
)
from tracetypes.formats import avro, csv, json_lines, kafka, parquet, text_lines
from tracetypes.graph import Dataflow, SourceStream, Stream, merge, sort
from tracetypes.interpreter import interpret, interpret_rows
from tracetypes.markers import Every, Marker, every, in_band
from tracetypes.nodes import ROW_POSITION, Graph
from tracetypes.records import UNIT, UInt64, Unit, column, decimal, uint64
from tracetypes.rejects import Rejected
from tracetypes.results import Result
from tracetypes.running import (
    Run,
    Shadow,
    Standards,
    Training,
    explain,
    load_model,
    read,
    run,
    shadow,
    start,
    sweep_figures,
    train_gates,
)
from tracetypes.sort_keys import desc
from tracetypes.templates import Emit, EmitValue, OpKeyedOrdered, OpKeyedUnordered, OpStateless
from tracetypes.trace import Item, Trace
from tracetypes.version import VERSION

__version__ = VERSION

__all__ = [
    "ROW_POSITION",
    "UNIT",
    "Change",
    "CheckFailed",
    "Checked",
    "DataError",
    "Dataflow",
    "EdgeType",
    "Emit",
    "EmitValue",
    "Epoch",
    "Every",
    "ExactSum",
    "Graph",
    "Item",
    "LawBroken",
    "Marker",
    "O",
    "OpKeyedOrdered",
    "OpKeyedUnordered",
    "OpStateless",
    "OperatorFailed",
    "Rejected",
    "Result",
    "Run",
    "RunError",
    "Shadow",
    "SourceStream",
    "Standards",
    "Stream",
    "Trace",
    "TraceTypesError",
    "Training",
    "U",
    "UInt64",
    "Unit",
    "UsageError",
    "Violation",
    "avro",
    "check",
    "column",
    "csv",
    "debezium",
    "decimal",
    "desc",
    "each_batch",
    "every",
    "explain",
    "in_band",
    "interpret",
    "interpret_rows",
    "json_lines",
    "kafka",
    "load_model",
    "merge",
    "parquet",
    "read",
    "run",
    "shadow",
    "sort",
    "start",
    "sweep_figures",
    "text_lines",
    "train_gates",
    "uint64",
]
