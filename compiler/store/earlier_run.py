"""What an earlier run left in a checkpoint and in outputs, and its removal (``--overwrite``).

Only what tracetypes wrote is removed: the records of the checkpoint by their names, and files of rows that have the name of one
of its runs in theirs. Everything else stays, also what other runs wrote into the same directory. Topics and tables are never
emptied.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import attrs

from tracetypes.compiler.store.output_interface import HIDDEN, with_folders
from tracetypes.compiler.store.version import begin_removal
from tracetypes.errors import RunError, counted
from tracetypes.formats import TEXT_ENDINGS

__all__ = ["EarlierRun", "earlier_run"]

_LAST: Final = ("program.json", "graph.json", "format.json")
"""Records by which a checkpoint and its runs are known. They go last: a removal that is stopped can be made again."""
_FILES: Final = frozenset(
    {"arrived", "channels.json", "differences.json", "files.jsonl", "finished", "inputs.json", "key", "outputs.json"}
    | {"rescales.json", "starts.json", "topic.json", *_LAST}
)
_FOLDERS: Final = frozenset({"called", "channels", "clock", "commits", "control", "ends", "inputs", "local", "queries", "spark"})
_NUMBERED: Final = re.compile(r"[\w.-]*\d[\w.-]*|epochs\.db[\w.-]*|\.\S+\.crc|_?metadata|schema|states?|[0-9a-f]{8}\.json")
"""Names of files in the folders of a checkpoint: of epochs, of parts of them, and what Spark writes."""
_RUN: Final = re.compile(r'"run": ?"([0-9a-f]{8})"')
_PART: Final = re.compile(rf"part-([0-9a-f]{{8}})-\d{{8,}}-\d{{4,}}\.\w+(\.({'|'.join(TEXT_ENDINGS.values())}))?")
"""Names of files of rows, with the name of their run; the last ending is that of a compressed file."""


@attrs.frozen
class EarlierRun:
    """What an earlier run left. ``rows``: files of rows, of outputs and of late and rejected rows. ``records``: files and folders
    of the checkpoint. ``staged``: folders with what was not committed. ``others``: how many files of rows of other runs there
    are, by directory. ``strangers``: files of somebody else in folders of the checkpoint, beside which no new one can begin."""

    checkpoint: Path
    rows: tuple[Path, ...]
    records: tuple[Path, ...]
    staged: tuple[Path, ...]
    others: tuple[tuple[Path, int], ...]
    strangers: tuple[Path, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is anything to remove."""
        return bool(self.rows or self.records or self.staged)

    @property
    def removed(self) -> list[str]:
        """What a removal removes, for people."""
        places: dict[Path, int] = {}
        for file in self.rows:
            places[file.parent] = places.get(file.parent, 0) + 1
        said = [f"{counted(count, 'file')} of rows in {_short(place)}" for place, count in places.items()]
        return [*said, f"the checkpoint {_short(self.checkpoint)}"] if self.records else said

    @property
    def kept(self) -> list[str]:
        """What it leaves, though it lies in the same directories."""
        return [f"{counted(count, 'file')} of other runs in {_short(place)}" for place, count in self.others]

    def remove(self) -> None:
        """Remove it. Raises :class:`RunError` ``TT209``."""
        if self.strangers:
            what = f"{_short(self.strangers[0])} lies among the records of the checkpoint, and no run wrote it"
            raise RunError("TT209", what, fix="move it away, or give another --checkpoint and output")
        try:
            if self.records:
                begin_removal(self.checkpoint)
            for file in self.rows:
                file.unlink(missing_ok=True)
            for folder in sorted({file.parent for file in self.rows}, key=lambda path: len(path.parts), reverse=True):
                if "=" in folder.name or folder.parent.name in ("_late", "_rejects"):
                    _remove_empty(folder)
            for folder in self.staged:
                shutil.rmtree(folder)
                _remove_empty(folder.parent)
            for record in self.records:
                if record.is_dir():
                    _remove_empty(record)
                else:
                    record.unlink(missing_ok=True)
        except OSError as error:
            raise RunError(
                "TT209", f"{error.filename} cannot be removed: {error.strerror}", fix="remove it, or give another output"
            ) from error


