"""Rows of a sink as objects of a store: each once, whatever is killed and whatever the store does."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

import attrs
import pytest
from obstore.store import LocalStore

from tests.spark.test_exactly_once import Crash
from tests.store_server import KEY, SECRET, Request, Server, after, bucket_of, lagging, refused
from tests.test_object_stores import ROWS, Click, as_json
from tracetypes import Dataflow, RunError, TraceTypesError, U, Unit, UsageError, csv, every, json_lines, parquet, run
from tracetypes.compiler.connectors import object_writes
from tracetypes.compiler.connectors.object_writes import in_parallel, put_if, read_note, remove_objects
from tracetypes.compiler.store import object_output, uploads
from tracetypes.compiler.store.object_output import ObjectOutput
from tracetypes.compiler.store.run_store import RunStore
from tracetypes.formats import Format
from tracetypes.stdlib import aggregate, count, key_by


def clicks(format: Format | None = None, partition_by: str = "") -> Dataflow:
    flow = Dataflow("clicks")
    rows = flow.source("clicks", U[Unit, Click], markers=every(seconds=10, time=lambda click: click.ts))
    flow.sink("clicks", rows, format=format, partition_by=[partition_by] if partition_by else [])
    return flow


def counts() -> Dataflow:
    flow = Dataflow("counts")
    rows = flow.source("clicks", U[Unit, Click], markers=every(seconds=10, time=lambda click: click.ts))
    flow.sink("clicks", rows.through(key_by(lambda key, click: click.page, to=str)).through(aggregate(count())), marker="until")
    return flow


@pytest.fixture
def server(object_server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    return bucket_of(object_server, monkeypatch)


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    place = tmp_path / "in"
    place.mkdir()
    for at in range(5):
        (place / f"{at}.jsonl").write_bytes(as_json(ROWS[at * 20 : at * 20 + 20]))
    return place


def go(flow: Dataflow, inputs: Path, output: str, checkpoint: Path, **options: Any) -> Any:
    return run(
        flow,
        {"clicks": inputs},
        {"clicks": output},
        backend="local",
        checkpoint=checkpoint,
        files_per_step=1,
        late=str(checkpoint) + "-late",
        rejects=str(checkpoint) + "-rejects",
        **options,
    )


def shown(server: Server) -> list[str]:
    """The objects that a plain listing of the output shows."""
    return [key for key in server.keys("out") if "_tracetypes" not in key]


def lines(server: Server) -> list[Any]:
    return sorted((json.loads(line) for key in shown(server) for line in server.content(key).splitlines()), key=repr)


def on_disk(flow: Dataflow, inputs: Path, tmp_path: Path) -> list[Any]:
    """The rows of the same run on a disk."""
    go(flow, inputs, str(tmp_path / "disk"), tmp_path / "disk-checkpoint")
    files = [one for one in (tmp_path / "disk").glob("part-*")]
    return sorted((json.loads(line) for file in files for line in file.read_text().splitlines()), key=repr)


@pytest.fixture
def staged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers send all rows, however few."""
    real = ObjectOutput.__init__

    def made(self: ObjectOutput, *arguments: Any) -> None:
        real(self, *arguments)
        self.delivery = attrs.evolve(self.delivery, inline=0)

    monkeypatch.setattr(ObjectOutput, "__init__", made)


# --------------------------------------------------------------------------------------------------------- rows


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("inline", [True, False])
def test_the_rows_are_those_of_a_disk(
    server: Server, inputs: Path, tmp_path: Path, parallelism: int, inline: bool, request: pytest.FixtureRequest
) -> None:
    if not inline:
        request.getfixturevalue("staged")
    go(counts(), inputs, server.address("out"), tmp_path / "checkpoint", parallelism=parallelism)
    assert lines(server) == on_disk(counts(), inputs, tmp_path)
    assert all("-clicks-000000" in key for key in shown(server))
    assert not [key for key in server.keys("out") if "staged" in key]


@pytest.mark.parametrize("format", [csv(), parquet(), json_lines()])
@pytest.mark.usefixtures("staged")
def test_formats(server: Server, inputs: Path, tmp_path: Path, format: Format) -> None:
    go(clicks(format), inputs, server.address("out/"), tmp_path / "checkpoint")
    for key in shown(server):
        (tmp_path / Path(key).name).write_bytes(server.content(key))
    back: list[Any] = []
    run(clicks(), {"clicks": server.address("out")}, {"clicks": back}, backend="local", order={"clicks": "time"})
    assert sorted(back, key=repr) == sorted(ROWS, key=repr)


