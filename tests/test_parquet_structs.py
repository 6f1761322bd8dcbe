"""Structs of Parquet files are read as JSON objects are: their fields match by name, at any depth."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.test_parquet_columns import first, read
from tracetypes import RunError
from tracetypes.plain_data import from_plain
from tracetypes.records import Mismatch
from tracetypes.schemas import schema_of


@attrs.frozen
class Leaf:
    """The innermost record."""

    a: int
    b: str | None


@attrs.frozen
class Other:
    """A second record of a union."""

    c: bool


@attrs.frozen
class Branch:
    """A record with records."""

    leaf: Leaf
    leaves: tuple[Leaf, ...]
    maybe: Leaf | None
    either: Leaf | Other


TEXTS = st.none() | st.sampled_from(["", "x"])
SCALARS = {"a": (pa.int64(), st.integers(-3, 3)), "b": (pa.string(), TEXTS), "c": (pa.bool_(), st.booleans())}
MORE = ("d", "e")


@st.composite
def structs(draw: st.DrawFn, fields: dict[str, tuple[Any, st.SearchStrategy[Any]]]) -> tuple[Any, st.SearchStrategy[Any]]:
    """The type of a struct and its values: some of the fields, in any order, and further ones."""
    names = draw(st.permutations([*fields, *MORE]))
    kept = [name for name in names if draw(st.integers(0, 9)) < (3 if name in MORE else 9)] or names[:1]
    parts = {name: fields.get(name, (pa.float64(), st.none() | st.just(0.5))) for name in kept}
    kind = pa.struct([pa.field(name, kind) for name, (kind, _) in parts.items()])
    return kind, st.fixed_dictionaries({name: values for name, (_, values) in parts.items()})


@st.composite
def columns(draw: st.DrawFn) -> tuple[Any, list[dict[str, Any]]]:
    """The type of a column of branches, and its values."""

    def leaf() -> tuple[Any, st.SearchStrategy[Any]]:
        return draw(structs({name: SCALARS[name] for name in "ab"}))

    (one, some), (many, each), (last, rest) = leaf(), leaf(), leaf()
    of_leaf, of_other = leaf(), draw(structs({"c": SCALARS["c"]}))
    members = {"Leaf": of_leaf[1], "Other": of_other[1]}
    either = st.sampled_from(sorted(members)).flatmap(lambda name: st.fixed_dictionaries({name: members[name]}))
    list_of = draw(st.sampled_from([pa.list_, pa.large_list, lambda kind: pa.list_(kind, 2)]))
    pairs = st.lists(each, min_size=2, max_size=2)
    branch = {
        "leaf": (one, some),
        "leaves": (list_of(many), pairs),
        "maybe": (last, st.none() | rest),
        "either": (pa.struct([pa.field("Leaf", of_leaf[0]), pa.field("Other", of_other[0])]), either),
    }
    kind, values = draw(structs(branch))
    return kind, draw(st.lists(values, min_size=1, max_size=3))


@given(columns())
def test_a_struct_is_read_as_the_same_json(column: tuple[Any, list[dict[str, Any]]]) -> None:
    """Where JSON lacks a required field in each row, the file is refused. Optional ones are None."""
    kind, rows = column
    schema = schema_of(Branch)
    try:
        wanted: list[Any] | None = [from_plain(schema, row) for row in rows]
    except Mismatch:
        wanted = None
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "in.parquet")
        pq.write_table(pa.table({"value": pa.array(rows, kind)}), path)
        if wanted is not None:
            try:
                first(Branch, path, None)
            except RunError:
                assert_lacks_in_an_absent_value(kind)
                return
            assert read(Branch, path, None) == (wanted, False)
            return
        for look in (first, read):
            with pytest.raises(RunError, match=r"TT203 .*: the column 'value' is .*which has no field|TT203 .*expected"):
                look(Branch, path, None)


def assert_lacks_in_an_absent_value(kind: Any) -> None:
    """JSON says nothing of the fields of a value that is absent in each row; a column does."""
    absent = [kind.field("maybe").type] if kind.get_field_index("maybe") >= 0 else []
    either = kind.field("either").type
    inside = [*absent, either.field("Leaf").type]
    assert any(one.get_field_index("a") < 0 for one in inside) or either.field("Other").type.get_field_index("c") < 0


@pytest.mark.parametrize(
    ("names", "message"), [(["a", "a"], "which has 2 fields 'a' of Leaf"), (["b"], "which has no field 'a' of Leaf")]
)
def test_TT203_a_struct_without_a_field_or_with_two(tmp_path: Path, names: list[str], message: str) -> None:
    column = pa.StructArray.from_arrays([pa.array([1]) for _ in names], names)
    pq.write_table(pa.table({"value": column}), tmp_path / "in.parquet")
    for look in (first, read):
        with pytest.raises(RunError, match=f"TT203 .*{message}"):
            look(Leaf, tmp_path / "in.parquet", None)


OTHERS = {
    "a UUID": pa.array([bytes(16)], pa.uuid()),
    "a time of day": pa.array([1], pa.time64("us")),
    "a time of day in milliseconds": pa.array([1], pa.time32("ms")),
    "a map": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
    "a list of one length": pa.array([[1, 2]], pa.list_(pa.int64(), 2)),
    "a duration": pa.array([1], pa.duration("us")),
    "bytes of one length": pa.array([b"ab"], pa.binary(2)),
    "a decimal": pa.array([7], pa.decimal128(20, 0)),
    "a view": pa.array([b"ab"], pa.binary_view()),
}
READ = {
    ("a UUID", bytes): bytes(16),
    ("a list of one length", list[int]): [1, 2],
    ("bytes of one length", bytes): b"ab",
    ("a decimal", int): 7,
    ("a decimal", int | None): 7,
    ("a view", bytes): b"ab",
}


@pytest.mark.parametrize("kind", [int, int | None, float, str, bytes, list[int], Leaf, Leaf | Other], ids=str)
@pytest.mark.parametrize("column", OTHERS)
def test_other_types_are_read_or_refused(tmp_path: Path, column: str, kind: Any) -> None:
    """With the column and both types, never with an error of Arrow alone."""
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"value": OTHERS[column]}), path)
    if (column, kind) in READ:
        first(kind, path, None)
        assert read(kind, path, None) == ([READ[column, kind]], False)
        return
    for look in (first, read):
        with pytest.raises(RunError, match=r"TT203 .*: the column 'value' is .*, expected"):
            look(kind, path, None)
