"""Messages, reports and state survive the ways on which they travel."""

from __future__ import annotations

import io
import pickle
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import attrs
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.graphs import Inner, Left, Sample
from tests.strategies import Everything, values
from tracetypes import UNIT, ExactSum, RunError, Unit
from tracetypes.canonical import canonical
from tracetypes.compiler.analysis.pickles import dumps, loads
from tracetypes.compiler.runtime.messages import (
    Aggregates,
    Body,
    Drain,
    File,
    Holds,
    Items,
    Markers,
    Message,
    Metrics,
    Partials,
    Piece,
    Report,
    RetryEpoch,
    Rows,
    SideRows,
    StageProgress,
    TakenSplits,
    TextNotes,
    Verified,
)
from tracetypes.compiler.runtime.operators import UnorderedState
from tracetypes.compiler.runtime.partial_aggregation import ArrowRows
from tracetypes.compiler.runtime.progress import Progress
from tracetypes.compiler.runtime.state import StageState
from tracetypes.compiler.wire.messages import Kind, decode, encode, from_frames, to_frame
from tracetypes.errors import envelope
from tracetypes.schemas import schema_of

MICROS = st.integers(-(2**62), 2**62)
PIECES: st.SearchStrategy[Piece] = st.tuples(*[st.integers(0, 2**62)] * 3)
REPORTS = st.builds(
    Report,
    link=st.integers(0, 9),
    piece=PIECES,
    rows=st.integers(0, 2**40),
    newest=st.none() | MICROS,
    first=st.none() | MICROS,
    before=st.none() | MICROS,
    jump=st.none() | st.tuples(MICROS, MICROS),
    markers=st.lists(MICROS, max_size=4).map(tuple),
    counts=st.lists(st.integers(0, 99), min_size=1, max_size=5).map(tuple),
    last=st.none() | MICROS,
    part=st.integers(0, 9),
    parts=st.integers(1, 10),
)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.sampled_from(("hub", "}", '"', RetryEpoch.MARK))
BEFORE = st.dictionaries(NAMES, st.lists(st.tuples(PIECES, st.none() | MICROS), max_size=4), max_size=3)


@given(REPORTS)
def test_reports_survive_headers(report: Report) -> None:
    assert decode(*encode(Message(0, report))) == (0, report)


def test_a_report_of_nothing_survives() -> None:
    report = Report(link=0, piece=(0, 0, 0))
    assert decode(*encode(Message(0, report))) == (0, report)
    assert report.counts == (0,)


COUNTS = st.dictionaries(NAMES, st.integers(0, 99), max_size=2)
NUMBERS = st.lists(st.integers(0, 99), max_size=3)
BODIES: st.SearchStrategy[Any] = st.one_of(
    st.builds(Markers, st.integers(0, 9), st.lists(MICROS, max_size=3), st.booleans()),
    st.builds(Drain),
    st.builds(File, st.sampled_from(["rows", "late", "rejects"]), NAMES, NAMES, st.integers(0, 99)),
    st.builds(
        StageProgress,
        stage=st.integers(0, 9),
        markers=st.lists(MICROS, max_size=3),
        newest=st.dictionaries(NAMES, st.lists(st.none() | MICROS, max_size=2), max_size=2),
        seen=st.dictionaries(NAMES, st.none() | MICROS, max_size=2),
        rows=st.integers(0, 99),
        read=COUNTS,
        late=COUNTS,
        rejects=COUNTS,
        complete=st.booleans(),
    ),
    st.builds(
        Metrics,
        stage=st.integers(0, 9),
        group=st.integers(0, 9),
        flowed=NUMBERS,
        emitted=st.integers(0, 99),
        keys=NUMBERS,
        markers=st.integers(0, 9),
        marker=st.none() | MICROS,
        bytes=st.integers(0, 99),
    ),
    st.builds(Verified, st.integers(0, 99), st.floats(0, 9)),
    st.builds(
        TextNotes, NAMES, PIECES, NAMES, st.integers(0, 99), st.none() | st.tuples(*[st.lists(NAMES, max_size=2).map(tuple)] * 2)
    ),
    st.builds(TakenSplits, NAMES, st.lists(st.fixed_dictionaries({"path": NAMES, "start": MICROS}), max_size=3)),
)


@given(st.integers(0, 99), BODIES)
def test_messages_survive_as_rows(group: int, body: Any) -> None:
    row = encode(Message(group, body))
    assert decode(*row) == (group, body)
    assert isinstance(row.header, bytes)


@pytest.mark.parametrize("piece", [None, (1, 2, 3)])
def test_batches_survive_as_rows(piece: Piece | None) -> None:
    batch = pa.record_batch({"key": ["a", "b"], "end": [10, 20]}).slice(1)
    items = decode(*encode(Message(3, Items(2, piece, batch)))).body
    assert isinstance(items, Items)
    assert (items.link, items.piece, items.batch) == (2, piece, batch)
    aggregates = decode(*encode(Message(3, Aggregates(2, piece, ArrowRows(batch))))).body
    assert isinstance(aggregates, Aggregates)
    assert (aggregates.link, aggregates.piece, aggregates.rows.to_arrow()) == (2, piece, batch)
    rows = decode(*encode(Message(0, Rows(batch)))).body
    assert isinstance(rows, Rows)
    assert rows.batch == batch
    parts = decode(*encode(Message(3, Partials(2, piece, ["a"], [ExactSum.of(0.1)], [10])))).body
    assert isinstance(parts, Partials)
    assert attrs.astuple(parts, recurse=False) == (2, piece, ["a"], [ExactSum.of(0.1)], [10])


