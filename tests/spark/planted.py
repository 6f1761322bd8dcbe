"""Dataflows with secrets wherever a parameter can stand. ``SEEN`` marks what may be shown: that the search finds things."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from tests.spark.flows import TEN, Reading, Sum, id_of
from tracetypes import Dataflow, OpStateless, U
from tracetypes.stdlib import Postgres, lookup_join


@attrs.frozen
class Login:
    """A user with a secret."""

    user: str
    word: str = attrs.field(repr=False)


@attrs.frozen
class Mapped(OpStateless[str, Reading, str, Reading]):
    """Its author puts secrets into a message when it meets 13 watts."""

    hidden: str = attrs.field(repr=False)
    login: Login
    url: str

    def on_item(self, key: str, value: Reading, emit: Callable[[str, Reading], None]) -> None:
        if value.watts == 13:
            raise ValueError(f"SEEN-3: no answer from {self.url} for {self.hidden}, {self.login.word}")
        emit(key, value)


@attrs.frozen
class Counted(Sum):
    """What a checkpoint compares: shown, hidden, and hidden further down."""

    label: str
    hidden: str = attrs.field(repr=False)
    login: Login
    url: str
    options: tuple[str, ...]


def told(word: str) -> Dataflow:
    """``word``: another secret makes another graph."""
    flow = Dataflow("planted")
    rows = flow.source("readings", U[str, Reading], key=id_of, markers=TEN)
    mapped = rows.through(Mapped("PLANTED-1", Login("u", "PLANTED-2"), "postgres://u:PLANTED-3@db/x"))
    url, options = "https://u:PLANTED-4@x/y", ("password=PLANTED-5", "host=db")
    flow.sink("sums", mapped.through(Counted("SEEN-1", word, Login("u", "PLANTED-7"), url, options)), marker="at")
    return flow


flow = told("PLANTED-6")
other = told("PLANTED-8")

# Port 1 of this machine: nobody listens there.
rooms = Postgres(
    connection="host=127.0.0.1 port=1 user=SEEN-4 password=PLANTED-9 dbname=x connect_timeout=2",
    table="rooms",
    key="id",
    row=Login,
)
asking = Dataflow("asking")
_rows = asking.source("readings", U[str, Reading], key=id_of, markers=TEN)
asking.sink("sums", _rows.through(lookup_join(rooms, by=lambda k, v: k, combine=lambda v, row: v, to=Reading)))
