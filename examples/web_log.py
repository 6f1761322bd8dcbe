"""Sessions of a web log: what visitors of a site did between two breaks, from the lines that a web server wrote.

    python -m examples.web_log_data DIR --visits 100000
    tracetypes run examples/web_log.py:flow --input log=DIR --output sessions=OUT/sessions --output hours=OUT/hours \\
        --output late=OUT/late

Lines are of the combined log format of Apache and nginx. Any other line is a reject. A server writes a line when the answer is
sent, so lines are out of order by up to ``DELAY``. A visit that comes later, such as one of a server whose log was shipped hours
afterwards, changes no session: it goes to the late output of the source, and the sink ``late`` counts such visits by visitor and
hour.
"""

from __future__ import annotations

import datetime as dt
import re
from functools import lru_cache

import attrs

from tracetypes import UNIT, Dataflow, Stream, U, Unit, every, sort, text_lines
from tracetypes.stdlib import (
    Session,
    Windowed,
    count,
    first,
    key_by,
    last,
    map,
    map_values,
    mean,
    session,
    struct,
    sum,
    tumbling,
)

GAP = dt.timedelta(minutes=30)
"""A visitor who does nothing for longer begins a new session."""

DELAY = dt.timedelta(minutes=2)
"""How far lines may be out of order."""

QUOTED = r'"((?:[^"\\]|\\.)*)"'
LINE = re.compile(rf'(\S+) \S+ (\S+) \[([^]]+)\] "[A-Z]+ (\S+)[^"]*" (\d{{3}}) (\d+|-) {QUOTED} {QUOTED}')
"""Host, user, time, page, status, bytes, referrer and agent."""


def parts(line: str) -> re.Match[str]:
    """A line taken apart."""
    found = LINE.fullmatch(line)
    if found is None:
        raise ValueError(f"no line of the combined log format: {line!r}")
    return found


@lru_cache(maxsize=10_000)
def instant(text: str) -> dt.datetime:
    """A time of the log, such as ``10/Oct/2000:13:55:36 -0700``. A busy server writes the same many times."""
    return dt.datetime.strptime(text, "%d/%b/%Y:%H:%M:%S %z")


@attrs.frozen
class Visit:
    """A line of the log."""

    time: dt.datetime
    page: str
    status: int
    bytes: int
    referrer: str


def visit(_: Unit, line: str) -> tuple[str, Visit]:
    """The visitor, who is the user or, without a login, the host, and the visit."""
    host, user, time, page, status, size, referrer, _agent = parts(line).groups()
    bytes = 0 if size == "-" else int(size)
    return host if user == "-" else user, Visit(instant(time), page, int(status), bytes, referrer)


@attrs.frozen
class Pages:
    """What a session is asked for."""

    pages: int
    errors: int
    first: Visit
    last: Visit
    bytes: int


PAGES = struct(
    Pages,
    pages=count(),
    errors=count(where=lambda visit: visit.status >= 400),
    first=first(by=lambda visit: visit.time),
    last=last(by=lambda visit: visit.time),
    bytes=sum(lambda visit: visit.bytes, to=int),
)


@attrs.frozen
class Stay:
    """A session of a visitor, from the first to the last page."""

    start: dt.datetime
    end: dt.datetime
    pages: int
    errors: int
    entry: str
    exit: str
    referrer: str
    bytes: int


def stay(one: Session[Pages]) -> Stay:
    """A session as a flat record."""
    of = one.value
    return Stay(one.start, one.end, of.pages, of.errors, of.first.page, of.last.page, of.first.referrer, of.bytes)


@attrs.frozen
class Summary:
    """Of the sessions of an hour. ``bounces``: those of one page."""

    sessions: int
    bounces: int
    pages: float
    bytes: int


SUMMARY = struct(
    Summary,
    sessions=count(),
    bounces=count(where=lambda stay: stay.pages == 1),
    pages=mean(lambda stay: stay.pages),
    bytes=sum(lambda stay: stay.bytes, to=int),
)


@attrs.frozen
class Hour:
    """The sessions that ended within the hour that begins at ``start``."""

    start: dt.datetime
    summary: Summary


def hour(window: Windowed[Summary]) -> Hour:
    """A window lies as much later as a session waits for its end."""
    return Hour(window.start - GAP, window.value)


def written(line: str) -> dt.datetime:
    """The time of a line."""
    return instant(parts(line)[3])


MARKERS = every(seconds=60, delay=DELAY, time=written)


def sessions_of(lines: Stream[U[Unit, str]]) -> Stream[U[str, Stay]]:
    """Each when its visitor has done nothing for longer than the gap."""
    visits = lines.through(map(visit)).through(sort(by=lambda visit: visit.time))
    return visits.through(session(PAGES, gap=GAP, time=lambda visit: visit.time)).through(map_values(stay))


flow = Dataflow("web-log")
lines = flow.source("log", U[Unit, str], format=text_lines(), markers=MARKERS)
sessions = sessions_of(lines)
together = sessions.through(key_by(lambda *_: UNIT, to=Unit))
hours = together.through(tumbling(SUMMARY, size=3600, offset=GAP, ends=True)).through(map_values(hour))
late = lines.late().through(map(visit)).through(tumbling(count(), size=3600))
flow.sink("sessions", sessions)
flow.sink("hours", hours)
flow.sink("late", late)
