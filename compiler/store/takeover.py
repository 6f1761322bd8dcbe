"""Which start of a run has a checkpoint on a store. There are no locks, so a start takes over from the one before it.

::

    CHECKPOINT/current.json         {"start": 3, "folder": "start-00000003", "before": "", "ended": false, "id": "9f0c..."}
    CHECKPOINT/start-00000003/      the checkpoint, as it lies on a disk

A driver that was killed, or is cut off, may still write. So each start gets a folder of its own, into which the store copies
what the start before it left, and nothing that an older driver writes is ever read. It cannot commit either: its next commit
record is put by the new start, before anything is copied, and records are created, never replaced. Nobody waits for a lease. If
the start before has ended, the next one goes on in the same folder.

``current.json`` is put on the condition that it is as it was read. Its ``before`` names the folder that counts until the copy is
whole.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import PurePath
from typing import Final, final

import attrs

from tracetypes.compiler.connectors.object_writes import (
    Note,
    copy_object,
    in_parallel,
    object_names,
    put_if,
    read_note,
    remove_objects,
)
from tracetypes.compiler.store.compatibility import queries_of
from tracetypes.compiler.store.object_place import ObjectPlace
from tracetypes.compiler.store.places import Place, create
from tracetypes.compiler.store.run_store import TAKEN
from tracetypes.compiler.store.small_files import read_json, unreachable
from tracetypes.compiler.wire.seals import seal
from tracetypes.fencing import another_driver

__all__ = ["Moved", "held", "home_of"]

CURRENT: Final = "current.json"

Moved = Callable[[Place, Place, Place], None]
"""Called with the place of a query whose checkpoint was copied, and with the folders before and after."""


@attrs.frozen(kw_only=True)
class _Current:
    """The content of ``current.json``."""

    start: int = 0
    folder: str = ""
    before: str = ""
    ended: bool = False
    id: str = attrs.field(factory=lambda: uuid.uuid4().hex)

    @property
    def whole(self) -> str:
        """The folder that counts."""
        return self.before or self.folder


def _note(root: ObjectPlace) -> str:
    return str(root / CURRENT)


def _read(root: ObjectPlace) -> tuple[Note | None, _Current]:
    note = read_note(_note(root))
    return note, _Current() if note is None else _Current(**json.loads(note.content))


def _put(root: ObjectPlace, current: _Current, before: Note | None) -> bool:
    return put_if(_note(root), json.dumps(attrs.asdict(current)).encode(), before)


def home_of(root: Place) -> Place:
    """Where a checkpoint lies now, for whoever reads it. Raises :class:`RunError` ``TT209``."""
    if not isinstance(root, ObjectPlace):
        return root
    try:
        return root / (_read(root)[1].whole or _folder(1))
    except OSError as error:
        raise unreachable(root, error) from None


@contextmanager
def held(root: Place, moved: Moved) -> Iterator[Held]:
    """A context in which this start has a checkpoint. On a disk its locks see to that. Raises :class:`RunError` ``TT209``."""
    if not isinstance(root, ObjectPlace):
        yield Held(root, root, "")
        return
    try:
        mine = _taken(root, moved)
    except OSError as error:
        raise unreachable(root, error) from None
    try:
        yield mine
    except Exception:
        mine.end()
        raise
    mine.end()


@final
@attrs.frozen
class Held:
    """A checkpoint of which this start is the last one. ``home``: where it lies. ``id``: of this start."""

    root: Place
    home: Place
    id: str

    def check(self) -> None:
        """See that no later start has taken over, once all has been written by which that would have shut out this one. Raises
        :class:`RunError` ``TT209``."""
        if isinstance(self.root, ObjectPlace) and _read(self.root)[1].id != self.id:
            raise another_driver(str(self.root), "a later start has taken over")

    def end(self) -> None:
        """Note that nothing of this start writes any more, so that the next one need not copy."""
        if isinstance(self.root, ObjectPlace):
            with suppress(OSError):
                note, current = _read(self.root)
                if current.id == self.id and _put(self.root, attrs.evolve(current, ended=True), note):
                    _sweep(self.root, [current.folder])


def _folder(start: int) -> str:
    return f"start-{start:08d}"


def _taken(root: ObjectPlace, moved: Moved) -> Held:
    """Take over, before or behind others who try."""
    while True:
        note, there = _read(root)
        start = there.start + 1
        if note is None or (there.ended and not there.before):
            mine = _Current(start=start, folder=there.folder or _folder(start))
            if _put(root, mine, note):
                return Held(root, root / mine.folder, mine.id)
            continue
        mine = _Current(start=start, folder=_folder(start), before=there.whole)
        if not _put(root, mine, note):
            continue
        before, after = root / mine.before, root / mine.folder
        after.remove_all()
        _copy(before, after, set(_shut_out(before, mine.folder)))
        for query in _queries(after):
            moved(query, before, after)
        note, there = _read(root)
        mine = attrs.evolve(mine, before="")
        if there.id != mine.id or not _put(root, mine, note):
            raise another_driver(str(root), "a later start has taken over")
        _sweep(root, [mine.folder, before.name])
        return Held(root, after, mine.id)


def _queries(folder: ObjectPlace) -> list[ObjectPlace]:
    """The checkpoints of queries in a folder."""
    queries = queries_of(folder)
    return [folder] if queries is None else [folder / directory for directory in queries.values()]


def _shut_out(folder: ObjectPlace, by: str) -> Iterator[ObjectPlace]:
    """Put the next commit record of each query, so that its driver cannot. Gives these records."""
    for query in _queries(folder):
        about = read_json(query / "graph.json")
        if about is None:
            continue
        records = query / "commits"
        number = max((int(one.stem) for one in records.glob("[0-9]*.json")), default=-1)
        while True:  # the last one may be of an earlier start that was killed here
            record = records / f"{max(number, 0):08d}.json"
            if number >= 0 and TAKEN in (read_json(record) or {}):
                break
            number += 1
            record = records / f"{number:08d}.json"
            if create(record, seal({TAKEN: by, "run": about["run"]}, record.name).encode()):
                break
        yield record


def _copy(before: ObjectPlace, after: ObjectPlace, all_but: set[ObjectPlace]) -> None:
    """Copy a folder, inside the store. An old driver may still write into it: what is new is copied, too, and what is gone is
    not needed."""
    left_out = {str(one) for one in all_but}
    copied = set[str]()
    while new := set(object_names(str(before))) - copied - left_out:
        in_parallel(_copied, [(one, f"{after}{one.removeprefix(str(before))}") for one in sorted(new)])
        copied |= new


def _copied(before: str, after: str) -> None:
    with suppress(FileNotFoundError):
        copy_object(before, after)


def _sweep(root: ObjectPlace, kept: Iterable[str]) -> None:
    """Remove the folders of old starts, but for the records that shut out their drivers."""
    for folder in root.glob("start-*"):
        if folder.name in kept:
            continue
        last: dict[str, str] = {}
        names = object_names(str(folder))
        for name in names:
            place = PurePath(name)
            if place.stem.isdecimal() and place.parent.name == "commits" and place.parent.parent.name != "spark":
                last[str(place.parent)] = max(last.get(str(place.parent), ""), name)
        remove_objects([name for name in names if name not in last.values()])

