"""One registry says what is given to a run: nothing else looks at addresses."""

from __future__ import annotations

import ast
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from tests.test_imports import PACKAGES
from tracetypes import csv, kafka
from tracetypes.addresses import ADDRESSES, address_lines
from tracetypes.compiler.connectors.endpoint_identity import EndpointIdentity
from tracetypes.compiler.connectors.program_rows import Rows
from tracetypes.compiler.connectors.registry import _CONNECTORS, connector_of, difference
from tracetypes.compiler.local.inputs import OPENINGS as LOCAL_OPENINGS
from tracetypes.compiler.spark.inputs import OPENINGS
from tracetypes.compiler.store.outputs import OUTPUTS


@pytest.mark.parametrize(
    ("given", "format", "kind", "path"),
    [
        ("in.csv", None, "files", "in.csv"),
        ("file:///in.csv", None, "files", "/in.csv"),
        ("hdfs://host/in", None, "files", None),
        ("s3a://bucket/in", None, "files", None),
        ("s3://bucket/in", None, "objects", None),
        ("https://host/in.csv", None, "objects", None),
        ("kafka://host:1/t", None, "topic", None),
        ("delta:t", None, "table", "t"),
        ("delta:s3://t", None, "table", None),
        ("noop:", None, "nowhere", None),
        ("-", None, "terminal", None),
        ("tcp://127.0.0.1:1", None, "socket", None),
        ("mqtt://h/a?client=x", None, "mqtt", None),
        ("tcp-listen://127.0.0.1:1", None, "socket", None),
        ("postgres://u@h/db?table=t", None, "postgres", None),
        ("postgresql://u@h/db?table=t", None, "postgres", None),
        (pa.table({"x": [1]}), None, "columns", None),
        (pd.DataFrame({"x": [1]}), None, "columns", None),
        (Rows(((1,),)), None, "rows", None),
        ([1, 2], csv(), "rows", None),
        (iter([1, 2]), csv(), "iterable", None),
        (None, None, "files", None),
        (None, kafka(), "topic", None),
    ],
)
def test_the_connector_of_what_is_given(given: object, format: Any, kind: str, path: str | None) -> None:
    connector = connector_of(given, format)
    assert connector.kind == kind
    if isinstance(given, str):
        assert connector.path(given) == path


def test_every_kind_can_be_opened() -> None:
    assert OPENINGS.keys() == {"files", "objects", "topic", "table", "rows", "iterable", "columns", "script"}
    assert OUTPUTS.keys() == {"files", "objects", "topic", "table", "socket", "mqtt", "nowhere"}
    assert {one.kind for one in _CONNECTORS if one.opens is not None} == {"postgres"}  # by the public protocol
    of_programs = {"rows", "iterable", "columns"}
    assert LOCAL_OPENINGS.keys() == {"files", "objects", "topic", "table", *of_programs, "terminal", "socket", "mqtt"}


@pytest.mark.parametrize(
    ("known", "now", "said"),
    [
        (("files",), ("files",), None),
        (("topic", "a", "1"), ("topic", "b", "1"), "it began with topic a, and is given topic b"),
        (("table", "a", "1"), ("table", "b", "1"), None),
        (("table", "a", "1"), ("table", "a", "2"), "the table in a is another one than it began with"),
        (("files",), ("table", "a", "1"), "it began with files, and is given the table in a"),
    ],
)
def test_another_input_than_before(known: tuple[str, ...], now: tuple[str, ...], said: str | None) -> None:
    found = difference(EndpointIdentity(*known), EndpointIdentity(*now))
    assert found == said if found is None or said is None else found.startswith(said)


def test_nobody_else_looks_at_the_beginning_of_an_address() -> None:
    """By the texts of a source file that are schemes, outside of their connectors."""
    found = {
        str(path.relative_to(top))
        for top in (PACKAGES["tracetypes.compiler"], PACKAGES["tracetypes"])
        for path in top.rglob("*.py")
        if "compiler" not in path.relative_to(top).parts[:1] and "stdlib" not in path.relative_to(top).parts[:1]
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and node.value in ("kafka:", "kafka://", "delta:")
    }
    assert found == {"connectors/kafka.py", "connectors/delta.py"}


def test_the_help_of_run_has_every_kind_of_address() -> None:
    """A new connector has its line in ``tracetypes.addresses``."""
    in_memory = {"rows", "iterable", "columns", "script"}
    listed = {connector_of(one.form.replace("PORT", "1")).kind for one in ADDRESSES}
    assert {one.kind for one in _CONNECTORS} - in_memory == listed
    text = address_lines()
    assert max(map(len, text)) <= 78
    assert all(any(line.startswith(f"  {one.form}") for line in text) for one in ADDRESSES)
