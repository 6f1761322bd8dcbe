"""The files that a run has listed and read, in its checkpoint.

::

    CHECKPOINT/inputs/READING/steps/00000012/0.jsonl   a listing: the source splits of a micro-batch, a file for each task
    CHECKPOINT/inputs/READING/files.jsonl              a line for each file that was read; the last line of a file counts
    CHECKPOINT/commits/00000031.json, under "files"    the same for the last micro-batches

The driver lists the files of a source. It publishes new files, or new lines of known ones, as a listing, which appears
at once under its number. Spark takes the listings as its source of files, each once, so its log names listings only.
Tasks read the splits and report what they read; the micro-batch commits that. A committed listing is removed.

Whenever files are listed, a known file is compared by size and time, and by its hash if these differ. At a start, files
without a commit are listed again as they are now, unless rows of them may have been visible: then they must be as they
were (``TT231``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, takewhile
from operator import itemgetter
from typing import Any, TypeAlias
from urllib.parse import quote

import attrs

from tracetypes.compiler.connectors.file_splits import Split, changed_file, is_compressed, size_and_time
from tracetypes.compiler.connectors.file_system import FileState
from tracetypes.compiler.connectors.files import file_system, state_of, walk
from tracetypes.compiler.connectors.record_ends import LINES, RowEnds, row_ends
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.runtime.messages import TakenSplits
from tracetypes.compiler.store.known_files import KnownFile, KnownFiles, coverage, lost_input
from tracetypes.compiler.store.listings import Listings, listings_in
from tracetypes.compiler.store.places import Place, append, lines_of, rewrite
from tracetypes.compiler.store.small_files import apart, damaged, read_json, read_own
from tracetypes.compiler.wire.seals import seal, unseal
from tracetypes.formats import Avro, Parquet, format_of

__all__ = ["InputFiles", "by_time", "home_of", "records_of", "unread"]

LARGE = 256 << 20
"""Bytes from which a Parquet file is read by several tasks at once, in parts that are not larger if its row groups are not."""

EPOCH = 1 << 30
"""Bytes of text for each task that an epoch takes at most, if not told otherwise: what a crash may cost is minutes."""

FILE = 64 << 10
"""Bytes of text as which a file by itself counts there. So the files of an epoch have a bound, too: all that it knows of each is
in memory, and in its commit record."""

DENSE = 4
"""How much more a byte of Parquet or of an archive is than a byte of text, about."""

New: TypeAlias = tuple[str, int, int, str, int, int]
"""A file, or new lines of one: path, size, time and version, the first byte, and how many bytes from there are doubtful. There
may be millions."""

SMALLEST, LARGEST = 4 << 20, 128 << 20
"""Bytes of text that a task reads at once, at least and at most, about."""


def by_time(path: str, modified: int) -> Any:
    """Files in the order of their modification times."""
    return modified, path


@attrs.define(eq=False)
class InputFiles:
    """The files of one reading of a source.

    ``home``: the directory of its records. ``path``: a file, or a directory. ``is_text``: lines, not Parquet.
    ``tasks``: how many read at once. ``at_once``: the largest number of files in a listing, None: by their size.
    ``appended``: whether lines may be appended to known files. ``follows``: more of a file may come while the run goes
    on or later; so, if lines may be appended, a last line without an end waits. ``place``: sorts files that are found
    together, by path and modification time. ``ends``: where rows of text end. ``run``: the one whose records these are.
    """

    home: Place
    path: str
    is_text: bool
    tasks: int
    at_once: int | None = None
    appended: bool = False
    follows: bool = False
    place: Callable[[str, int], Any] = by_time
    ends: RowEnds = LINES
    run: str = ""
    known: KnownFiles = attrs.field(init=False, factory=KnownFiles)
    pending: dict[str, int] = attrs.field(init=False, factory=dict)
    """The listing that names a file which is not committed."""
    seen: dict[str, tuple[int, int, str]] = attrs.field(init=False, factory=dict)
    """Size, time and version of files that are other than when they were taken, and were found to be sound."""
    proved: set[str] = attrs.field(init=False, factory=set)
    """Files of which this run has seen all that was taken."""
    last: int = attrs.field(init=False, default=0)
    done: int = attrs.field(init=False, default=0)
    """The last listing that is committed."""
    lock: threading.RLock = attrs.field(init=False, factory=threading.RLock)
    weights: dict[int, int] = attrs.field(init=False, factory=dict)
    """Bytes of the listings that are there, of those of an earlier start when they are asked for."""

    listings: Listings = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.appended = self.appended and file_system(self.path).appends

    @listings.default
    def _listings(self) -> Listings:
        return listings_in(self.home, self.tasks, self.run)

    @property
    def rest(self) -> float:
        """Seconds between two looks, at least."""
        return file_system(self.path).rest

    @property
    def waiting(self) -> set[str]:
        """The files of listings without a commit."""
        return {str(file) for number in self.listings.numbers(self.done) for file in self.listings.place(number).iterdir()}

    @staticmethod
    def of(checkpoint: Place, label: str, **options: Any) -> InputFiles:
        """The files of a reading of a source, by its label."""
        return InputFiles(home_of(checkpoint, label), run=_run_of(checkpoint), **options)

    # ------------------------------------------------------------------------------------------------ a start

    def begin(
        self,
        records: Sequence[tuple[int, Mapping[str, Any]]],
        backend: Iterable[Place],
        ended: int,
        visible: Callable[[], str | None],
        needed: bool,
    ) -> None:
        """Go on where a run was.

        ``records``: numbers and contents of the last commit records, about this reading, in order. ``backend``: the
        files that the backend's log names. ``ended``: the last epoch that is over for the backend. ``visible``: where
        rows of the next epoch may have been seen. ``needed``: an epoch that must be computed again even if its record
        exists. Raises :class:`RunError` ``TT231``.
        """
        self.listings.begin()
        self.load(records)
        assigned = {int(path.parent.name) for path in backend if path.parent.parent == self.listings.path}
        self.done = max((about["listing"] for number, about in records if number <= ended), default=0)
        ours = max((about["listing"] for _, about in records), default=0)
        self.last = max([*self.listings.numbers(), *assigned, self.done, ours], default=0)
        for number in list(self.listings.numbers()):
            if number <= self.done:
                self.listings.remove(number)
                continue
            splits = self.listings.splits(number)
            if number <= ours:
                if needed:
                    self._as_taken(number, splits)
            else:
                self._listed_again(number, splits, visible if number in assigned else lambda: None)
            if number not in assigned:
                self.listings.spread(number)
            self.pending.update({split.path: number for split in self.listings.splits(number) if number > ours})
        self._list_growth()

    def load(self, records: Sequence[tuple[int, Mapping[str, Any]]]) -> None:
        """Load which files were read."""
        lines = lines_of(self._log)
        for at, line in enumerate(lines):
            try:
                path, *about = unseal(line, self._name)["of"]
            except ValueError as error:
                if at == len(lines) - 1:  # if the power failed; its record is still there
                    continue
                raise damaged(self._log, f"line {at + 1}: {error}", "the files that were read") from error
            self._know(path, about)
        if len(lines) > 2 * len(self.known) + 1000:
            rewrite(self._log, "".join(f"{self._known_line(one)}\n" for one in self._plain(self.known)).encode())
        for _, about in records:
            for path, *fields in about["files"]:
                self._know(path, fields)
        if records and len(self.known) < (expected := records[-1][1].get("known", 0)):
            what = f"the run has read {expected:,} files, and {len(self.known):,} are recorded"
            raise apart(self._log, what, "The others would be read again")

    @property
    def _log(self) -> Place:
        return self.home / "files.jsonl"

    @property
    def _name(self) -> str:
        """Of a line of the log, for its checksum."""
        return f"file of {self.run}"

    def _known_line(self, about: Sequence[Any]) -> str:
        """What is known of a file, as a line with a checksum."""
        return seal({"of": about}, self._name)

    def _know(self, path: str, about: Sequence[Any]) -> None:
        size, time, parts, splits, *version = about
        self.known[path] = KnownFile(size, time, parts, [(start, end, hash) for start, end, hash in splits], *version)

    def _plain(self, paths: Iterable[str]) -> list[list[Any]]:
        return list(map(self.known.plain, paths))

    def keep(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Keep the content of commit records that will be removed."""
        lines = [self._known_line(line) for about in records for line in about["files"]]
        if lines:
            append(self._log, "".join(f"{line}\n" for line in lines).encode())

    def _as_taken(self, number: int, splits: list[Split]) -> None:
        """A micro-batch that is committed is computed once more, for its state: its files must be as they were."""
        now: list[Split] = []
        for split in splits:
            state = state_of(split.path)
            if not split.is_as(state):
                if state is None or state.size != split.size or not self.known[split.path].is_in(split.path):
                    raise lost_input(split, state, "its rows are out and committed, and its state is still to come")
                split = attrs.evolve(split, size=state.size, changed=state.modified, version=state.version)
            now.append(split)
        if now != splits:
            self.listings.swap(number, now)

    def _listed_again(self, number: int, splits: list[Split], visible: Callable[[], str | None]) -> None:
        """List the files of a micro-batch that is not committed as they are now. One that was seen must be as it was."""
        place = visible()
        again: list[Split] = []
        for path, mine in _by_file(splits).items():
            state = state_of(path)
            if place is not None:
                if changed := [split for split in mine if not split.is_begun_by(state)]:
                    raise lost_input(changed[0], state, f"its rows are in {place}")
                again += mine
            elif state is not None and path not in self.pending:  # else it is what had been appended to a file that was seen
                first = min(mine, key=lambda split: split.start)
                if not first.start or self._compared(path, state, self.known[path]) is not None:
                    now = self._split((number, first.rank), (path, *state, first.start, first.doubtful), LARGEST)
                    again += mine if coverage(mine) == coverage(now) else now
        if again != splits:
            self.listings.swap(number, again)

    def _list_growth(self) -> None:
        """List what was appended to files that are read as they were, because rows of them were seen."""
        listed = {number: _by_file(self.listings.splits(number)) for number in {*self.pending.values()}}
        for path, number in sorted(self.pending.items()):
            mine = listed[number][path]
            end, state = max(split.end for split in mine), state_of(path)
            if not self._may_grow(path) or state is None or state.size == end:
                continue
            was, now = size_and_time(mine[0].state._replace(size=end)), size_and_time(state)
            if not self.appended:
                raise changed_file(path, was, now)
            after = self.ends.after(path, sorted((split.start, split.end) for split in mine))
            more = self._split((self.last + 1, 0), (path, *state, *(after or (end, 0))), LARGEST)
            if more and after is None:
                raise changed_file(path, was, now, more=", and its last line was not whole when it was taken")
            if more:
                self._publish(more)

    def weight(self, number: int) -> int:
        """Bytes of a listing, about."""
        if number not in self.weights:
            self.weights[number] = _weight(self.listings.splits(number))
        return self.weights[number]

    def drop(self) -> bool:
        """Go on without files that are gone before anything of them was committed. Returns whether there was one."""
        with self.lock:
            dropped = False
            for number in {*self.pending.values()}:
                splits = self.listings.splits(number)
                there = [split for split in splits if state_of(split.path) is not None]
                if there != splits:
                    self.listings.swap(number, there)
                    self.pending = {path: one for path, one in self.pending.items() if one != number}
                    self.pending.update({split.path: number for split in there})
                    dropped = True
            return dropped

    # ---------------------------------------------------------------------------------------------- listings

    def look(self) -> None:
        """Publish new files and lines. Raises :class:`RunError` ``TT230`` if a known file has changed."""
        with self.lock:
            new = sorted(self._new(), key=lambda one: self.place(one[0], one[2]))
            for some in self._cut(new):
                total = sum(size - start for _, size, _, _, start, _ in some)
                most = max(SMALLEST, min(LARGEST, -(-total // self.tasks)))
                place = self.last + 1
                splits = [one for rank, new in enumerate(some) for one in self._split((place, rank), new, most)]
                if splits:
                    self._publish(splits)

    def _cut(self, files: Sequence[New]) -> Iterator[list[New]]:
        """The files of one listing after the other: as many as the user says, else by size. Of Parquet files, which are a split
        each, every task gets as many: the rest waits for the next listing, so that no task waits for the last one."""
        some: list[New] = []
        size, most = 0, self.tasks * EPOCH
        for one in files:
            more = self._weight(one)
            while some and (len(some) == self.at_once or (self.at_once is None and size + more > most)):
                full = len(some) if self.is_text or self.at_once else len(some) - len(some) % self.tasks or len(some)
                yield some[:full]
                some = some[full:]
                size = sum(map(self._weight, some))
            some.append(one)
            size += more
        if some:
            yield some

    def _weight(self, file: New) -> int:
        """Bytes of text, about."""
        path, size, _, _, start, _ = file
        return FILE + (size - start) * (1 if self.is_text and not is_compressed(path) else DENSE)

    def unread(self) -> str | None:
        """A file that :meth:`look` would publish, or None. Raises the same errors."""
        with self.lock:
            return next((path for path, *_ in self._new()), None)

    def _new(self) -> list[New]:
        """What is new."""
        new: list[New] = []
        touched: list[str] = []
        for path, state in walk(self.path):
            before, now = self.known.looks(path), (state.size, state.modified, state.version)
            if path in self.pending or self.seen.get(path) == now:
                continue
            if before is None:
                new.append((path, *now, 0, 0))
            elif before != now:
                known = self.known[path]
                after = self._compared(path, state, known)
                if after is not None:
                    new.append((path, *now, *after))
                elif state.size == known.size:
                    self.known[path] = attrs.evolve(known, time=state.modified, version=state.version)
                    touched.append(path)
                self.seen[path] = now
        self.keep([{"files": self._plain(touched)}])
        return new

    def _publish(self, splits: list[Split]) -> None:
        """A listing more."""
        self.last += 1
        self.listings.publish(self.last, splits)
        self.weights[self.last] = _weight(splits)
        self.pending.update({split.path: self.last for split in splits})

    def _compared(self, path: str, state: FileState, known: KnownFile) -> tuple[int, int] | None:
        """From where a known file whose size or time is another must be read, and how many bytes are doubtful there; None where
        nothing is new."""
        was, now = size_and_time(known.state), size_and_time(state)
        if state.size == known.size:
            same = state.version != "" and state.version == known.version
            if not same and not known.is_in(path) and state_of(path) is not None:
                raise changed_file(path, was, now, more=", with other content")
            return None
        if state.size < known.size or not self.appended or not self._may_grow(path):
            raise changed_file(path, was, now)
        begun = known.begun(path, proved=path in self.proved)
        if begun is None:
            raise changed_file(path, was, now, more=", and does not begin with what it was")
        self.known[path] = begun
        self.proved.add(path)
        after = self.ends.after(path, [(start, end) for start, end, _ in known.splits])
        if after is None:
            raise changed_file(path, was, now, more=", and its last line was not whole when it was taken")
        return after

    def _may_grow(self, path: str) -> bool:
        """Whether a file may be read in parts."""
        return self.is_text and self.ends.is_cut and not is_compressed(path)

    def _split(self, place: tuple[int, int], file: New, most: int) -> list[Split]:
        """The splits of a file, or of new lines of one. ``place``: a listing, and the number of the file in it."""
        (number, rank), (path, size, changed, version, start, doubtful) = place, file
        one = Split(number, path, rank, size, changed, start, size, doubtful=doubtful, version=version)
        if not self.is_text:
            parts = max(self.tasks, -(-size // LARGE)) if size > LARGE else 1
            return [attrs.evolve(one, start=part, end=part + 1, parts=parts) for part in range(parts)]
        if not self._may_grow(path):
            return [one]
        try:
            if self.appended:
                end = self.ends.last(path, start, size) if self.follows else size
                one = attrs.evolve(one, grows=True, end=end)
                if end == start:
                    return []
                return [split.sampled() for split in self.ends.splits(one, most)]
            return list(self.ends.splits(one, most))
        except (OSError, EOFError):
            return [one]  # who reads it will say so

    # ----------------------------------------------------------------------------------------------- commits

    def taken(self, reports: Sequence[TakenSplits]) -> dict[str, Any]:
        """The part of a commit record about the files of a micro-batch, from the reports of tasks."""
        heads = sorted((head for one in reports for head in one.splits), key=itemgetter("path", "start", "end"))
        paths: list[str] = []
        with self.lock:
            for path, some in groupby(heads, itemgetter("path")):
                about, *more = some
                end = more[-1]["end"] if more else about["end"]
                new = [(head["start"], head["end"], head["hash"]) for head in (about, *more)]
                before = self.known[path].splits if about["start"] and not about["parts"] and path in self.known else ()
                size = end if about["grows"] else about["size"]
                version = about.get("version", "")
                self.known[path] = KnownFile(size, about["changed"], about["parts"], [*before, *new], version)
                self.seen.pop(path, None)
                if not before:
                    self.proved.add(path)
                paths.append(path)
            listing = max((head["listing"] for head in heads), default=self.done)
            return {"listing": listing, "files": self._plain(paths), "known": len(self.known)}

    def committed(self, about: Mapping[str, Any]) -> None:
        """Note that a micro-batch has been committed. What the one before it has read is no longer needed."""
        with self.lock:
            for path, *_ in about["files"]:
                if self.pending.get(path, 0) <= about["listing"]:  # else more of it is listed
                    self.pending.pop(path, None)
            for number in list(takewhile(lambda number: number <= self.done, self.listings.numbers())):
                self.listings.remove(number)
                self.weights.pop(number, None)
            self.done = max(self.done, about["listing"])


def _weight(splits: Iterable[Split]) -> int:
    """Bytes of splits, about."""
    return sum(FILE + split.weight for split in splits)


def _by_file(splits: Iterable[Split]) -> dict[str, list[Split]]:
    """Splits by their files, in the order of the first of each."""
    by_file: dict[str, list[Split]] = {}
    for split in splits:
        by_file.setdefault(split.path, []).append(split)
    return by_file


def home_of(checkpoint: Place, label: str) -> Place:
    """The directory of the records of a reading, in a checkpoint."""
    return checkpoint.absolute() / "inputs" / quote(label, safe="")


def _run_of(checkpoint: Place) -> str:
    """The run of a query's checkpoint."""
    return str((read_json(checkpoint / "graph.json") or {"run": ""})["run"])


def records_of(checkpoint: Place, label: str) -> list[tuple[int, dict[str, Any]]]:
    """The parts of a query's commit records about the files of a reading, by micro-batch."""
    paths = sorted((checkpoint / "commits").glob("[0-9]*.json"))
    run, records = _run_of(checkpoint), list[tuple[int, Any]]()
    for path in paths:
        record = read_own(path, run) or {}
        records.append((int(path.stem), record.get("files", {})))
    return [(number, files[label]) for number, files in records if label in files]


def unread(checkpoint: Place, plan: Plan, inputs: Mapping[str, str], *, appended: bool) -> str | None:
    """A file that came after the end of a finished query, which nobody will read. Needs no Spark. Raises
    :class:`RunError` ``TT230`` if a known file has changed."""
    for leaf in plan.sources:
        records, path = records_of(checkpoint, leaf.label), inputs.get(leaf.source.name)
        first = None if path is None else next(walk(path), None)
        if path is None or first is None or not records:
            continue
        format = format_of(first[0], leaf.source.format)
        how = {"is_text": not isinstance(format, Parquet | Avro), "ends": row_ends(format), "appended": appended}
        files = InputFiles.of(checkpoint, leaf.label, path=path, tasks=1, **how)
        files.load(records)
        if (late := files.unread()) is not None:
            return late
    return None
