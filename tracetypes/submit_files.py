"""``tracetypes submit-files DIR``: what ``spark-submit`` needs to run a dataflow where tracetypes is not installed."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from tracetypes.errors import UsageError
from tracetypes.version import VERSION

__all__ = ["write_submit_files"]

ARCHIVE: Final = "tracetypes.zip"

STARTER: Final = "job.py"

PROGRAM: Final = f'''"""Runs a dataflow under spark-submit. The arguments are those of "tracetypes run" (tracetypes {VERSION}).

    spark-submit --py-files {ARCHIVE},flows.zip {STARTER} flows:counts --input clicks=/shared/in --output counts=/shared/out
"""

import sys

from tracetypes.cli import main

if __name__ == "__main__":
    sys.exit(main(["run", "--backend", "spark", *sys.argv[1:]]))
'''

BEGINNING: Final = (1980, 1, 1, 0, 0, 0)
"""The time of all files in the archive, so that the same version makes the same archive."""


def write_submit_files(directory: str) -> list[Path]:
    """Write the archive and the starter into a directory, which is made if there is none. Returns their paths. Raises
    :class:`UsageError` ``TT402`` if the directory cannot be written."""
    place = Path(directory)
    archive, starter = place / ARCHIVE, place / STARTER
    try:
        place.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as written:
            files = dict(sorted(_files(Path(__file__).parent)))
            # Python finds folders without __init__.py by entries of their own.
            for folder in sorted({str(above) for name in files for above in PurePosixPath("tracetypes", name).parents} - {"."}):
                written.writestr(zipfile.ZipInfo(f"{folder}/", BEGINNING), b"")
            for name, file in files.items():
                about = zipfile.ZipInfo(f"tracetypes/{name}", BEGINNING)
                about.compress_type = zipfile.ZIP_DEFLATED
                written.writestr(about, file.read_bytes())
        starter.write_text(PROGRAM, encoding="utf-8")
    except OSError as error:
        why = error.strerror or str(error)
        raise UsageError("TT402", f"{directory} cannot be written: {why}", fix="give a directory you may write to") from error
    return [archive, starter]


def _files(package: Path) -> Iterator[tuple[str, Path]]:
    """The files of the package with their names in it. In a working copy two of its folders are links."""
    for folder, folders, names in os.walk(package, followlinks=True):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in names:
            if not name.endswith((".pyc", ".pyo")):
                file = Path(folder, name)
                yield file.relative_to(package).as_posix(), file
