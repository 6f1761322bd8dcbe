"""The identities of the inputs and outputs of a run, kept in its checkpoint.

::

    CHECKPOINT/inputs.json     {"clicks": {"kind": "topic", "name": "clicks", "id": "vPeOCWypqUOSepEvx0cbog"}}
    CHECKPOINT/outputs.json    {"totals": {"kind": "table", "name": "/data/totals", "id": "4e1c..."}}

An offset of one input means nothing in another one: record 17 is another record if the topic was made anew. Earlier
answers are in the old output, and not in another one. So a run that goes on is refused if a source or sink has another
input or output than it began with.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from tracetypes.compiler.connectors.endpoint_identity import EndpointIdentity
from tracetypes.compiler.connectors.registry import difference
from tracetypes.compiler.store.places import Place
from tracetypes.compiler.store.small_files import damaged, read_json, write_json
from tracetypes.errors import RunError

__all__ = ["keep_identities"]

def keep_identities(note: Place, what: str, identities: Mapping[str, EndpointIdentity], *, begun: bool) -> None:
    """Compare the inputs or outputs, by the names of sources or sinks, with those that a checkpoint has in ``note``,
    and record new ones. ``what``: ``source`` or ``sink``. ``begun``: whether anything has been read; before that
    nothing is recorded. Raises :class:`RunError` ``TT218``."""
    known = read_json(note)
    if known is None and begun and what == "source":
        raise damaged(note, "it is gone", "which inputs the run has read")
    before = {name: EndpointIdentity(**one) for name, one in (known or {}).items()}
    for name, now in identities.items():
        changed = difference(before[name], now) if begun and name in before else None
        if changed is not None:
            raise RunError(
                "TT218",
                f"{what} {name!r}: {changed}",
                fix="give it what it began with, or start anew with another --checkpoint and output",
            )
    if not begun or not identities.keys() <= before.keys():
        all_of_them = {name: identities.get(name) or before[name] for name in {**before, **identities}} if begun else identities
        write_json(note, {name: attrs.asdict(one) for name, one in all_of_them.items()})
