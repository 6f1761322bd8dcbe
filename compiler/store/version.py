"""The format of a checkpoint, which decides whether this version of tracetypes can read it.

::

    CHECKPOINT/format.json     {"format": 1, "tracetypes": "0.1.0"}: the format, and which version of ours wrote it;
                               with "removal": true, ``--overwrite`` removes the checkpoint

It is the first file of a checkpoint, and is read before anything else. A checkpoint of another format is refused. To
migrate a format, add the migration to :func:`look`.
"""

from __future__ import annotations

import json

from tracetypes.compiler.connectors.store_errors import StoreError
from tracetypes.compiler.store.places import Place
from tracetypes.compiler.store.small_files import read_json, unreachable, write_json
from tracetypes.errors import RunError
from tracetypes.version import VERSION

__all__ = ["FORMAT", "begin_removal", "look", "stamp"]

FORMAT = 11
"""Raise it when anything that a checkpoint holds changes its layout or its meaning: pickled states, ``graph.json``,
``program.json``, commit records, manifests of channels, what Spark's state stores and offsets hold of ours."""

EARLIER = frozenset({10})
"""Formats that are read too, and become FORMAT when a run goes on. 10 has no logs of states, and its as-of joins are other
classes, which the fingerprint of a plan tells apart."""

_FILE = "format.json"

_CONTENTS = ("graph.json", "program.json", "channels.json", "commits", "spark", "local", "queries", "inputs")
"""What else a checkpoint may begin with: a directory with none of these is none yet."""


def look(path: Place) -> None:
    """Compare the format of a checkpoint, if there is one. Raises :class:`RunError` ``TT220``."""
    try:
        about = json.loads((path / _FILE).read_bytes())
        number, writer = int(about["format"]), f"tracetypes {about['tracetypes']}"
    except FileNotFoundError:
        if any((path / name).exists() for name in _CONTENTS):
            raise _other(path, "no format", "an older tracetypes") from None
        return
    except NotADirectoryError:
        return  # whoever makes the checkpoint says that it cannot be written
    except StoreError as error:
        raise unreachable(path, error) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _other(path, f"a {_FILE} that cannot be read ({error})", "something else") from error
    if about.get("removal"):
        raise RunError(
            "TT220",
            f"the checkpoint {path} is half removed: a run with --overwrite was stopped while it removed the earlier run",
            fix="run it again with --overwrite",
        )
    if number not in (FORMAT, *EARLIER):
        raise _other(path, f"format {number}", writer)


def stamp(path: Place) -> None:
    """Write the format into a checkpoint that is new, or of an earlier format."""
    if (read_json(path / _FILE) or {}).get("format") != FORMAT:
        write_json(path / _FILE, {"format": FORMAT, "tracetypes": VERSION})


def begin_removal(path: Place) -> None:
    """Write into a checkpoint that it is about to be removed, so that no run goes on with what is left of it."""
    write_json(path / _FILE, {"format": FORMAT, "tracetypes": VERSION, "removal": True})


def _other(path: Place, what: str, writer: str) -> RunError:
    return RunError(
        "TT220",
        f"the checkpoint {path} has {what}, written by {writer}; tracetypes {VERSION} reads format {FORMAT}",
        fix="go on with the version that wrote it, or start anew with another --checkpoint and output",
    )
