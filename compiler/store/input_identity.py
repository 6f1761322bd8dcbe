"""What each source of a run reads, as its checkpoint knows it.

::

    CHECKPOINT/inputs.json     {"clicks": {"kind": "topic", "name": "clicks", "id": "vPeOCWypqUOSepEvx0cbog"}}

Places in an input mean nothing in another one: record 17 of a topic is another record when the topic was made anew. So a run that
goes on is refused where a source is given something else than it began with.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs

from tracetypes.compiler.store.small_files import write_json
from tracetypes.errors import RunError

__all__ = ["InputIdentity", "keep"]

_SHOWN: Final = {"files": "files", "topic": "topic {}", "table": "the table in {}"}


@attrs.frozen
class InputIdentity:
    """What an input is. ``kind``: ``files``, ``topic`` or ``table``; ``name``: of the topic, or the directory of the table;
    ``id``: what it is called by itself, which is another one when it was removed and made anew."""

    kind: str
    name: str = ""
    id: str = ""

    @property
    def shown(self) -> str:
        """For messages."""
        return _SHOWN[self.kind].format(self.name)

    def difference(self, now: InputIdentity) -> str | None:
        """What is not as it was."""
        if self.kind != now.kind or (self.kind == "topic" and self.name != now.name):
            return f"it began with {self.shown}, and is given {now.shown}"
        if self.id != now.id:
            return f"{self.shown} is another one than it began with: it was removed and made anew, or lies elsewhere"
        return None


def keep(checkpoint: Path, inputs: Mapping[str, InputIdentity], *, begun: bool) -> None:
    """Compare inputs by the names of their sources with those that the checkpoint knows, and write them down where they are new.
    ``begun``: has anything been read? Until then nothing is known. Raises :class:`RunError` ``TT218``."""
    note = checkpoint / "inputs.json"
    known = {name: InputIdentity(**one) for name, one in json.loads(note.read_text()).items()} if note.exists() else {}
    for name, now in inputs.items():
        difference = known[name].difference(now) if begun and name in known else None
        if difference is not None:
            raise RunError(
                "TT218",
                f"source {name!r}: {difference}",
                fix="give it what it began with, or start anew with another --checkpoint and output",
            )
    if not begun or not inputs.keys() <= known.keys():
        kept = {name: inputs.get(name) or known[name] for name in {**known, **inputs}} if begun else inputs
        write_json(note, {name: attrs.asdict(one) for name, one in kept.items()})
