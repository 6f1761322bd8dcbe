"""Secrets, wherever a parameter can stand, reach neither what is printed nor what is drawn."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetypes import RunError, UsageError, redaction
from tracetypes.redaction import conceal, redact, redact_passwords

ROOT = Path(__file__).resolve().parent.parent

PASSWORDS = [
    "postgres://user:{}@db:5432/plant",
    "postgresql+psycopg://user:{}@db/plant?sslmode=require",
    "kafka://broker:9092/topic?password={}",
    "kafka://user:{}@broker:9092/topic?config=file",
    "host=db user=reader password={} dbname=plant",
    "host=db password='{}' dbname=plant",
    "sasl.password={}",
    "sasl.password = {}",
    "ssl.key.password={}",
    'sasl.jaas.config=PlainLoginModule required username="a" password="{}";',
    "Login(user='a', password='{}')",
    "{{'user': 'a', 'password': '{}'}}",
    '{{"api_key": "{}"}}',
    "AWS_SECRET={}&x=1",
    "token={}",
]


@pytest.mark.parametrize("text", PASSWORDS)
@pytest.mark.parametrize("password", ["hunter2", "p@ss:w0rd", "a.b-c_d%20e"])
def test_passwords_are_known_by_how_they_are_written(text: str, password: str) -> None:
    made = redact_passwords(f"before {text.format(password)} behind")
    assert password not in made
    assert "***" in made
    assert made.startswith("before ")
    assert made.endswith(" behind")
    assert redact_passwords(made) == made
    assert password not in str(RunError("TT208", f"{text.format(password)} cannot be read", fix=text.format(password)))


@pytest.mark.parametrize(
    "text",
    [
        "kafka://broker:9092,other:9093/topic?records=5",
        "parameter delay: was 5, is 6",
        "the password is wrong",
        "field token: found 3, expected str",
        "see https://example.org:80/a@b",
        "delta:/tmp/a=b",
    ],
)
def test_other_text_stays(text: str) -> None:
    assert redact_passwords(text) == text


def test_what_was_concealed_is_found_anywhere() -> None:
    conceal("host=db password='correct horse'")
    assert redact("FATAL: correct horse is no password") == "FATAL: *** is no password"
    assert "horse" not in str(UsageError("TT402", "correct horse", fix="correct horse"))


FLOW = """
import dataclasses, functools, attrs
from tracetypes import Dataflow, OpKeyedUnordered, OpStateless, U, every, kafka
from tracetypes.stdlib import Postgres, lookup_join



@attrs.frozen
class Row:
    id: str
    ts: int

@attrs.frozen
class Login:
    user: str
    secret_word: str = attrs.field(repr=False)

@dataclasses.dataclass(frozen=True)
class Data:
    hidden: str = dataclasses.field(repr=False)

@attrs.frozen
class Mapped(OpStateless[str, Row, str, Row]):
    hidden: str = attrs.field(repr=False)
    login: Login
    data: Data
    url: str
    table: dict
    several: tuple = attrs.field(repr=False)

    def on_item(self, key, value, emit):
        emit(key, value)

@attrs.frozen
class Counted(OpKeyedUnordered[str, Row, str, int, int, int]):
    hidden: str = attrs.field(repr=False)
    login: Login
    url: str

    def lift(self, key, value): return 1
    def identity(self): return 0
    def combine(self, a, b): return a + b
    def initial_state(self): return 0
    def update_state(self, state, agg): return state + agg
    def on_marker(self, new_state, key, marker, emit): emit(key, new_state)

flow = Dataflow("secret")
rows = flow.source("rows", U[str, Row], key=lambda v: v.id, markers=every(seconds=5, time=lambda v: v.ts))
mapped = Mapped("PLANTED-1", Login("u", "PLANTED-2"), Data("PLANTED-3"), "postgres://u:PLANTED-4@db/x",
                dict(password="PLANTED-5"), ("PLANTED-6", b"PLANTED-7"))
rooms = Postgres(connection="host=db password=PLANTED-8", table="t", key="id", row=Login)
joined = rows.through(mapped).through(lookup_join(rooms, by=lambda k, v: k, combine=lambda v, row: v, to=Row))
flow.sink("out", joined.through(Counted("PLANTED-9", Login("u", "PLANTED-10"), "https://u:PLANTED-11@x/y")))
"""


def ran(path: Path, *arguments: str) -> str:
    made = subprocess.run(
        [sys.executable, "-m", "tracetypes.cli", *arguments],
        cwd=path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    return made.stdout + made.stderr


def test_nothing_that_was_planted_is_said_or_drawn(tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text(FLOW)
    said = [ran(tmp_path, "explain", "flow.py", "-p", "2")]
    assert "Counted" in said[0]
    for ending in ("svg", "html"):
        said.append(ran(tmp_path, "graph", "flow.py", "-o", f"flow.{ending}"))
        said.append((tmp_path / f"flow.{ending}").read_text())
    assert "Mapped" in said[2]
    said.append(ran(tmp_path, "check", "flow.py"))
    assert "no violations" in said[-1]
    assert not [text for text in said if "PLANTED" in text]


def test_an_import_that_fails_says_no_secret(tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text("raise ValueError('postgres://u:PLANTED-1@db and password=PLANTED-2')")
    said = ran(tmp_path, "check", "flow.py")
    assert "TT403" in said
    assert "PLANTED" not in said


@given(
    name=st.from_regex(redaction._NAMES, fullmatch=True),
    large=st.booleans(),
    written=st.sampled_from(["{}=hush-hush", "'{}': 'hush-hush'"]),
)
def test_what_the_patterns_find_holds_one_of_the_words(name: str, large: bool, written: str) -> None:
    """Texts without any of the words are not searched."""
    shown = redact_passwords(f"a {written.format(name.upper() if large else name)} b")
    assert "hush-hush" not in shown