def earlier_run(checkpoint: Path, outputs: Iterable[Path], side_outputs: Iterable[Path]) -> EarlierRun:
    """What the runs of a checkpoint left in it, in directories of rows, and in those of late and rejected rows."""
    runs = _runs_of(checkpoint)
    places = [folder for output in outputs for folder in with_folders(output)]
    places += [folder for aside in side_outputs for folder in _below(aside)]
    rows: list[Path] = []
    others: list[tuple[Path, int]] = []
    for place in places:
        mine, rest = _parts(place, runs)
        rows += mine
        others += [(place, rest)] if rest else []
    homes = [*outputs, *side_outputs]
    staged = [home / HIDDEN / run for home in homes for run in runs if (home / HIDDEN / run).is_dir()]
    records = tuple(_records_of(checkpoint))
    return EarlierRun(checkpoint, tuple(rows), records, tuple(staged), tuple(others), tuple(_strangers(checkpoint, records)))


def _records_of(checkpoint: Path) -> Iterator[Path]:
    """Files and folders of a checkpoint, in the order in which they may go. None of a directory that is no checkpoint."""
    if not any((checkpoint / name).is_file() for name in _LAST):
        return
    for one in sorted(checkpoint.iterdir()):
        if one.is_symlink() or one.name in _LAST:
            continue
        if one.is_dir() and one.name in _FOLDERS:
            yield from _records_in(one)
        elif one.is_file() and one.name in _FILES:
            yield one
    for name in _LAST:
        if (checkpoint / name).is_file():
            yield checkpoint / name


def _records_in(folder: Path) -> Iterator[Path]:
    """Files of a folder of a checkpoint that have names of ours, then the folders in which they lie, the innermost first."""
    for place, _, files in os.walk(folder, topdown=False):
        depth = len(Path(place).relative_to(folder).parts)
        for name in files:
            is_known = name in _FILES or (_NUMBERED.fullmatch(name) is not None and not (folder.name == "inputs" and depth < 2))
            if is_known and not os.path.islink(os.path.join(place, name)):
                yield Path(place, name)
        yield Path(place)


def _strangers(checkpoint: Path, records: Sequence[Path]) -> Iterator[Path]:
    """Files that are no records in folders of the checkpoint."""
    known = set(records)
    for folder in sorted(_FOLDERS) if known else ():
        for place, _, files in os.walk(checkpoint / folder):
            yield from (Path(place, name) for name in files if Path(place, name) not in known)


def _runs_of(checkpoint: Path) -> list[str]:
    """The names of the runs of a checkpoint, also of one that is damaged."""
    names: dict[str, None] = {}
    for file in (checkpoint / "graph.json", checkpoint / "channels.json", *sorted(checkpoint.glob("queries/*/graph.json"))):
        with suppress(OSError):
            names |= dict.fromkeys(_RUN.findall(file.read_text(encoding="utf-8", errors="replace")))
    return list(names)


def _parts(place: Path, runs: Sequence[str]) -> tuple[list[Path], int]:
    """The files of rows of some runs in a directory, and how many there are of other runs."""
    mine: list[Path] = []
    rest = 0
    for name in sorted(os.listdir(place)) if place.is_dir() else ():
        match = _PART.fullmatch(name)
        if match is not None and match[1] in runs:
            mine.append(place / name)
        elif match is not None:
            rest += 1
    return mine, rest


def _below(directory: Path) -> list[Path]:
    return [one for one in sorted(directory.iterdir()) if one.is_dir() and one.name != HIDDEN] if directory.is_dir() else []


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def _short(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) and path != here else str(path)
