"""A model of a run's life: operations on its input, its graph and its processes, and what each start must then do.

A :class:`Life` is a directory with an input of JSON lines, a checkpoint and outputs. Its methods are operations. What counts is
kept beside the files: ``disk`` is the input as it is, ``taken`` what the run has taken for good, ``begun`` what stands in a
micro-batch that is not over, ``rows`` all lines in the order in which they were taken. Before a start :meth:`Life.options` says
for each file, from the table in ``docs/sources.md``, what may become of it: an error, or the byte up to which it is read. So a
start ends in one of the errors that are asked for, which names a file, or its outputs are the trace of the interpreter. Anything
else is :class:`Wrong`; it is ``silent`` when nobody would have noticed.

How far a run got that was interrupted is read in its commit records, and so is the order of its files. *Which* files and bytes
are taken is not: the model says that.

``tests/spark/test_life.py`` draws operations in one process, ``benchmarks/torture.py`` with real ones.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import attrs

from tests.spark.dags import Big, Opaque, Renamed, Steps
from tests.spark.flows import Reading, Sum, id_of, ts_of
from tests.spark.support import all_defined, row, rows_in, rows_of, side_outputs
from tracetypes import Dataflow, OpStateless, U, check, every, sort
from tracetypes.compiler.local.log import LocalLog
from tracetypes.compiler.spark.log import SparkLog
from tracetypes.compiler.store.places import on_disk
from tracetypes.stdlib import Session, count, session, sliding, sum, tumbling
from tracetypes.trace import closed

REFUSED = 9
"""The version of a graph that no other version goes on with."""


@attrs.frozen
class Plus(OpStateless[str, Reading, str, Reading]):
    """So many watts more."""

    watts: int

    def on_item(self, key: str, value: Reading, emit: Callable[[str, Reading], None]) -> None:
        emit(key, Reading(value.id, value.ts, value.watts + self.watts))


def sums(rows: Any, flow: Dataflow) -> None:
    """A keyed sum."""
    flow.sink("sums", rows.through(Sum()), marker="at")


def chain(rows: Any, flow: Dataflow) -> None:
    """Three keyed operators."""
    steps = rows.through(Opaque()).through(sort(by=ts_of)).through(Steps())
    flow.sink("sums", steps.through(Renamed("-s")).through(Sum()), marker="at")


def straight(rows: Any, flow: Dataflow) -> None:
    """No keyed operator."""
    flow.sink("large", rows.through(Opaque()).through(Big()), marker="at")


def two_sinks(rows: Any, flow: Dataflow) -> None:
    """Three queries, and a channel between them."""
    both = rows.through(Sum())
    flow.sink("sums", both, marker="at")
    flow.sink("large", both.through(Big()), marker="at")


@attrs.frozen
class Counts(OpStateless[str, Session[int], str, int]):
    """How many items each session has."""

    def on_item(self, key: str, value: Session[int], emit: Callable[[str, int], None]) -> None:
        emit(key, value.value)


def windows(rows: Any, flow: Dataflow) -> None:
    """Windows, and windows of them behind a channel: both are answered in the silence behind the end."""
    both = rows.through(tumbling(count(), panes=3))
    flow.sink("windows", both, marker="at")
    flow.sink("longer", both.through(sliding(sum(to=int), panes=9, slide=3)), marker="at")


def sessions(rows: Any, flow: Dataflow) -> None:
    """Sessions, the last of which are over in the silence behind the end."""
    over = rows.through(sort(by=ts_of)).through(session(count(), gap=25, time=ts_of))
    flow.sink("sessions", over.through(Counts()), marker="at")


GRAPHS: dict[str, Callable[[Any, Dataflow], None]] = {
    one.__name__: one for one in (sums, chain, straight, two_sinks, windows, sessions)
}


def graph(name: str, version: int) -> Dataflow:
    """A graph; version ``n`` adds ``n`` to each reading, and :data:`REFUSED` has other markers."""
    flow = Dataflow(name.replace("_", "-"))
    seconds = 7 if version == REFUSED else 10
    markers: Any = every(seconds=seconds, time=ts_of, delay=10)
    rows = flow.source("readings", U[str, Reading], key=id_of, markers=markers)
    GRAPHS[name](rows.through(Plus(version)), flow)
    return flow


FLOWS = {(name, version): graph(name, version) for name in GRAPHS for version in (0, 1, 2, REFUSED)}
globals().update({f"{name}_{version}": flow for (name, version), flow in FLOWS.items()})


class Wrong(AssertionError):
    """A run did what it must not. ``silent``: it ended well; ``differs``: its outputs are not the trace."""

    def __init__(self, what: str, *, silent: bool, differs: bool = False) -> None:
        super().__init__(f"{'silent: ' if silent else ''}{what}")
        self.silent, self.differs = silent, differs


@attrs.frozen
class File:
    """A file of the input: bytes, and modification time in seconds."""

    content: bytes
    time: int


@attrs.frozen
class Taken:
    """Of a file that was taken: how it was then, up to which byte, and whether lines might be appended meanwhile."""

    was: File
    end: int
    grows: bool

    @property
    def bytes(self) -> bytes:
        """What was taken."""
        return self.was.content[: self.end]


@attrs.frozen
class Start:
    """How a run is started.

    ``version``: of the graph; ``drain``, ``appended``: the options; ``until``: what interrupts it, for whoever starts it
    (``stop``, a crash, a kill), nothing when empty; ``after``: how many micro-batches before that; ``second``: while it works,
    another run is started on its ``checkpoint`` or its ``output``; ``address``: another input.
    """

    version: int = 0
    drain: bool = False
    appended: bool = False
    until: str = ""
    after: int = 0
    second: str = ""
    address: str | None = None


@attrs.frozen
class Ended:
    """How it ended. ``code``: of its error, None for none; ``text``: of the error; ``interrupted``: by ``until``;
    ``second``: what the second run said, None when there was no time for it."""

    code: str | None = None
    text: str = ""
    interrupted: bool = False
    second: str | None = None


class Runner(Protocol):
    """Starts runs."""

    def __call__(self, life: Life, start: Start) -> Ended: ...


Option = str | int | None
"""What may become of a file at a start: an error's code, the byte up to which it is taken, None for nothing."""


