"""How many listings an epoch takes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.local.test_driver import Counted, Hit, Mapped
from tracetypes import Dataflow, U, Unit, every, run
from tracetypes.compiler.local import epoch_size
from tracetypes.compiler.local.epoch_size import GROWTH, MOST, SECONDS, EpochSize
from tracetypes.compiler.local.inputs import FileSplits
from tracetypes.compiler.local.log import LocalLog, Takes
from tracetypes.compiler.store import input_files
from tracetypes.compiler.store.input_files import InputFiles
from tracetypes.compiler.store.run_store import RunStore
from tracetypes.errors import TraceTypesError


@given(st.lists(st.tuples(st.integers(0, 2**40), st.floats(0, 1000)), max_size=9))
def test_the_next_epoch_takes_about_a_second(epochs: list[tuple[int, float]]) -> None:
    size = EpochSize()
    assert size.bytes == 0
    for taken, seconds in epochs:
        size.took(taken, seconds)
        assert size.bytes <= MOST
        assert size.bytes <= GROWTH * taken
        if seconds:
            assert size.bytes <= taken * SECONDS / seconds
        if size.bytes < min(MOST, GROWTH * taken):
            assert size.bytes + 1 > taken * SECONDS / seconds


FILES = 24


@pytest.fixture(name="taken")
def taken_by_epochs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many files each epoch takes. Each file is a listing of its own."""
    taken: list[int] = []
    begin = LocalLog.begin

    def begins(self: LocalLog, number: int, takes: Takes) -> None:
        ((since, until),) = takes.sources.values()
        if since != until:
            taken.append(until["listing"] - since["listing"])
        begin(self, number, takes)

    monkeypatch.setattr(LocalLog, "begin", begins)
    monkeypatch.setattr(input_files, "EPOCH", 1)
    return taken


def count(tmp_path: Path, *, again: bool = False, **options: Any) -> list[int]:
    """The counts of all files, in order. ``again``: the files are there already."""
    flow = Dataflow("hits")
    source = flow.source("web", U[Unit, Hit], markers=every(seconds=10, time=lambda hit: hit.ts))
    flow.sink("out", source.through(Mapped()).through(Counted()))
    (tmp_path / "in").mkdir(exist_ok=True)
    for number in () if again else range(FILES):
        (tmp_path / f"in/{number:02}.jsonl").write_text(f'{{"page": "x", "ts": {1000 + number * 10}}}\n')
    options = {"backend": "local", "parallelism": 2, "order": {"web": "name"}, **options}
    run(flow, {"web": tmp_path / "in"}, {"out": tmp_path / "out"}, **options)
    rows = [line for path in (tmp_path / "out").glob("part-*") for line in path.read_text().splitlines()]
    return sorted(json.loads(line)["value"] for line in rows)


def test_short_epochs_grow(tmp_path: Path, taken: list[int]) -> None:
    assert count(tmp_path) == [*range(1, FILES + 1)]
    assert taken[:3] == [1, 4, 16]


def test_long_epochs_do_not(tmp_path: Path, taken: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epoch_size, "SECONDS", 1e-9)
    assert count(tmp_path) == [*range(1, FILES + 1)]
    assert taken == [1] * FILES


@pytest.mark.parametrize("options", [{"files_per_step": 3}, {"reorder": "serial"}])
def test_not_where_something_else_says_how_many(tmp_path: Path, taken: list[int], options: Any) -> None:
    assert count(tmp_path, **options) == [*range(1, FILES + 1)]
    assert taken == [1] * (FILES // 3 if "files_per_step" in options else FILES)


def test_a_file_of_any_listing_must_be_as_it_was_seen(
    tmp_path: Path, taken: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of an epoch are in the output, and it was not committed."""
    commit = RunStore.commit

    def crashes(self: RunStore, number: int, record: Any) -> None:
        if number == 1:
            raise OSError("a crash")
        commit(self, number, record)

    with monkeypatch.context() as patch:
        patch.setattr(RunStore, "commit", crashes)
        with pytest.raises(TraceTypesError, match="a crash"):
            count(tmp_path)
    assert taken == [1, 4]
    for place in (1, 2, 3, 4):
        path = tmp_path / f"in/{place:02}.jsonl"
        before, stat = path.read_bytes(), path.stat()
        path.write_bytes(before * 2)
        with pytest.raises(TraceTypesError, match=rf"its rows are in .*{place:02}.jsonl"):
            count(tmp_path, again=True)
        path.write_bytes(before)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert count(tmp_path, again=True) == [*range(1, FILES + 1)]


def test_what_a_listing_weighs_is_forgotten_with_it(tmp_path: Path, taken: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    known: list[int] = []
    committed = InputFiles.committed

    def commits(self: InputFiles, about: Any) -> None:
        committed(self, about)
        assert set(self.weights) <= {*self.listings.numbers()}
        known.append(len(self.weights))

    monkeypatch.setattr(InputFiles, "committed", commits)
    count(tmp_path)
    assert len(taken) <= len(known)
    assert max(known) > 1


def test_an_offset_names_all_listings_up_to_it(tmp_path: Path, taken: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file is a split of one epoch, in the order of the source."""
    splits = FileSplits.splits
    seen: dict[int, list[str]] = {}

    def splitting(self: FileSplits, since: Any, until: Any) -> Any:
        some = splits(self, since, until)
        seen.setdefault(until["listing"], [Path(one.path).stem for pack in some for one in pack])
        return some

    monkeypatch.setattr(FileSplits, "splits", splitting)
    count(tmp_path)
    assert seen[sum(taken[:2])] == ["01", "02", "03", "04"]
