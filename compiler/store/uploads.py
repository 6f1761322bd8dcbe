"""Files of a worker that become objects of a store when they are whole."""

from __future__ import annotations

import json
import shutil
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, final

from tracetypes.compiler.connectors.object_writes import in_parallel, put_if, read_note, upload
from tracetypes.compiler.connectors.partitioned_files import files_in
from tracetypes.compiler.connectors.sink_files import SinkFile

__all__ = ["FILES", "Upload", "files_below"]

FILES = "files.json"
"""The object beside the files of a directory that has their names."""


@final
class Upload:
    """A file for rows (:class:`SinkFile`) on the disk of the worker, or a directory of files in folders. ``address``: of the
    object, or of their folder. ``opens``: opens it at a path."""

    def __init__(self, address: str, opens: Callable[[str], SinkFile]) -> None:
        self.address, self.place = address, Path(tempfile.mkdtemp(prefix="tracetypes-upload-"))
        self._remove = weakref.finalize(self, shutil.rmtree, self.place, ignore_errors=True)
        self.file = opens(str(self.place / "rows"))
        self.codes = self.file.codes

    def write(self, batch: Any) -> None:
        """As for :class:`SinkFile`."""
        self.file.write(batch)

    def close(self) -> None:
        """Send it."""
        try:
            self.file.close()
            rows = self.place / "rows"
            if rows.is_file():
                upload(rows, self.address)
                return
            names = {str(folder / file.name): file for file, folder in files_in(rows)}
            in_parallel(upload, [(file, f"{self.address}/{name}") for name, file in names.items()])
            put_if(f"{self.address}/{FILES}", json.dumps([*names]).encode(), None)
        finally:
            self._remove()

    def abandon(self) -> None:
        """Send nothing."""
        try:
            self.file.close()
        finally:
            self._remove()


def files_below(address: str) -> list[str]:
    """The names of the files of a directory that was sent. A listing may not have them yet. Raises :class:`OSError`."""
    note = read_note(f"{address}/{FILES}")
    if note is None:
        raise FileNotFoundError(f"{address}/{FILES} does not exist")
    names: list[str] = json.loads(note.content)
    return names