class Life:
    """One run, as often as it is started, and its model. ``happened``: how many of each operation. ``log``: the backend's."""

    def __init__(
        self, root: Path, name: str, runner: Runner, log: Callable[[Path], SparkLog | LocalLog] = SparkLog
    ) -> None:
        self.root, self.name, self.runner, self.log = root, name, runner, log
        self.disk: dict[str, File] = {}
        self.there = True
        self.taken: dict[str, Taken] = {}
        self.begun: dict[str, Taken] = {}
        """Files of a micro-batch that was begun, of which something may have been seen."""
        self.needed: set[str] = set()
        """Files of a micro-batch that is recorded, and whose state is still to come."""
        self.rows: list[tuple[str, int]] = []
        """Lines that were taken, each with the version of the graph."""
        self.version: int | None = None
        self.ever_appended = False
        self.between = False
        """Is a micro-batch recorded, or are rows of it out, that Spark does not know to be over?"""
        self.may_be_drained = False
        """Was a run interrupted that drained? Then its sources may have ended."""
        self.finished = False
        self.serial = self.clock = 0
        self.batches: dict[str, set[int]] = {}
        self.happened: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self.story: list[str] = []
        (root / "in").mkdir(parents=True)

    # ------------------------------------------------------------------------------------------ the input

    @property
    def input(self) -> Path:
        """The directory that is read."""
        return self.root / "in"

    def did(self, what: str, about: str = "") -> None:
        """Count an operation."""
        self.happened[what] += 1
        self.story.append(f"{what} {about}".strip())

    def now(self) -> int:
        """A time that no file had before."""
        self.clock += 1
        return 1_000_000 + self.clock

    def lines(self, count: int = 6) -> bytes:
        """Lines that no file had before: later ones, a late one and a reject now and then."""
        self.serial += 1
        n = self.serial
        some = [row(id="abc"[(n + k) % 3], ts=5 * n + k - (k % 3), watts=100 * n + 7 * k) for k in range(count)]
        some += [row(id="late", ts=-40 - n, watts=n)] if n % 3 == 2 else []
        some += ["{"] if n % 4 == 3 else []
        return "".join(f"{one}\n" for one in some).encode()

    def put(self, name: str, file: File | None) -> None:
        """Make a file what it shall be."""
        path = self.input / name
        if file is None:
            self.disk.pop(name, None)
            path.unlink(missing_ok=True)
            return
        self.disk[name] = file
        self.input.mkdir(exist_ok=True)
        self.there = True
        other = path.with_name(f".{name}")
        other.write_bytes(file.content)
        os.utime(other, (file.time, file.time))
        os.replace(other, path)

    def add(self, *, half: bool = False) -> str:
        """A file more. ``half``: its last line is not whole."""
        content = self.lines()
        name = f"{self.serial:03d}.jsonl"
        self.did("half" if half else "add", name)
        self.put(name, File(content[: -1 - self.serial % 9] if half else content, self.now()))
        return name

    def replace(self, name: str, *, same_size: bool = False) -> None:
        """Another file under a name."""
        self.did("replace", f"{name} same size {same_size}")
        content = self.lines(7)
        if same_size:
            content = re.sub(rb"(\d)}", lambda m: b"%d}" % ((int(m[1]) + 1) % 10), self.disk[name].content)
        self.put(name, File(content, self.now()))

    def append(self, name: str) -> None:
        """Lines more; what was half is whole then, as a line or as a reject."""
        self.did("append", name)
        self.put(name, File(self.disk[name].content + self.lines(2), self.now()))

    def cut(self, name: str) -> None:
        """The end of a file is gone."""
        self.did("cut", name)
        self.put(name, File(self.disk[name].content[:-5], self.now()))

    def rename(self, name: str) -> None:
        """The same file under a new name."""
        self.serial += 1
        new = f"{self.serial:03d}-was-{name[:3]}.jsonl"
        self.did("rename", f"{name} to {new}")
        file = self.disk[name]
        self.put(name, None)
        self.put(new, file)

    def remove(self, name: str) -> None:
        """It is gone."""
        self.did("remove", name)
        self.put(name, None)

    def touch(self, name: str) -> None:
        """The same bytes at another time."""
        self.did("touch", name)
        self.put(name, attrs.evolve(self.disk[name], time=self.now()))

    def remove_directory(self) -> None:
        """The whole input is gone."""
        self.did("remove directory")
        shutil.rmtree(self.input, ignore_errors=True)
        self.disk, self.there = {}, False

    def remake_directory(self, *, with_files: bool) -> None:
        """It is removed and made anew, empty or with the same files at other times."""
        self.did("remake directory")
        before = dict(self.disk)
        shutil.rmtree(self.input, ignore_errors=True)
        self.disk, self.there = {}, True
        self.input.mkdir()
        for name, file in before.items() if with_files else ():
            self.put(name, File(file.content, self.now()))

    def mend(self) -> None:
        """Put back what was taken as it was."""
        self.did("mend")
        self.input.mkdir(exist_ok=True)
        self.there = True
        for name in {*self.taken, *self.begun}:
            kept = self.begun.get(name) or self.taken[name]
            file, whole = self.disk.get(name), kept.was
            if file is None and name not in self.begun and name not in self.needed:
                continue
            if file is not None and file.content == whole.content and name not in self.begun:
                continue
            self.put(name, whole)

    # -------------------------------------------------------------------------------------- what must happen

    def options(self, start: Start) -> dict[str, set[Option]]:
        """What may become of each file, by the table in ``docs/sources.md``."""
        names = sorted({*self.disk, *self.taken, *self.begun})
        return {name: set(self._options(name, start)) for name in names}

    def _options(self, name: str, start: Start) -> Iterator[Option]:
        file, known, begun = self.disk.get(name), self.taken.get(name), self.begun.get(name)
        taken, bound = begun or known, begun is not None or name in self.needed
        if file is None:
            yield "TT231" if bound else None
        elif taken is None:
            yield self.upto(file, 0, start)
        elif bound and len(file.content) <= len(taken.was.content) and not is_as(file, taken.was, begun is not None):
            yield from ("TT231", "TT230")
        elif file.content == taken.bytes:
            yield taken.end if begun else None
        elif not start.appended or not whole(file.content, taken.end) or not is_more(file.content, taken.bytes):
            yield from ("TT230", "TT231") if bound else ("TT230",)
        else:
            yield self.upto(file, taken.end, start) or (taken.end if begun else None)
            if bound and not taken.grows:  # who had not said that lines may be appended may be asked to put it back
                yield "TT231"

    def upto(self, file: File, start: int, how: Start) -> Option:
        """Up to where a file is taken; None for nothing of it."""
        end = len(file.content)
        if how.appended and not how.drain:
            end = file.content.rfind(b"\n", start) + 1 or start
        return None if start == end and how.appended else end

    # ------------------------------------------------------------------------------------------------ starts

    def start(self, start: Start) -> str:
        """Start the run, and see that what it does is right. Its code, ``""`` for none."""
        self.did(f"start {start.until}".strip())
        if start.second:
            self.did(f"second start on its {start.second}")
        if start.address:
            self.did("another kind of input")
        if self.version is not None and start.version != self.version:
            self.did("refused graph" if start.version == REFUSED else "changed graph")
        self.story[-1] += f" {start}"
        options, before = self.options(start), self.visible()
        codes = self.codes(start, options)
        ended = self.runner(self, start)
        self.story.append(f"  {ended.code} {ended.text[:300]}" if ended.code else "  interrupted" * ended.interrupted)
        changed = self.version is not None and start.version != self.version
        early = changed and ended.interrupted and self.between  # it was stopped before it could say that it is refused
        if ended.code not in ("TT211", "TT221", "TT212") and not early:
            self.version = start.version
            self.ever_appended |= start.appended
        if start.second and ended.second is not None and "TT221" not in ended.second:
            raise Wrong(f"a second run was not refused: {ended.second}", silent=True)
        self.look(start, options)
        if not start.until and (gone := before - self.visible()):
            raise Wrong(f"rows are gone: {gone}", silent=True, differs=True)
        if ended.code is not None:
            self.ended[ended.code] += 1
            if ended.code not in codes:
                raise Wrong(f"{ended.code} and not {codes or 'an answer'}: {ended.text}", silent=False)
            names = codes[ended.code]
            if names and not any(name in ended.text for name in names):
                raise Wrong(f"{ended.code} names none of {sorted(names)}: {ended.text}", silent=False)
            if ended.code == "TT212" and not self.finished:  # files came after the end
                self.finished = True
                self.is_right(attrs.evolve(start, drain=True))
            return ended.code
        self.ended["interrupted" if ended.interrupted else "answered"] += 1
        self.may_be_drained |= ended.interrupted and start.drain
        if ended.interrupted:
            return ""
        must = [name for name, which in options.items() if all(isinstance(one, str) for one in which)]
        if must or self.finished or any(code not in ("TT212", "TT230", "TT231") for code in codes):
            raise Wrong(f"no error, and one of {codes} is asked for, because of {must}", silent=True)
        for name, which in options.items():
            end = self.taken[name].end if name in self.taken else None
            if None not in which and end not in which:
                raise Wrong(f"{name} was taken up to {end}, and {which} is asked for", silent=True)
        self.finished = start.drain
        self.is_right(start)
        return ""

    def codes(self, start: Start, options: Mapping[str, set[Option]]) -> dict[str, set[str]]:
        """The errors that a start may end in, each with the files of which it names one. When there is any, it must."""
        if start.version == REFUSED or (self.between and start.version != self.version):
            return {"TT211": set()}
        found: dict[str, set[str]] = {}
        if self.finished or (self.may_be_drained and start.address is not None):
            found["TT212"] = set()
        if start.address is not None:
            found["TT218"] = set()
            return found
        if not self.there:
            found["TT208"] = {str(self.input)}
        elif not self.disk:
            found["TT207"] = {str(self.input)}
        for name, which in options.items():
            for code in which:
                if isinstance(code, str):
                    found.setdefault(code, set()).add(name)
        if self.may_be_drained:
            found["TT212"] = set() if self.finished else {name for name, which in options.items() if which - {None}}
        return found

    # ---------------------------------------------------------------------------------------- what happened

    @property
    def home(self) -> Path | None:
        """The checkpoint of the query that reads."""
        root = self.root / "checkpoint"
        return next((one for one in (root, *root.glob("queries/*")) if (one / "inputs").is_dir()), None)

    @property
    def is_begun(self) -> bool:
        """Has a micro-batch begun? Until then the checkpoint knows nothing."""
        return self.home is not None and self.log(self.home).begun >= 0

    def look(self, start: Start, options: Mapping[str, set[Option]]) -> None:
        """See how far the run got."""
        before, self.begun, self.needed, self.between = self.begun, {}, set(), False
        if self.home is None:
            return
        records = sorted((self.home / "commits").glob("[0-9]*.json"))
        log = self.log(self.home)
        ended, began = log.ended, log.begun
        seen = self.batches.setdefault(str(self.home), set())
        done = 0
        for record in records:
            number, (about,) = int(record.stem), json.loads(record.read_text())["files"].values()
            done = max(done, about["listing"])
            for path, _, _, _, splits in about["files"]:
                name = Path(path).name
                if number > ended and self.name != "straight":
                    self.needed.add(name)
                if number not in seen:
                    self.take(name, max(end for _, end, _ in splits), start, options)
            seen.add(number)
            self.between |= number > ended
        if began > max([ended, *seen]) and self.may_be_visible(began):
            self.between = True
            (inputs,) = (self.home / "inputs").iterdir()
            listings = sorted(
                {n for path in map(on_disk, log.listed) if path.is_relative_to(inputs) and (n := int(path.parent.name)) > done}
            )
            splits = [self.splits(inputs / f"steps/{listing:08d}") for listing in listings]
            for split in next(filter(None, splits), []):  # nothing is left of a listing whose files went before they were read
                name = Path(split["path"]).name
                was = before[name].was if name in before else self.disk[name]
                self.begun[name] = Taken(was, split["end"], split["grows"])

    def splits(self, listing: Path) -> list[dict[str, Any]]:
        """What a listing names."""
        return [json.loads(line) for part in sorted(listing.glob("*.jsonl")) for line in part.read_text().splitlines()]

    def take(self, name: str, end: int, start: Start, options: Mapping[str, set[Option]]) -> None:
        """A file was taken up to a byte."""
        file, before = self.disk.get(name), self.taken[name].end if name in self.taken else 0
        which = options.get(name, set())
        if file is None or not any(isinstance(one, int) and before <= end <= one for one in which):
            raise Wrong(f"{name} was taken from {before} to {end}, and {which} is asked for", silent=True)
        self.taken[name] = Taken(file, end, start.appended)
        text = file.content[before:end].decode()
        self.rows += [(line, start.version) for line in text.splitlines() if line.strip()]

    def may_be_visible(self, batch: int) -> bool:
        """Are there rows of a micro-batch in its outputs?"""
        directories = [*self.root.glob("out-*"), *self.root.glob("late/*"), *self.root.glob("rejects/*")]
        directories += self.root.glob("checkpoint/channels/*/manifests")
        return any(any(one.glob(f"*{batch:08d}*")) for one in directories)

    def visible(self) -> Counter[str]:
        """All rows in the outputs."""
        found: Counter[str] = Counter()
        for directory in self.root.glob("out-*"):
            found += Counter({f"{directory.name} {text}": n for text, n in self.rows_at(directory).items()})
        return found

    def place(self, sink: str) -> str:
        """The output of a sink."""
        return str(self.root / f"out-{sink}")

    def rows_at(self, output: Path) -> Counter[str]:
        """The rows of an output."""
        return rows_in(output, "at")

    def is_right(self, start: Start) -> None:
        """Are the outputs the trace of the rows that were taken? Of a run that has not drained: up to the last marker."""
        wrong = self.differences(drain=start.drain)
        if wrong and not (self.may_be_drained and not self.differences(drain=True)):
            raise Wrong("; ".join(wrong), silent=True, differs=True)

    def differences(self, *, drain: bool) -> list[str]:
        """In what the outputs are not the trace of the rows that were taken."""
        flow, found = check(FLOWS[self.name, 0]), list[str]()
        lines = {"readings": [_plus(line, version) for line, version in self.rows]}
        whole, arranged = all_defined(flow, lines)
        for sink in flow.graph.sinks:
            there = self.rows_at(self.root / f"out-{sink.name}")
            least = most = rows_of(flow, sink, whole[sink.name])
            if not drain:
                least = rows_of(flow, sink, closed(all_defined(flow, lines, drain=False)[0][sink.name]))
                most = most if self.name == "straight" else least  # there rows of open blocks are out already
            if there - most or least - there:
                found.append(f"sink {sink.name} has {there - most} more and {least - there} less")
        source = arranged["readings"]
        for what, reasons in (
            ("late", Counter(one.reason for one in source.late)),
            ("rejects", Counter(reason for _, reason in source.rejects)),
        ):
            told = Counter(one["reason"] for one in side_outputs(self.root / what, "readings"))
            if told != reasons:
                found.append(f"{what}: {told - reasons} more and {reasons - told} less")
        return found

    def end(self) -> None:
        """Put back what is asked for, and run to the end: the answer is that of the definition."""
        if self.finished:
            return
        version = self.version if self.version not in (None, REFUSED) else 0
        assert version is not None
        self.mend()
        if not self.disk:  # nobody knows the format of no files
            self.add()
        last = Start(version=version, drain=True, appended=self.ever_appended)
        asked = {
            name: which for name, which in self.options(last).items() if any(isinstance(one, str) for one in which)
        }
        assert not asked, f"put back, and still {asked}"
        if self.start(last) != "TT212":
            assert self.start(last) == "TT212"


