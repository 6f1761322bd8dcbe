"""Late and rejected rows of a source that flows share. They are stored once, beside the segment of the source, and every flow
that needs the source finds those that came since its submit in its own outputs.

::

    WORKSPACE/aside/1-0/late/clicks/part-RUN-00000007-0000.jsonl      as the segment wrote it, in its epoch 7
    OUTPUT/_late/clicks/part-RUN-00000007-0000.jsonl                  the same file, in the output of each flow

It is one file with several names where the file system allows that, and a copy elsewhere. A file appears whole, and its name says
the run and the epoch, so nothing is there twice after a kill.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

__all__ = ["deliver_side_rows"]


def deliver_side_rows(aside: Path, epochs: Mapping[str, range], outputs: Iterable[Path]) -> None:
    """Put the late and rejected rows of some segments into outputs. ``epochs``: by segment, those whose rows concern the flow.
    ``outputs``: directories."""
    for segment, wanted in epochs.items():
        for kind in ("late", "rejects"):
            for folder in _below(aside / segment / kind):
                for file in sorted(folder.iterdir()):
                    if file.name.startswith("part-") and _epoch(file) in wanted:
                        for output in outputs:
                            _link(file, output / f"_{kind}" / folder.name / file.name)


def _below(folder: Path) -> list[Path]:
    return sorted(one for one in folder.iterdir() if one.is_dir()) if folder.is_dir() else []


def _epoch(file: Path) -> int:
    """The epoch of a file of rows ``part-RUN-EPOCH-NUMBER``."""
    return int(file.name.split("-")[2])


def _link(file: Path, to: Path) -> None:
    if to.exists():
        return
    to.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(file, to)
    except FileExistsError:
        return
    except OSError:  # another file system, or one without links
        part = to.with_name(f".{to.name}.{os.getpid()}")
        with suppress(FileNotFoundError):  # the segment has gone meanwhile
            shutil.copyfile(file, part)
            os.replace(part, to)