@pytest.mark.parametrize("inline", [True, False])
def test_folders(server: Server, inputs: Path, tmp_path: Path, inline: bool, request: pytest.FixtureRequest) -> None:
    if not inline:
        request.getfixturevalue("staged")
    go(clicks(partition_by="page"), inputs, server.address("out"), tmp_path / "checkpoint")
    assert {key.split("/")[1] for key in shown(server)} == {f"page=page {at}" for at in range(7)}
    assert len(lines(server)) == 100


def test_late_rows_and_rejects_go_to_directories(server: Server, inputs: Path, tmp_path: Path) -> None:
    (inputs / "9.jsonl").write_text('{"ts": 1, "page": "late"}\nno json\n')
    result = go(clicks(), inputs, server.address("out"), tmp_path / "checkpoint")
    assert (result.late, result.rejects) == ({"clicks": 1}, {"clicks": 1})
    assert len(list((tmp_path / "checkpoint-late").rglob("part-*"))) == 1
    assert len(list((tmp_path / "checkpoint-rejects").rglob("part-*"))) == 1


# ------------------------------------------------------------------------------------------------- what is refused


def test_TT402_without_a_checkpoint(server: Server, inputs: Path) -> None:
    with pytest.raises(UsageError, match=r"TT402.*keeps no checkpoint"):
        run(clicks(), {"clicks": inputs}, {"clicks": server.address("out")}, backend="local")


def test_TT402_a_web_server_takes_no_rows(inputs: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="TT402 --output https://host/out: nothing is written to https://"):
        go(clicks(), inputs, "https://host/out", tmp_path / "checkpoint")


@pytest.mark.parametrize(("read", "written"), [("x", "x"), ("x", "x/out"), ("x/in", "x"), ("x/in", "x/")])
def test_TT222_what_is_written_is_not_read(server: Server, tmp_path: Path, read: str, written: str) -> None:
    server.put(f"{read}/a.jsonl", as_json(ROWS))
    with pytest.raises(UsageError, match="TT222"):
        go(clicks(), server.address(read), server.address(written), tmp_path / "c")  # type: ignore[arg-type]
    go(clicks(), server.address(read), server.address(f"{read}-out"), tmp_path / "c")  # type: ignore[arg-type]


def test_TT209_says_what_the_store_answers_and_no_secret(server: Server, inputs: Path, tmp_path: Path) -> None:
    def writes(request: Request) -> bool:
        return request.method == "PUT"

    with server.failing(refused(403, "AccessDenied", writes)), pytest.raises(RunError, match=r"TT209.*refuses access") as caught:
        go(clicks(), inputs, server.address("out"), tmp_path / "checkpoint")
    told = "".join(traceback.format_exception(caught.value))
    assert SECRET not in told
    assert KEY not in told
    with pytest.raises(RunError, match=r"TT209.*NoSuchBucket"):
        go(clicks(), inputs, "s3://missing-bucket/out", tmp_path / "checkpoint")


def test_TT209_another_driver_with_a_copy_of_the_checkpoint(server: Server, inputs: Path, tmp_path: Path) -> None:
    first = inputs / "9.jsonl"
    go(clicks(), inputs, server.address("out"), tmp_path / "one", drain=False)
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    first.write_bytes(as_json([Click(200, "a")]))
    go(clicks(), inputs, server.address("out"), tmp_path / "two", drain=False)
    with pytest.raises(RunError, match=r"TT209|TT227"):
        go(clicks(), inputs, server.address("out"), tmp_path / "one", drain=False)
    assert len(lines(server)) == 101


def test_TT209_another_driver_that_writes_the_same_epoch_first(server: Server, inputs: Path, tmp_path: Path) -> None:
    done: list[str] = []

    def first(request: Request, real: Any) -> None:
        if request.method == "PUT" and request.path.endswith("epochs/00000002.json") and not done:
            done.append(request.path.removeprefix(f"/{server.bucket}/"))
            server.put(done[0], '{"start": 1, "parts": []}')

    with server.failing(first), pytest.raises(RunError, match=r"TT209 .* another driver"):
        go(clicks(), inputs, server.address("out"), tmp_path / "checkpoint")
    with pytest.raises(RunError, match=r"TT209 .* another driver"):
        go(clicks(), inputs, server.address("out"), tmp_path / "checkpoint")
    assert len(lines(server)) == 40