@pytest.mark.parametrize("holds", ["late", "rejects"])
def test_rows_aside_survive_as_rows_and_in_files(holds: Holds) -> None:
    sent = [SideRows(holds, f"s{n}", n, (1, -2, n), pa.record_batch({"row": ["é"] * n, "n": [n] * n})) for n in range(3)]
    in_rows = [decode(*encode(Message(0, one))).body for one in sent]
    in_file = [one.body for one in from_frames(io.BytesIO(b"".join(to_frame(Message(0, one)) for one in sent)))]
    for found in (in_rows, in_file):
        assert [attrs.astuple(one, recurse=False) for one in found] == [attrs.astuple(one, recurse=False) for one in sent]


def test_every_message_has_a_kind() -> None:
    """Rows aside have two: late items and rejects."""
    assert len(get_args(Body)) + 1 == len(Kind)


def test_kinds_are_numbers_that_never_change() -> None:
    assert {kind.name: int(kind) for kind in Kind} == {
        "ITEMS": 0,
        "REPORT": 1,
        "MARKERS": 2,
        "DRAIN": 3,
        "LATE": 4,
        "REJECT": 5,
        "PROGRESS": 6,
        "ROWS": 7,
        "AGGREGATES": 8,
        "PARTIALS": 9,
        "FILE": 10,
        "VERIFIED": 12,
        "TAKEN": 13,
        "METRICS": 11,
        "NOTES": 14,
    }


# ------------------------------------------------------------------------------------------------------ reread


@given(BEFORE, st.text(max_size=20), st.text(max_size=20))
def test_a_reread_survives_text(before: dict[str, list[tuple[Piece, int | None]]], above: str, below: str) -> None:
    """As it comes out of a worker: as part of a longer text, with what a traceback adds."""
    text = f"{above.replace(RetryEpoch.MARK, '')}{RetryEpoch(before)}\n  at org.apache.spark {below}"
    found = RetryEpoch.from_text(text)
    assert found is not None
    assert found.before == before


@given(BEFORE)
def test_a_reread_survives_pickling(before: dict[str, list[tuple[Piece, int | None]]]) -> None:
    again = pickle.loads(pickle.dumps(RetryEpoch(before)))
    assert isinstance(again, RetryEpoch)
    assert again.before == before


@pytest.mark.parametrize("text", ["", "an error", str(RunError("TT203", "no column")), "TRACETYPES-ERROR {}"])
def test_other_texts_are_no_reread(text: str) -> None:
    assert RetryEpoch.from_text(text) is None


def test_an_error_on_its_way_is_no_reread() -> None:
    assert RetryEpoch.from_text(envelope(RunError("TT203", "no column"))) is None


# ------------------------------------------------------------------------------------------------------- state


def progress() -> Progress:
    return Progress(newest=-5, first=-10, sent=0, waiting=[3, 4], last=2, open=True, complete=False)


def test_the_state_of_a_stage_survives() -> None:
    sample = Sample(None, 1, 2, inner=Inner(1, -0.0), more=[None, Inner(2, None)])
    state = StageState(
        progress=[[progress(), Progress()], [Progress()]],
        open_blocks={10: ([Left(1)], [sample]), 2**62: {"a": ExactSum.of(0.1)}},
        operators=[UnorderedState({Left(1): (1, 2.5)}, start=(0, 0.0)), {UNIT: [1, 2]}, None],
        owners={Left(1): 0},
        closed=-7,
    )
    again = loads(dumps(state))
    assert repr(again) == repr(state)
    assert again.progress == state.progress
    assert again.operators[1][Unit.UNIT] == [1, 2]


@given(values(schema_of(Everything)))
def test_records_survive(value: Everything) -> None:
    order = canonical(schema_of(Everything))
    assert order(loads(dumps(value))) == order(value)


def test_what_is_shared_stays_shared() -> None:
    shared = [1]
    one, other = loads(dumps([shared, shared]))
    assert one is other


def test_classes_of_no_module_survive_by_value() -> None:
    @attrs.frozen
    class Local:
        x: int

    again = loads(dumps([Local(1)]))
    assert [one.x for one in again] == [1]
    assert loads(dumps(lambda: 5))() == 5


SCRIPT = """
import attrs, sys
sys.path[:0] = [{root!r}]
from tracetypes.compiler.analysis.pickles import dumps, loads
@attrs.frozen
class Mine:
    x: int
open({path!r}, "wb").write(dumps(Mine(3)))
"""


def test_a_class_of_a_script_survives_in_another_process(tmp_path: Path) -> None:
    root = str(Path(__file__).resolve().parent.parent)
    file = tmp_path / "state"
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(root=root, path=str(file)))
    subprocess.run([sys.executable, str(script)], check=True)
    assert loads(file.read_bytes()).x == 3


def test_a_class_of_a_module_that_is_gone_from_it_survives() -> None:
    """As in a worker: the class came by value, and its module is there, but without it."""
    module = ModuleType("gone")
    sys.modules["gone"] = module
    try:
        exec("import attrs\n@attrs.frozen\nclass Away:\n    x: int\n", module.__dict__)
        away = module.__dict__.pop("Away")
        assert loads(dumps(away(4))).x == 4
    finally:
        del sys.modules["gone"]