def is_as(now: File, was: File, seen: bool) -> bool:
    """May a file be taken for what it was? ``seen``: its hash is not known yet."""
    return now.content == was.content and (now.time == was.time or not seen)


def is_more(content: bytes, taken: bytes) -> bool:
    """Does a file hold what was taken, and more?"""
    return len(content) > len(taken) and content.startswith(taken)


def whole(content: bytes, end: int) -> bool:
    """Does a line end at a place?"""
    return end == 0 or content[end - 1 : end] == b"\n" or content[end : end + 1] == b"\n"


def _plus(line: str, watts: int) -> str:
    """A line as version 0 of a graph takes it where another one took it."""
    try:
        value = json.loads(line)
        value["watts"] += watts
    except (ValueError, TypeError, KeyError):
        return line
    return json.dumps(value)


# ------------------------------------------------------------------------------------------------- operations


def _on_a_file(do: Callable[[Life, str], None]) -> Callable[[Life, int], None]:
    """An operation on one of the files; with none there it is nothing."""

    def act(life: Life, which: int) -> None:
        names = sorted(life.disk)
        if names:
            do(life, names[which % len(names)])

    return act


OPERATIONS: dict[str, Callable[[Life, int], None]] = {
    "add": lambda life, _: void(life.add()),
    "half": lambda life, _: void(life.add(half=True)),
    "append": _on_a_file(Life.append),
    "touch": _on_a_file(Life.touch),
    "rename": _on_a_file(Life.rename),
    "remove": _on_a_file(Life.remove),
    "replace": _on_a_file(Life.replace),
    "replace by as many bytes": _on_a_file(lambda life, name: life.replace(name, same_size=True)),
    "cut": _on_a_file(Life.cut),
    "remove directory": lambda life, _: life.remove_directory(),
    "remake directory": lambda life, which: life.remake_directory(with_files=which % 2 == 0),
    "mend": lambda life, _: life.mend(),
}
"""What may happen to an input between two starts, with a number that says to which file."""

DRAWN = [*OPERATIONS] * 2 + ["add"] * 4 + ["mend"] * 8 + ["replace by as many bytes", "append", "touch"] * 2
DRAWN.remove("remove directory")
"""How often each is drawn: a directory that is gone hides all else."""


def void(_: object) -> None:
    """For operations that return something."""
