"""An epoch costs no more for each file, block or key than a small one. Calls are counted, as seconds depend on the machine."""

from __future__ import annotations

import cProfile
import pstats
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import tracetypes
from tracetypes import Dataflow, U, every, json_lines
from tracetypes.compiler.connectors.file_splits import Split
from tracetypes.compiler.store import input_files
from tracetypes.compiler.store.listings import Listings, listings_in
from tracetypes.stdlib import aggregate, count

FEW, TIMES = 50, 4


def line(key: int, block: int) -> str:
    return f'{{"key": "a{key}", "value": {10 * block}}}\n'


def files(folder: Path, count: int) -> None:
    for number in range(count):
        (folder / f"{number:04}.jsonl").write_text(line(number % 7, number // 10))


def blocks(folder: Path, count: int) -> None:
    (folder / "a.jsonl").write_text("".join(line(0, number) for number in range(count)))


def keys(folder: Path, count: int) -> None:
    (folder / "a.jsonl").write_text("".join(line(number, 0) for number in range(count)))


def calls(folder: Path, fill: Callable[[Path, int], None], count_: int, *, keyed: bool, at_once: int | None) -> dict[str, int]:
    """How often each function is called by the threads of a run."""
    flow = Dataflow("rows")
    source = flow.source("rows", U[str, int], markers=every(seconds=10, time=lambda time: time), format=json_lines())
    flow.sink("out", source.through(aggregate(count())) if keyed else source)
    folder.mkdir()
    fill(folder, count_)
    found: dict[str, int] = {}
    run = threading.Thread.run

    def profiled(thread: threading.Thread) -> None:
        with cProfile.Profile() as profile:
            run(thread)
        for (file, number, name), (_, calls_, *_) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
            place = f"{Path(file).name}:{number} {name}"
            found[place] = found.get(place, 0) + calls_

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "run", profiled)
        options = {} if at_once is None else {"files_per_step": at_once}
        tracetypes.run(flow, {"rows": str(folder)}, {"out": []}, backend="local", **options)  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize("keyed", [False, True], ids=["straight", "keyed"])
@pytest.mark.parametrize(("fill", "at_once"), [(files, None), (files, 5), (blocks, None), (keys, None)])
def test_no_function_is_called_more_often_for_each(
    tmp_path: Path, fill: Callable[[Path, int], None], at_once: int | None, keyed: bool
) -> None:
    few = calls(tmp_path / "few", fill, FEW, keyed=keyed, at_once=at_once)
    many = calls(tmp_path / "many", fill, TIMES * FEW, keyed=keyed, at_once=at_once)
    more = {name: (few.get(name, 0), n) for name, n in many.items() if n > 2 * TIMES * max(few.get(name, 0), 4 * FEW)}
    assert not more


def test_many_small_files_are_read_together(tmp_path: Path) -> None:
    """A file has no split, no kernel and no message of its own."""
    found = calls(tmp_path / "in", files, 400, keyed=True, at_once=None)
    assert sum(times for name, times in found.items() if name.startswith("kernels.py") and name.endswith("_split")) < 40


def test_listings_are_not_listed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listings = listings_in(tmp_path / "home", 1)
    listings.begin()
    monkeypatch.setattr("os.listdir", None)
    for number in range(1, 6):
        listings.publish(number, [Split(number, "a", 0, 1, 1, 0, 1)])
    listings.remove(2)
    assert [*listings.numbers()] == [1, 3, 4, 5]
    assert [*listings.numbers(2)] == [3, 4, 5]
    monkeypatch.undo()
    again = listings_in(tmp_path / "home", 1)
    again.begin()
    assert [*again.numbers(3)] == [4, 5]


def test_a_restart_reads_a_listing_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not once for each of its files."""
    place = tmp_path / "in"
    place.mkdir()
    files(place, 40)
    first, second = (input_files.InputFiles(tmp_path / "home", str(place), is_text=True, tasks=1) for _ in range(2))
    first.begin((), (), -1, lambda: None, needed=True)
    first.look()
    read = list[int]()
    real = Listings.splits

    def splits(self: Listings, number: int) -> list[Split]:
        read.append(number)
        return real(self, number)

    monkeypatch.setattr(Listings, "splits", splits)
    second.begin((), (), -1, lambda: None, needed=True)
    assert len(second.pending) == 40
    assert len(read) < 6


def test_an_epoch_has_a_bounded_number_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However small they are: what an epoch knows of each is in memory, and in its commit record."""
    monkeypatch.setattr(input_files, "EPOCH", 10 * input_files.FILE)
    place = tmp_path / "in"
    place.mkdir()
    files(place, 40)
    one = input_files.InputFiles(tmp_path / "home", str(place), is_text=True, tasks=2)
    one.begin((), (), -1, lambda: None, needed=True)
    one.look()
    sizes = [len(one.listings.splits(number)) for number in one.listings.numbers()]
    assert sum(sizes) == 40
    assert max(sizes) < 20
    assert one.weight(1) == sum(input_files.FILE + split.weight for split in one.listings.splits(1))
