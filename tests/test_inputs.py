"""The files of a source, without Spark: what is listed, what is taken, and every change between and during runs."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetypes import RunError
from tracetypes.compiler.connectors import disk, file_splits
from tracetypes.compiler.connectors.encodings import MARK
from tracetypes.compiler.connectors.file_splits import Reading, Split, taken_splits
from tracetypes.compiler.connectors.files import by_name, walk
from tracetypes.compiler.connectors.record_ends import LINES
from tracetypes.compiler.runtime.messages import TakenSplits
from tracetypes.compiler.store import input_files, known_files
from tracetypes.compiler.store.input_files import InputFiles, by_time
from tracetypes.compiler.store.places import on_disk

ROWS = [f"row {n}" for n in range(40)]


def text(rows: list[str]) -> bytes:
    return "".join(f"{row}\n" for row in rows).encode()


def parquet(rows: list[str]) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table({"row": rows}), file)
    return file.getvalue()


WRITERS: dict[str, Callable[[list[str]], bytes]] = {
    "in.jsonl": text,
    "in.csv": text,
    "in.jsonl.gz": lambda rows: gzip.compress(text(rows), mtime=0),
    "in.csv.bz2": lambda rows: bz2.compress(text(rows)),
    "in.parquet": parquet,
}


class Job:
    """What a run does with the files of a source; Spark and the workers are played here."""

    def __init__(self, path: Path, *, is_text: bool = True, **options: Any) -> None:
        self.path, self.options = path, {"is_text": is_text, "tasks": 2, **options}
        self.records: list[tuple[int, dict[str, Any]]] = []
        self.assigned: set[int] = set()
        self.ended, self.rows = -1, list[str]()
        (path / "in").mkdir(parents=True, exist_ok=True)
        self.start()

    def start(self, *, visible: str | None = None, needed: bool = True) -> None:
        """A run begins."""
        self.files = InputFiles.of(self.path / "checkpoint", "rows", path=str(self.path / "in"), **self.options)
        self.files.begin(self.records, self.noted(), self.ended, lambda: visible, needed)

    def noted(self) -> list[Path]:
        """The files of the listings that the backend has taken."""
        steps = self.path / "checkpoint/inputs/rows/steps"
        return [steps / f"{number:08d}/{at}.jsonl" for number in sorted(self.assigned) for at in range(2)]

    def put(self, name: str, content: bytes, at: int = 1) -> Path:
        """A file of the source."""
        path = self.path / "in" / name
        path.write_bytes(content)
        os.utime(path, (at, at))
        return path

    def read(self, splits: list[Split]) -> tuple[list[str], list[TakenSplits]]:
        """What tasks read, and what they tell."""
        rows, heads = list[str](), list[TakenSplits]()
        for split in splits:
            reading = Reading(split)
            if split.parts:
                with reading.sampled():
                    rows += pq.read_table(split.path)["row"].to_pylist() if split.start == 0 else []
            else:
                rows += [row.decode("latin-1") for some in reading.texts() for row in some.splitlines()]
            taken = taken_splits("rows", [reading]).body
            assert isinstance(taken, TakenSplits)
            heads.append(taken)
        return rows, heads

    def batch(self, *, commit: bool = True, end: bool = True) -> list[str]:
        """A micro-batch: what it read. Without ``commit`` it ends before its record is there, without ``end`` before Spark's."""
        steps = [number for number in self.files.listings.numbers() if number > self.files.done]
        listed = [split for number in steps for split in self.files.listings.splits(number)]
        self.assigned |= set(steps)
        rows, heads = self.read(listed)
        if commit:
            about = self.files.taken(heads)
            self.records.append((self.ended + 1, json.loads(json.dumps(about))))
            self.files.committed(about)
            self.rows += rows
            self.ended += end
        return rows

    def go(self) -> list[str]:
        """List, and take what is new."""
        self.files.look()
        return self.batch()


CHANGES: dict[str, Callable[[Path, Callable[[list[str]], bytes]], None]] = {
    "replaced by other rows": lambda path, write: rewrite(path, write([*ROWS, "other"])),
    "replaced by as many bytes": lambda path, write: rewrite(path, flipped(path.read_bytes())),
    "replaced by another file": lambda path, write: replace(path, write(ROWS[:5])),
    "appended to": lambda path, write: rewrite(path, path.read_bytes() + b"more\n"),
    "cut off": lambda path, write: rewrite(path, path.read_bytes()[:-3]),
}


