"""Which blocks were sent: where a reader begins, and what ends the channel for one that leaves."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from tracetypes.compiler.local.log import LocalLog, Takes
from tracetypes.compiler.store.sent_blocks import BEGINNING, SentBlocks


def test_a_reader_begins_behind_every_block_that_has_had_a_row() -> None:
    sent = SentBlocks(period=10)
    assert sent.behind == BEGINNING
    sent = sent.later((30, 70), None)
    assert sent.behind == 70
    sent = sent.later((20, 40), 60)
    assert sent.behind == 70
    sent = sent.later(None, 90)
    assert sent.behind == 90
    assert SentBlocks.of({"sent": sent.plain}) == sent
    assert SentBlocks.of({}).behind == BEGINNING


def test_a_channel_that_is_left_closes_what_is_open_and_falls_silent() -> None:
    assert SentBlocks(period=10).ending({10: 2}) == {"batch": -1, "markers": [], "complete": True, "silence": []}
    sent = SentBlocks(first=30, last=70, period=10)
    assert list(sent.open) == [30, 40, 50, 60, 70]
    assert list(sent.later(None, 50).open) == [60, 70]
    assert not sent.later(None, 70).open
    ending = sent.later(None, 50).ending({10: 2, 25: 1})
    assert ending["markers"] == [[60, 71, 10]]
    assert ending["silence"] == [[80, 100, 10], [75, 100, 25]]


def test_a_kill_while_the_log_of_epochs_is_made_leaves_an_empty_one(tmp_path: Path) -> None:
    """SQLite makes the file before its tables, which are made together."""
    (tmp_path / "local").mkdir()
    with closing(sqlite3.connect(tmp_path / "local" / "epochs.db")) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    assert (tmp_path / "local" / "epochs.db").stat().st_size
    log = LocalLog(tmp_path)
    assert (log.begun, log.ended) == (-1, -1)
    log.begin(0, Takes({}, [], drain=False))
    assert LocalLog(tmp_path).begun == 0
    log.close()
