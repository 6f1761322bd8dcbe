"""What each source of a run reads and each sink writes, as its checkpoint knows it.

::

    CHECKPOINT/inputs.json     {"clicks": {"kind": "topic", "name": "clicks", "id": "vPeOCWypqUOSepEvx0cbog"}}
    CHECKPOINT/outputs.json    {"totals": {"kind": "table", "name": "/data/totals", "id": "4e1c..."}}

Places in an input mean nothing in another one: record 17 of a topic is another record when the topic was made anew. What was
answered lies in the output, and is not in another one. So a run that goes on is refused where a source or sink is given
something else than it began with.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import attrs

from tracetypes.compiler.connectors.identity import Identity
from tracetypes.compiler.connectors.registry import difference
from tracetypes.compiler.store.small_files import read_json, write_json
from tracetypes.errors import RunError

__all__ = ["keep"]

def keep(note: Path, what: str, given: Mapping[str, Identity], *, begun: bool) -> None:
    """Compare what is given by the names of sources or sinks with what a checkpoint knows in ``note``, and write down what is
    new. ``what``: ``source`` or ``sink``; ``begun``: has anything been read? Until then nothing is known. Raises
    :class:`RunError` ``TT218``."""
    known = {name: Identity(**one) for name, one in (read_json(note) or {}).items()}
    for name, now in given.items():
        changed = difference(known[name], now) if begun and name in known else None
        if changed is not None:
            raise RunError(
                "TT218",
                f"{what} {name!r}: {changed}",
                fix="give it what it began with, or start anew with another --checkpoint and output",
            )
    if not begun or not given.keys() <= known.keys():
        kept = {name: given.get(name) or known[name] for name in {**known, **given}} if begun else given
        write_json(note, {name: attrs.asdict(one) for name, one in kept.items()})
