"""The dataflow of :mod:`benchmarks.soak`. Imports only what a user's program would, so that memory is that of a run."""

from __future__ import annotations

import attrs

from benchmarks._counts import CountAndMean, Event
from tracetypes import Dataflow, U, every, kafka
from tracetypes.stdlib import map_values

DELAY = 0.2
"""Seconds that records may come late."""


@attrs.frozen
class Record:
    """A record: its time in milliseconds."""

    key: int
    value: int
    ts: int


flow = Dataflow("soak")
markers = every(seconds=1, time=lambda record: record.ts, unit="ms", delay=DELAY)
events = flow.source("events", U[int, Record], key=lambda record: record.key, markers=markers, format=kafka())
values = events.through(map_values(lambda record: Event(record.value, record.ts), to=Event))
flow.sink("running", values.through(CountAndMean()))