def test_a_driver_that_is_shut_out_removes_nothing(
    server: Server, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one has taken the epoch between its look at the note and its own note. The parts have the same names."""
    done: list[str] = []

    def first(request: Request, real: Any) -> None:
        if request.method == "PUT" and "/epochs/" in request.path and not done:
            done.append(request.path.removeprefix(f"/{server.bucket}/"))
            server.put(done[0], '{"start": 7, "parts": []}')

    def crash(*_: Any) -> None:
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(RunStore, "commit", crash)
        with pytest.raises(RunError, match="Crash"):
            go(clicks(), inputs, server.address("out"), tmp_path / "checkpoint")
    before = shown(server)
    assert before
    with server.failing(first), pytest.raises(RunError, match=r"TT209 .* another driver"):
        go(clicks(), inputs, server.address("out"), tmp_path / "checkpoint")
    assert shown(server) == before


def test_TT209_a_driver_behind_which_the_run_was_started_again(server: Server, inputs: Path, tmp_path: Path) -> None:
    """The other one is so far that it has no note of the next epoch any more."""

    def is_part(request: Request) -> bool:
        return request.method == "PUT" and "-00000001-" in request.path

    def other_starts() -> None:
        (note,) = (key for key in server.keys("out") if key.endswith("/start.json"))
        server.put(note, '{"start": 7}')

    with server.failing(after(is_part, other_starts)), pytest.raises(RunError, match=r"TT209 .* another driver .* started later"):
        go(clicks(), inputs, server.address("out"), tmp_path / "checkpoint")
    assert len(lines(server)) == 40
    assert not [key for key in server.keys("out") if "00000002" in key]


def test_TT209_two_drivers_that_start_at_the_same_time(server: Server, inputs: Path, tmp_path: Path) -> None:
    def is_start(request: Request) -> bool:
        return request.method == "PUT" and request.path.endswith("/start.json")

    def other_starts() -> None:
        request = next(one for one in server.requests if is_start(one))
        server.put(request.path.removeprefix(f"/{server.bucket}/"), '{"start": 7}')

    with server.failing(after(is_start, other_starts)), pytest.raises(RunError, match=r"TT209 .* another driver .* same time"):
        go(clicks(), inputs, server.address("out"), tmp_path / "checkpoint")
    assert shown(server) == []


@pytest.mark.usefixtures("staged")
def test_a_listing_that_lags_hides_nothing_that_workers_have_sent(server: Server, inputs: Path, tmp_path: Path) -> None:
    """Rows in folders, and late rows. Nothing of them stays either."""
    (inputs / "9.jsonl").write_text('{"ts": 1, "page": "late"}\n')
    with server.failing(lagging(re.compile("[^<]*/staged/[^<]*"))):
        result = go(clicks(partition_by="page"), inputs, server.address("out"), tmp_path / "checkpoint")
    assert (len(lines(server)), result.late) == (100, {"clicks": 1})
    assert [key for key in server.keys("out") if "staged" in key] == []


# -------------------------------------------------------------------------------------------------- small objects


def test_a_note_has_the_tag_and_the_version(server: Server) -> None:
    """Some stores compare one, some the other."""
    status = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
    about = {"Content-Type": "text/xml"}
    urlopen(urllib.request.Request(f"{server.url}/{server.bucket}?versioning=", status, about, method="PUT")).close()
    assert put_if(server.address("note"), b"1", None)
    note = read_note(server.address("note"))
    assert note is not None
    assert note.version.keys() == {"e_tag", "version"}
    assert put_if(server.address("note"), b"2", note)
    assert not put_if(server.address("note"), b"3", note)
    assert server.content("note") == b"2"


def test_objects_that_are_gone_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a store that stops at the first that is not there: here a directory is one."""
    monkeypatch.setattr(object_writes, "client", lambda place: LocalStore(tmp_path))
    for name in ("a", "c"):
        (tmp_path / name).write_text("")
    remove_objects([f"s3://bucket/{name}" for name in ("a", "b", "c")])
    assert list(tmp_path.iterdir()) == []


def test_nothing_goes_on_behind_an_error() -> None:
    done = threading.Event()

    def do(fails: bool) -> None:
        if fails:
            raise OSError("first")
        time.sleep(0.1)
        done.set()

    with pytest.raises(OSError, match="first"):
        in_parallel(do, [(True,), (False,)])
    assert done.is_set()


def test_TT402_the_endpoint_of_an_output(
    server: Server, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "127.0.0.1:9000")
    with pytest.raises(UsageError, match="TT402 AWS_ENDPOINT_URL is no address of a server"):
        go(clicks(), inputs, server.address("out"), tmp_path / "checkpoint")


# ------------------------------------------------------------------------------------------------------- crashes

STEPS: Final[list[tuple[Any, str]]] = [
    (ObjectOutput, "begin"),
    (ObjectOutput, "take"),
    (ObjectOutput, "tidy"),
    (object_output, "put_if"),
    (object_output, "upload"),
    (object_output, "copy_object"),
    (object_output, "remove_objects"),
    (uploads.Upload, "close"),
    (RunStore, "commit"),
]


@contextmanager
def crashing_at(place: int | None) -> Iterator[list[str]]:
    """A context in which a step crashes, before or after it; as in ``tests/local/test_crashes.py``."""
    places: list[str] = []

    def wrapped(owner: Any, name: str) -> Callable[..., Any]:
        real = getattr(owner, name)

        def at(when: str) -> None:
            places.append(f"{when} {name}")
            if place is not None and len(places) == place + 1:
                raise Crash

        def call(*args: Any, **options: Any) -> Any:
            at("before")
            result = real(*args, **options)
            at("after")
            return result

        return call

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in STEPS:
            patch.setattr(owner, name, wrapped(owner, name))
        yield places


@pytest.mark.usefixtures("staged")
@pytest.mark.parametrize(("part", "of"), [(0, 9), *(pytest.param(at, 9, marks=pytest.mark.nightly) for at in range(1, 9))])
def test_a_crash_at_each_step(server: Server, inputs: Path, tmp_path: Path, part: int, of: int) -> None:
    flow, expected = counts(), on_disk(counts(), inputs, tmp_path)
    with crashing_at(None) as places:
        go(flow, inputs, server.address("out"), tmp_path / "count", parallelism=2, key_groups=4)
    assert len(places) > 60
    assert lines(server) == expected
    crashed = 0
    for place in range(part, len(places), of):
        bucket_of(server, pytest.MonkeyPatch())
        again = partial(go, flow, inputs, server.address("out"), tmp_path / str(place), key_groups=4)
        with crashing_at(place):
            try:
                again(parallelism=2)  # then an epoch has fewer parts
            except (Crash, TraceTypesError) as error:
                crashed += "Crash" in f"{type(error).__name__} {error}"
        try:
            again()
        except TraceTypesError as error:
            if error.code != "TT212":  # else the crash came when all was done
                raise
        assert lines(server) == expected, places[place]
        assert not [key for key in server.keys("out") if "staged" in key]
    assert crashed > 5


FLOW = """
import attrs
from tracetypes import Dataflow, U, Unit, every
from tracetypes.stdlib import aggregate, count, key_by


@attrs.frozen
class Click:
    ts: int
    page: str
    day: str | None = None


flow = Dataflow("counts")
rows = flow.source("clicks", U[Unit, Click], markers=every(seconds=10, time=lambda click: click.ts))
flow.sink("clicks", rows.through(key_by(lambda key, click: click.page, to=str)).through(aggregate(count())), marker="until")
"""


def killed(server: Server, tmp_path: Path, backend: str, requests: int) -> bool:
    """Run in a process that is killed when the server has had so many requests. Whether it was."""
    command = [sys.executable, "-m", "tracetypes", "run", "flow.py", "--backend", backend, "--files-per-step", "1"]
    command += ["--input", "clicks=in", "--output", f"clicks={server.address('out')}", "--checkpoint", "checkpoint"]
    server.requests.clear()
    environment = os.environ | {"PYTHONPATH": os.getcwd()}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, start_new_session=True) as process:
        while process.poll() is None:
            if len(server.requests) >= requests:
                os.killpg(process.pid, signal.SIGKILL)
                return True
            time.sleep(0.001)
        assert process.stderr is not None
        said = process.stderr.read().decode()
    assert process.returncode == 0 or "TT212" in said, said
    return False


@pytest.mark.parametrize("backend", ["local", pytest.param("spark", marks=pytest.mark.nightly)])
@pytest.mark.parametrize("times", [1, pytest.param(15, marks=pytest.mark.nightly)])
def test_kill_9_anywhere(server: Server, inputs: Path, tmp_path: Path, times: int, backend: str) -> None:
    (tmp_path / "flow.py").write_text(FLOW)
    expected = on_disk(counts(), inputs, tmp_path)
    choice, kills = random.Random(7), 0
    for _ in range(times):
        bucket_of(server, pytest.MonkeyPatch())
        shutil.rmtree(tmp_path / "checkpoint", ignore_errors=True)
        kills += sum(killed(server, tmp_path, backend, choice.randrange(3, 14)) for _ in range(2))
        assert not killed(server, tmp_path, backend, 10**9)
        assert lines(server) == expected
    assert kills >= times