def rewrite(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    os.utime(path, (9, 9))


def replace(path: Path, content: bytes) -> None:
    other = path.with_name("_other")
    rewrite(other, content)
    os.replace(other, path)


def flipped(content: bytes) -> bytes:
    """Other bytes at both ends, and as many."""
    return bytes([content[0] ^ 1]) + content[1:-1] + bytes([content[-1] ^ 1])


def job_with(path: Path, name: str, **options: Any) -> tuple[Job, Path, Callable[[list[str]], bytes]]:
    write = WRITERS[name]
    job = Job(path, is_text=write is not parquet, **options)
    return job, job.put(name, write(ROWS)), write


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("moment", ["between runs", "between micro-batches", "long after"])
def test_TT230_a_known_file_that_changed(tmp_path: Path, name: str, change: str, moment: str) -> None:
    job, path, write = job_with(tmp_path, name)
    assert job.go() == ROWS
    if moment == "long after":  # the commit record is gone
        job.files.keep(about for _, about in job.records)
        job.records = [(0, {"listing": 1, "files": []})]
    CHANGES[change](path, write)
    if moment != "between micro-batches":
        job.start()
    with pytest.raises(RunError, match=r"in\.[a-z.0-9]+ has changed: it was .* bytes of 1970-01-01 00:00:01") as failed:
        job.files.look()
    assert failed.value.code == "TT230"


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", WRITERS)
def test_TT230_a_file_that_changes_between_listing_and_reading(tmp_path: Path, name: str, change: str) -> None:
    job, path, write = job_with(tmp_path, name)
    job.files.look()
    CHANGES[change](path, write)
    with pytest.raises(RunError, match="since it was listed") as failed:
        job.batch()
    assert failed.value.code == "TT230"


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", WRITERS)
def test_TT230_a_file_that_changes_while_it_is_read(tmp_path: Path, name: str, change: str) -> None:
    job, path, write = job_with(tmp_path, name)
    job.files.look()
    (split,) = job.files.listings.splits(1)
    reading = Reading(split)
    with pytest.raises(RunError, match="has changed") as failed, reading.sampled():
        CHANGES[change](path, write)
    assert failed.value.code == "TT230"
    if not split.parts:
        shutil.copy(path, path.with_name("_changed"))
        job.put(name, write(ROWS))
        lines = Reading(split).texts()
        next(lines)
        CHANGES[change](path, write)
        with pytest.raises(RunError, match="has changed"):
            list(lines)


@pytest.mark.parametrize("assigned", [True, False])
@pytest.mark.parametrize("change", [*CHANGES, "removed"])
@pytest.mark.parametrize("name", WRITERS)
def test_a_file_of_a_micro_batch_that_nobody_saw_may_change(
    tmp_path: Path, name: str, change: str, assigned: bool
) -> None:
    """It is listed again, as it is now, before the first commit as later; the run goes on without what was removed."""
    job, path, write = job_with(tmp_path, name)
    other = job.put(f"other-{name}", write(["another"]), at=2)
    job.files.look()
    if assigned:
        job.batch(commit=False)
    if change == "removed":
        path.unlink()
        expected = ["another"]
    else:
        replace(path, write(["new", "rows"]))
        expected = ["another", "new", "rows"]
    job.start()
    assert sorted(job.go()) == sorted(expected)
    other.unlink()
    assert job.go() == []


@pytest.mark.parametrize("change", [*CHANGES, "removed", "touched"])
@pytest.mark.parametrize("name", WRITERS)
def test_TT231_rows_that_were_seen_and_cannot_be_computed_again(tmp_path: Path, name: str, change: str) -> None:
    job, path, write = job_with(tmp_path, name)
    before = path.read_bytes()
    job.files.look()
    job.batch(commit=False)
    if change == "removed":
        path.unlink()
    elif change == "touched":  # equal bytes, but who knows what was read
        os.utime(path, (9, 9))
    else:
        CHANGES[change](path, write)
    with pytest.raises(
        RunError, match=rf"its rows are in OUT, and its input {path}, .* Nothing was taken back"
    ) as failed:
        job.start(visible="OUT")
    assert failed.value.code == "TT231"
    job.put(name, before)
    job.start(visible="OUT")
    assert job.go() == ROWS


@pytest.mark.parametrize("change", [*CHANGES, "removed", "touched"])
@pytest.mark.parametrize("name", WRITERS)
def test_TT231_a_committed_micro_batch_whose_state_must_be_computed_again(
    tmp_path: Path, name: str, change: str
) -> None:
    job, path, write = job_with(tmp_path, name)
    job.files.look()
    job.batch(end=False)
    if change == "removed":
        path.unlink()
    elif change == "touched":
        os.utime(path, (9, 9))
    else:
        CHANGES[change](path, write)
    if change == "touched":  # its hash is known
        job.start()
        assert job.read(job.files.listings.splits(1))[0] == ROWS
        return
    job.start(needed=False)
    with pytest.raises(RunError, match="its rows are out and committed, and its state is still to come") as failed:
        job.start()
    assert failed.value.code == "TT231"


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("name", WRITERS)
def test_what_is_no_change(tmp_path: Path, name: str, restarted: bool) -> None:
    """Equal bytes with another time, a file that is gone, and one that comes back as it was."""
    job, path, write = job_with(tmp_path, name)

    def again() -> None:
        if restarted:
            job.start()

    assert job.go() == ROWS
    for _ in range(2):
        os.utime(path, (7, 7))
        again()
        assert job.go() == []
        replace(path, write(ROWS))
        assert job.go() == []
        path.unlink()
        assert job.go() == []
        again()
        assert job.go() == []
        job.put(name, write(ROWS), at=8)
        assert job.go() == []


def test_a_touched_file_is_read_again_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job, path, _ = job_with(tmp_path, "in.jsonl")
    job.go()
    job.files.keep(about for _, about in job.records)
    job.records = [(0, {"listing": 1, "files": []})]
    reads: list[str] = []

    def counted(path: str, *place: int) -> str:
        reads.append(path)
        return file_splits.proof(path, *place)

    monkeypatch.setattr(known_files, "proof", counted)
    os.utime(path, (7, 7))
    for _ in range(3):
        job.start()
        job.files.look()
        job.files.look()
    assert len(reads) == 1


# ------------------------------------------------------------------------------------------- appended lines


PIECES = st.sampled_from([b"a", b"bc", b"\n", b"\r\n", b"\xef\xbb\xbf"])


@given(data=st.data())
def test_appended_lines_are_read_once(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Whenever a file grows, is looked at, is read and committed or not, and whoever starts again meanwhile."""
    job = Job(tmp_path_factory.mktemp("job"), appended=True, follows=True)
    path, whole = job.path / "in/log.jsonl", b""
    for at in range(data.draw(st.integers(1, 12))):
        action = data.draw(st.sampled_from(["append", "append", "look", "batch", "fail", "start", "touch"]))
        if action == "append":
            whole += data.draw(st.lists(PIECES, min_size=1).map(b"".join))
            path.write_bytes(whole)
            os.utime(path, (at, at))
        elif action == "touch" and str(path) in job.files.known and str(path) not in job.files.pending:
            os.utime(path, (at, at))
        elif action == "look":
            job.files.look()
        elif action in ("batch", "fail"):
            job.batch(commit=action == "batch")
            if action == "fail":
                job.start()
        elif action == "start":
            job.start()
    job.go()
    job.go()
    ended = whole[: whole.rfind(b"\n") + 1]
    expected = [row.decode("latin-1") for row in ended.removeprefix(MARK).splitlines()]
    assert list(filter(None, job.rows)) == list(filter(None, expected))
    assert str(path) not in job.files.known or job.files.known[str(path)].splits[-1][1] == len(ended)


def test_a_growing_file_keeps_few_hashes(tmp_path: Path) -> None:
    job = Job(tmp_path, appended=True, follows=True)
    content = b""
    for n in range(200):
        content += b"%d\n" % n
        path = job.put("log.jsonl", content, at=n)
        job.go()
    assert job.rows == [str(n) for n in range(200)]
    assert len(job.files.known[str(path)].splits) < 12
    job.start()
    job.put("log.jsonl", content.replace(b"17\n", b"71\n", 1) + b"more\n", at=999)
    with pytest.raises(RunError, match="does not begin with what it was"):
        job.go()


def test_TT230_a_file_that_is_replaced_before_its_new_lines_are_taken(tmp_path: Path) -> None:
    job = Job(tmp_path, appended=True, follows=True)
    path = job.put("log.jsonl", b"a\nb\n")
    job.go()
    job.put("log.jsonl", b"a\nb\nc\n", at=2)
    job.files.look()
    job.batch(commit=False)
    for content in (b"a\n", b"x\nb\nc\nd\n"):
        job.put("log.jsonl", content, at=3)
        with pytest.raises(RunError, match=f"{path} has changed") as failed:
            job.start()
        assert failed.value.code == "TT230"
    job.put("log.jsonl", b"a\nb\nc\nd\n", at=4)
    job.start()
    assert job.go() + job.go() == ["c", "d"]


@pytest.mark.parametrize("visible", ["OUT", None])
def test_lines_that_are_appended_to_what_is_not_committed(tmp_path: Path, visible: str | None) -> None:
    """They are listed by the next start, also when that is the last one: once, behind what was seen."""
    job = Job(tmp_path, appended=True, follows=True)
    job.put("log.jsonl", b"a\nb\nha")
    job.files.look()
    assert job.batch(commit=False) == ["a", "b"]
    job.put("log.jsonl", b"a\nb\nhalf\nc", at=2)
    for _ in range(2):  # nor when it is killed once more
        job.options["follows"] = False
        job.start(visible=visible)
    job.files.look()
    job.batch()
    assert job.rows == ["a", "b", "half", "c"]
    assert job.go() == []


def test_what_is_not_committed_is_listed_as_the_options_are_now(tmp_path: Path) -> None:
    job = Job(tmp_path, appended=True, follows=True)
    job.put("log.jsonl", b"a\nha")
    job.files.look()
    job.options |= {"appended": False, "follows": False}
    job.start()
    assert job.go() == ["a", "ha"]


@pytest.mark.parametrize("content", [b"x\nb\nc\nd\n", b"a\nb\n\n", b"a\nbb\n"])
def test_a_file_that_was_seen_is_no_other_one_that_is_larger(tmp_path: Path, content: bytes) -> None:
    job = Job(tmp_path, appended=True, follows=True)
    job.put("log.jsonl", b"a\nb\n")
    job.files.look()
    job.batch(commit=False)
    job.put("log.jsonl", content, at=2)
    if content.startswith(b"a\nb\n"):
        job.start(visible="OUT")
        assert job.go() == ["a", "b", ""]
        return
    with pytest.raises(RunError, match="its rows are in OUT") as failed:
        job.start(visible="OUT")
    assert failed.value.code == "TT231"


def test_TT230_a_larger_file_that_takes_the_place_of_a_listed_one(tmp_path: Path) -> None:
    job = Job(tmp_path, appended=True, follows=True)
    job.put("log.jsonl", b"a\nb\n")
    job.files.look()
    job.put("log.jsonl", b"other\nlines\n", at=2)
    with pytest.raises(RunError, match="since it was listed") as failed:
        job.batch()
    assert failed.value.code == "TT230"
    job.put("log.jsonl", b"a\nb\nc\n", at=3)
    assert job.batch() == ["a", "b"]


def test_TT230_lines_behind_what_was_seen_without_the_option(tmp_path: Path) -> None:
    job = Job(tmp_path, appended=True, follows=True)
    job.put("log.jsonl", b"a\nha")
    job.files.look()
    job.batch(commit=False)
    job.options["appended"] = False
    with pytest.raises(RunError, match=r"it was 2 bytes .* and is 4 bytes") as failed:
        job.start(visible="OUT")
    assert failed.value.code == "TT230"


def test_the_last_line_counts_when_no_more_may_come(tmp_path: Path) -> None:
    job = Job(tmp_path, appended=True, follows=True)
    job.put("log.jsonl", b"a\nb")
    assert job.go() == ["a"]
    job.options["follows"] = False
    job.start()
    assert job.go() == ["b"]
    job.put("log.jsonl", b"a\nbc\n", at=2)
    with pytest.raises(RunError, match="its last line was not whole when it was taken") as failed:
        job.go()
    assert failed.value.code == "TT230"


def test_TT230_what_cannot_be_appended_to(tmp_path: Path) -> None:
    for name in ("in.jsonl.gz", "in.parquet"):
        job, path, _ = job_with(tmp_path / name, name, appended=True)
        job.go()
        CHANGES["appended to"](path, text)
        with pytest.raises(RunError, match="has changed"):
            job.go()


# ------------------------------------------------------------------------------------------------- listings


@given(
    content=st.lists(PIECES | st.just(b"\r"), max_size=30).map(b"".join),
    most=st.integers(1, 9),
    block=st.integers(1, 9),
)
def test_a_file_in_splits_has_the_lines_of_the_whole(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, most: int, block: int
) -> None:
    path = tmp_path_factory.mktemp("in") / "in.jsonl"
    path.write_bytes(content)
    stat = path.stat()
    whole = Split(1, str(path), 0, stat.st_size, stat.st_mtime_ns, 0, stat.st_size)
    with pytest.MonkeyPatch.context() as small:
        small.setattr(disk, "BLOCK", block)
        found = [row for split in LINES.splits(whole, most) for some in Reading(split).texts() for row in some.splitlines()]
    assert found == content.removeprefix(MARK).splitlines()


def test_large_files_are_read_by_several_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_files, "SMALLEST", 50)
    for name, count in (("in.jsonl", 2), ("in.parquet", 2), ("in.jsonl.gz", 1)):
        job, path, _ = job_with(tmp_path / name, name)
        monkeypatch.setattr(input_files, "LARGE", path.stat().st_size - 1)
        job.files.look()
        tasks = [file.read_text().count("\n") for file in sorted(job.files.listings.place(1).iterdir())]
        assert sorted(tasks) == ([1, 1] if count == 2 else [0, 1])
        assert sorted(job.batch()) == sorted(ROWS)
        CHANGES["appended to"](job.path / "in" / name, text)
        with pytest.raises(RunError, match="has changed"):
            job.go()


@pytest.mark.parametrize("parts", [3, 5])
def test_a_part_of_a_parquet_file_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parts: int) -> None:
    job, path, _ = job_with(tmp_path, "in.parquet")
    monkeypatch.setattr(input_files, "LARGE", -(-path.stat().st_size // parts))
    job.files.look()
    assert len(job.files.listings.splits(1)) == parts > job.files.tasks
    assert sorted(job.batch()) == sorted(ROWS)


def test_files_come_by_time_and_so_many_at_once(tmp_path: Path) -> None:
    job = Job(tmp_path, at_once=2)
    for n in (3, 1, 2):
        job.put(f"{9 - n}.jsonl", text([str(n)]), at=n)
    job.files.look()
    assert [sorted(Path(s.path).name for s in job.files.listings.splits(number)) for number in (1, 2)] == [
        ["7.jsonl", "8.jsonl"],
        ["6.jsonl"],
    ]


def test_names_are_in_the_order_of_people() -> None:
    names = "a/b-2.csv a/b-10.csv a/b-10x.csv a1/a.csv a10.csv b.csv b01.csv b1.csv b2².csv b3.csv ba.csv é1.csv"
    shuffled = [f"/in/{name}" for name in names.split()]
    random.Random(2).shuffle(shuffled)
    assert sorted(shuffled, key=by_name) == [f"/in/{name}" for name in names.split()]


def placed(job: Job) -> list[str]:
    """The files of all listings in the order of their pieces."""
    listed = [split for number in job.files.listings.numbers() for split in job.files.listings.splits(number)]
    assert len({split.piece for split in listed}) == len(listed)
    return [Path(split.path).name for split in sorted(listed, key=lambda split: split.piece)]


@pytest.mark.parametrize("at_once", [1, 2, None])
@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (by_time, ["10.jsonl", "9.jsonl", "1.jsonl", "2.jsonl"]),
        (lambda path, modified: by_name(path), ["1.jsonl", "2.jsonl", "9.jsonl", "10.jsonl"]),
    ],
)
def test_files_that_are_found_together_are_put_in_order(
    tmp_path: Path, at_once: int | None, place: Callable[[str, int], Any], expected: list[str]
) -> None:
    """However they are cut into listings. Files that come later are behind them."""
    job = Job(tmp_path, at_once=at_once, place=place)
    for at, name in enumerate([10, 9, 1, 2]):
        job.put(f"{name}.jsonl", text([str(name)]), at=at + 1)
    job.files.look()
    assert placed(job) == expected
    job.put("0.jsonl", text(["0"]), at=0)
    job.files.look()
    assert placed(job) == [*expected, "0.jsonl"]


def test_another_order_is_that_of_files_which_are_not_listed_yet(tmp_path: Path) -> None:
    """A run that crashed goes on in the order that its listings have, also where a file is listed again."""
    job = Job(tmp_path, at_once=2, place=lambda path, modified: by_name(path))
    for at, name in enumerate("dcba"):
        job.put(f"{name}.jsonl", text([name]), at=at + 1)
    job.files.look()
    job.options["place"] = by_time
    job.put("b.jsonl", text(["b", "more"]), at=1)
    job.start()
    for at, name in enumerate("yx"):
        job.put(f"{name}.jsonl", text([name]), at=at + 1)
    job.files.look()
    assert placed(job) == [f"{name}.jsonl" for name in "abcdyx"]


@pytest.mark.parametrize(
    ("ending", "most", "expected"),
    [
        ("jsonl", 20, [["0", "1", "2", "3", "4"], ["5", "6"], ["7"], ["8"]]),
        ("parquet", 5, [["0", "1", "2", "3"], ["4", "5"], ["6"], ["7"], ["8"]]),
    ],
)
def test_files_come_by_size_where_nobody_says_how_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, most: int, expected: list[list[str]]
) -> None:
    """A micro-batch takes so many bytes of text for each task, a quarter of it of Parquet, of which each task gets as many files;
    a file that is larger alone."""
    monkeypatch.setattr(input_files, "EPOCH", 10)
    monkeypatch.setattr(input_files, "FILE", 0)
    job = Job(tmp_path, is_text=ending == "jsonl", tasks=2)
    sizes = [most // 5] * 7 + [3 * most, 1]
    for n, size in enumerate(sizes):
        job.put(f"{n}.{ending}", b"x" * size, at=n + 1)
    job.files.look()
    taken = [sorted({Path(s.path).stem for s in job.files.listings.splits(number)}) for number in job.files.listings.numbers()]
    assert taken == expected


def test_a_directory_that_links_to_itself_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "in/below/_hidden").mkdir(parents=True)
    for place in ("in/a", "in/.b", "in/_c", "in/below/d", "in/below/_hidden/e"):
        (tmp_path / place).write_text("")
    (tmp_path / "in/below/again").symlink_to(tmp_path / "in")
    (tmp_path / "in/nothing").symlink_to(tmp_path / "gone")
    assert sorted(path for path, _ in walk(str(tmp_path / "in"))) == [
        str(tmp_path / "in/a"),
        str(tmp_path / "in/below/d"),
    ]


def test_a_listing_that_was_being_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is killed at any step of it loses nothing."""
    for moment in range(3):
        job, path, _ = job_with(tmp_path / str(moment), "in.jsonl")
        job.files.look()
        job.batch(commit=False)
        replace(path, text(["new"]))
        real, left = os.rename, [moment]

        def rename(*names: Any, real: Callable[..., None] = real, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt
            real(*names)

        with monkeypatch.context() as broken:
            broken.setattr(os, "rename", rename)
            with pytest.raises(KeyboardInterrupt):
                job.start()
        job.start()
        assert job.go() == ["new"]


def test_what_is_kept_of_many_files_is_a_line_each(tmp_path: Path) -> None:
    job = Job(tmp_path)
    for n in range(300):
        job.put(f"{n}.jsonl", b"x\n")
    job.go()
    for _ in range(20):
        job.files.keep(about for _, about in job.records)
    job.records = [(0, {"listing": 1, "files": []})]
    job.start()
    log = on_disk(job.files.home) / "files.jsonl"
    assert len(log.read_text().splitlines()) == 300
    with log.open("a") as torn:
        torn.write('["/half')
    job.start()
    assert job.go() == []
    assert len(job.files.known) == 300


@pytest.mark.parametrize("name", ["in.jsonl.gz", "in.csv.bz2"])
def test_TT208_an_archive_that_is_cut_off(tmp_path: Path, name: str) -> None:
    job = Job(tmp_path)
    path = job.put(name, WRITERS[name](ROWS)[:-9])
    with pytest.raises(RunError, match=f"{path} cannot be read") as failed:
        job.go()
    assert failed.value.code == "TT208"
    path.unlink()
    assert job.files.drop()
    assert job.go() == []


def test_archives_of_several_parts(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.put("a.jsonl.gz", gzip.compress(b"a\nb") + gzip.compress(b"c\n"), at=1)
    job.put("b.jsonl.bz2", bz2.compress(b"d\n") + bz2.compress(b"e\n"), at=2)
    with pa.CompressedOutputStream(str(tmp_path / "in/c.jsonl.zst"), "zstd") as out:
        out.write(b"f\n")
    assert sorted(job.go()) == ["a", "bc", "d", "e", "f"]
    assert job.go() == []
