"""Objects of a store as inputs: what is listed and read, what changes meanwhile, what goes wrong, and where secrets are not."""

from __future__ import annotations

import gzip
import io
import re
import threading
import traceback
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import attrs
import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.exceptions import AlreadyExistsError

from tests.store_server import (
    KEY,
    SECRET,
    Request,
    Server,
    after,
    broken_off,
    bucket_of,
    lagging,
    refused,
    slow,
)
from tracetypes import Dataflow, RunError, TraceTypesError, U, Unit, UsageError, every, run, start, text_lines
from tracetypes.compiler.connectors import object_ranges, object_store, packs, store_clients
from tracetypes.compiler.connectors.file_system import FileState
from tracetypes.compiler.connectors.files import by_name, open_file, range_of, state_of, walk
from tracetypes.compiler.connectors.object_store import ObjectStore
from tracetypes.compiler.connectors.store_address import StoreAddress, is_store
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.store import input_files
from tracetypes.formats import Format
from tracetypes.stdlib import aggregate, count, key_by


@attrs.frozen
class Click:
    ts: int
    page: str
    day: str | None = None


def clicks(format: Format | None = None) -> Dataflow:
    flow = Dataflow("clicks")
    rows = flow.source("clicks", U[Unit, Click], markers=every(seconds=1000, time=lambda click: click.ts), format=format)
    flow.sink("clicks", rows)
    return flow


def counts() -> Dataflow:
    flow = Dataflow("counts")
    rows = flow.source("clicks", U[Unit, Click], markers=every(seconds=10, time=lambda click: click.ts))
    flow.sink("counts", rows.through(key_by(lambda key, click: click.page, to=str)).through(aggregate(count())))
    return flow


ROWS: Final = [Click(at, f"page {at % 7}") for at in range(100)]


def as_json(rows: list[Click]) -> bytes:
    return b"".join(f'{{"ts": {one.ts}, "page": "{one.page}"}}\n'.encode() for one in rows)


def as_csv(rows: list[Click]) -> bytes:
    return "".join(["ts,page\n", *(f'{one.ts},"{one.page}"\n' for one in rows)]).encode()


def as_parquet(rows: list[Click], group: int = 30) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table({"ts": [one.ts for one in rows], "page": [one.page for one in rows]}), file, row_group_size=group)
    return file.getvalue()


def as_avro(rows: list[Click]) -> bytes:
    import fastavro

    fields = [{"name": "ts", "type": "long"}, {"name": "page", "type": "string"}]
    file, schema = io.BytesIO(), fastavro.parse_schema({"type": "record", "name": "Click", "fields": fields})
    fastavro.writer(file, schema, [{"ts": one.ts, "page": one.page} for one in rows], sync_interval=100)
    return file.getvalue()


FORMATS: Final[dict[str, Callable[[list[Click]], bytes]]] = {
    "jsonl": as_json,
    "csv": as_csv,
    "parquet": as_parquet,
    "avro": as_avro,
    "jsonl.gz": lambda rows: gzip.compress(as_json(rows)),
}


@pytest.fixture
def server(object_server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """With a bucket of the test."""
    return bucket_of(object_server, monkeypatch)


def read(address: str, flow: Dataflow | None = None, **options: Any) -> list[Any]:
    """The rows of a run from an address."""
    rows: list[Any] = []
    run(flow or clicks(), {"clicks": address}, {"clicks": rows}, backend="local", **options)
    return sorted(rows, key=repr)


# ----------------------------------------------------------------------------------------------------- addresses


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("s3://bucket/a/b.csv", StoreAddress("s3", "bucket", "a/b.csv")),
        ("gs://bucket", StoreAddress("gs", "bucket", "")),
        ("az://container/x/", StoreAddress("az", "container", "x/")),
        ("https://host:8443/a%20b.csv", StoreAddress("https", "host:8443", "a%20b.csv")),
    ],
)
def test_an_address(text: str, address: StoreAddress) -> None:
    assert is_store(text)
    assert StoreAddress.of(text) == address


def test_the_name_of_a_web_address_is_decoded() -> None:
    assert StoreAddress.of("https://host/a%20b.csv").name == "a b.csv"
    assert StoreAddress.of("s3://bucket/a%20b.csv").name == "a%20b.csv"


@pytest.mark.parametrize(
    "text",
    [
        f"s3://{KEY}:{SECRET}@bucket/clicks",
        f"s3://{SECRET}:bucket/clicks",
        f"https://user:{SECRET}@host/clicks.csv",
        f"https://host/clicks.csv?X-Amz-Signature={SECRET}",
        f"s3://bucket/clicks#{SECRET}",
    ],
)
def test_an_address_with_credentials_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(UsageError, match="TT402") as caught:
        run(clicks(), {"clicks": text}, {"clicks": []}, backend="local")
    assert SECRET not in str(caught.value)
    assert KEY not in str(caught.value)


def test_an_address_without_a_bucket_is_refused() -> None:
    with pytest.raises(UsageError, match=r"s3:///clicks names no bucket"):
        StoreAddress.of("s3:///clicks")


@pytest.mark.parametrize("text", ["s3://bucket/a//b", "s3://bucket//", "gs://bucket/../a", "https://host/a/./b.csv"])
def test_an_address_with_an_empty_name_is_refused(text: str) -> None:
    """The client would leave the name out, or refuse it with an error of its own."""
    with pytest.raises(UsageError, match=r"TT402 .* has an empty name, '\.' or '\.\.' between its slashes"):
        run(clicks(), {"clicks": text}, {"clicks": []}, backend="local")


def test_TT401_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"TT401.*\n.*tracetypes\[stores\]"):
        run(clicks(), {"clicks": "s3://bucket/clicks"}, {"clicks": []}, backend="local")


# ------------------------------------------------------------------------------------------------------ listings


def test_a_folder_is_listed_without_hidden_and_empty_objects(server: Server) -> None:
    for key in ("in/b.jsonl", "in/a/x.jsonl", "in/day=1/x.jsonl", "in/_day=2/y.jsonl"):
        server.put(key, "1\n")
    for key in ("in/_x.jsonl", "in/.x.jsonl", "in/_hidden/x.jsonl", "inside/x.jsonl", "in.jsonl"):
        server.put(key, "1\n")
    server.put("in/day=3", "")
    expected = ["in/_day=2/y.jsonl", "in/a/x.jsonl", "in/b.jsonl", "in/day=1/x.jsonl"]
    for address in (server.address("in"), server.address("in/")):
        assert sorted(path for path, _ in walk(address)) == [server.address(key) for key in expected]
    assert [path for path, _ in walk(server.address("in.jsonl"))] == [server.address("in.jsonl")]


@pytest.mark.parametrize("name", ["a b.jsonl", "a+b.jsonl", "ü.jsonl", "a%20b.jsonl", "x?y#z.jsonl", "day=a%2Fb/x.jsonl"])
def test_names_with_any_characters(server: Server, name: str) -> None:
    server.put(f"in/{name}", as_json(ROWS[:3]))
    assert [path for path, _ in walk(server.address("in"))] == [server.address(f"in/{name}")]
    assert len(read(server.address("in"))) == 3


def test_a_bucket_is_a_folder_and_pages_are_put_together(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for at in range(25):
        server.put(f"{at}.jsonl", "1\n")
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "10")
    for fault in ([], [broken_off(2, lambda request: "list" in request.query)]):
        with server.failing(*fault):
            paths = [path for path, _ in walk(server.address())]
        assert len(paths) == len(set(paths)) == 25


def test_the_state_of_an_object_is_that_of_its_content(server: Server) -> None:
    server.put("x", "one")
    one = state_of(server.address("x"))
    server.put("x", "two")
    two = state_of(server.address("x"))
    server.put("x", "one")
    three = state_of(server.address("x"))
    assert one is not None
    assert two is not None
    assert three is not None
    assert one.size == two.size == 3
    assert one.version != two.version
    assert one.version == three.version
    assert state_of(server.address("y")) is None
    assert dict(walk(server.address()))[server.address("x")][::2] == three[::2]


def test_order_by_name(server: Server) -> None:
    for name in ("part-10", "part-2", "a/part-3"):
        server.put(f"{name}.jsonl", "1\n")
    paths = sorted((path for path, _ in walk(server.address())), key=by_name)
    assert [path.rpartition("/")[2] for path in paths] == ["part-3.jsonl", "part-2.jsonl", "part-10.jsonl"]


# ------------------------------------------------------------------------------------------------------- reading


def test_an_object_is_read_as_a_file(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    content = bytes(range(256)) * 40
    server.put("x", content)
    for small in (0, 1 << 20):
        monkeypatch.setattr(object_ranges, "SMALL", small)
        monkeypatch.setattr(object_ranges, "LEAST", 100)
        monkeypatch.setattr(object_ranges, "PART", 700)
        with open_file(server.address("x")) as file:
            assert (file.read(10), file.tell(), file.read(3)) == (content[:10], 10, content[10:13])
            assert (file.seek(-4, io.SEEK_END), file.read(), file.read(5)) == (len(content) - 4, content[-4:], b"")
            assert (file.seek(50), file.seek(5, io.SEEK_CUR), file.read(60)) == (50, 55, content[55:115])
            file.seek(3)
            assert file.read() == content[3:]
            assert file.seek(99_999) == 99_999
            assert file.read(1) == b""


def test_ranges_that_are_expected_come_once(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    content = bytes(range(256)) * 40
    server.put("x", content)
    state = state_of(server.address("x"))
    assert state is not None
    for name in ("SMALL", "LEAST"):
        monkeypatch.setattr(object_ranges, name, 100)
    ranges = object_ranges.Ranges(server.address("x"), state)
    server.requests.clear()
    ranges.expect([(0, 500), (7_000, 7_010), (0, 500)])
    for begin, end in ((7_000, 7_010), (0, 500), (300, 400)):
        with ranges.file() as file:
            file.seek(begin)
            assert file.read(end - begin) == content[begin:end]
    assert sorted(one.headers["HTTP_RANGE"] for one in server.requests) == ["bytes=0-499", "bytes=300-399", "bytes=7000-7099"]
    server.put("x", content[::-1])
    ranges.expect([(0, 500)])
    with ranges.file() as file, pytest.raises(OSError, match="has changed"):
        file.read(500)


def test_columns_of_row_groups_come_ahead(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SMALL", "LEAST"):
        monkeypatch.setattr(object_ranges, name, 100)
    monkeypatch.setattr(limits, "TOGETHER", 1)
    expected: list[tuple[int, int]] = []
    real = object_ranges.Ranges.expect

    def expect(self: object_ranges.Ranges, places: Iterable[tuple[int, int]]) -> None:
        known = list(places)
        expected.extend(known)
        real(self, known)

    monkeypatch.setattr(object_ranges.Ranges, "expect", expect)
    for at in range(2):
        server.put(f"in/{at}.parquet", as_parquet(ROWS[at * 50 : at * 50 + 50], group=10))
    server.requests.clear()
    assert len(read(server.address("in"))) == 100
    wanted = [f"bytes={begin}-{max(end, begin + 100) - 1}" for begin, end in expected]
    assert len(wanted) > 8
    asked = [one.headers["HTTP_RANGE"] for one in server.requests if "HTTP_RANGE" in one.headers]
    assert {*wanted} <= {*asked}


@pytest.mark.parametrize("ending", ["jsonl", "parquet", "jsonl.gz"])
def test_small_objects_come_before_they_are_read(server: Server, monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    taken: list[bool] = []
    real = object_ranges.ExpectedObjects.take

    def take(self: object_ranges.ExpectedObjects, path: str, state: FileState) -> Any:
        found = real(self, path, state)
        taken.append(found is not None)
        return found

    monkeypatch.setattr(object_ranges.ExpectedObjects, "take", take)
    monkeypatch.setattr(packs, "TURNS", 0.01)
    for at in range(10):
        server.put(f"in/{at}.{ending}", FORMATS[ending](ROWS[at * 10 : at * 10 + 10]))
    assert len(read(server.address("in"))) == 100
    assert taken.count(True) == 9
    assert not object_ranges.EXPECTED._coming


def test_objects_that_nobody_reads_are_forgotten(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_ranges, "MOST", 2)
    for name in "abc":
        server.put(name, name)
        state = state_of(server.address(name))
        assert state is not None
        object_ranges.EXPECTED.expect(server.address(name), state)
    assert [path for _, path, _ in object_ranges.EXPECTED._coming] == [server.address("b"), server.address("c")]
    object_ranges.EXPECTED._coming.clear()


def test_a_range_comes_in_blocks(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    content = bytes(range(256)) * 40
    server.put("x", content)
    monkeypatch.setattr(object_store, "BLOCK", 1000)
    blocks = list(range_of(server.address("x"), 7, 9_999))
    assert b"".join(blocks) == content[7:9_999]
    assert [len(one) for one in blocks] == [1000] * 9 + [992]
    with pytest.raises(EOFError, match="ends at byte 10,240"):
        list(range_of(server.address("x"), 9_000, 11_000))


def test_an_abandoned_range_asks_for_no_more(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.put("x", bytes(100_000))
    monkeypatch.setattr(object_store, "BLOCK", 1000)
    server.requests.clear()
    blocks = range_of(server.address("x"), 0, 100_000)
    next(blocks)
    blocks.close()  # type: ignore[attr-defined]
    assert len(server.requests) <= 1 + 2 * object_store.AHEAD


def test_another_content_is_refused_by_the_store(server: Server) -> None:
    server.put("x", "one")
    state = state_of(server.address("x"))
    server.put("x", "two")
    with pytest.raises(OSError, match="has changed since it was listed"):
        list(range_of(server.address("x"), 0, 3, state))
    with pytest.raises(OSError, match="has changed"), open_file(server.address("x"), state) as file:
        file.read(1)


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("ending", [*FORMATS])
def test_a_folder_gives_the_rows_of_the_same_files(server: Server, tmp_path: Path, ending: str, parallelism: int) -> None:
    for at in range(4):
        content = FORMATS[ending](ROWS[at * 25 : at * 25 + 25])
        for key in (f"in/part-{at}.{ending}", f"in/day={at}/more.{ending}"):
            server.put(key, content)
            (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / key).write_bytes(content)
    of_disk = read(str(tmp_path / "in"), parallelism=parallelism)
    assert len(of_disk) == 200
    assert read(server.address("in"), parallelism=parallelism) == of_disk


def test_lines_of_text(server: Server) -> None:
    flow = Dataflow("log")
    lines = flow.source(
        "clicks", U[Unit, str], format=text_lines(), markers=every(seconds=60, time=lambda line: int(line.partition(" ")[0]))
    )
    flow.sink("clicks", lines)
    server.put("log.txt", "1 a\n2 b\n")
    assert len(read(server.address("log.txt"), flow)) == 2


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_a_large_object_is_read_in_parts(server: Server, monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    for name in ("SMALLEST", "LARGEST", "LARGE"):
        monkeypatch.setattr(input_files, name, 300)
    monkeypatch.setattr(object_ranges, "SMALL", 100)
    monkeypatch.setattr(object_ranges, "LEAST", 100)
    server.put(f"big.{ending}", FORMATS[ending](ROWS))
    server.requests.clear()
    assert len(read(server.address(f"big.{ending}"), parallelism=2)) == 100
    assert sum("HTTP_RANGE" in one.headers for one in server.requests) >= 4


def test_a_file_of_a_web_server(server: Server) -> None:
    server.put_public("in/a b.jsonl", as_json(ROWS))
    address = f"{server.url}/{server.bucket}/in/a%20b.jsonl"
    assert len(read(address)) == 100
    with pytest.raises(RunError, match="lists none"):
        read(f"{server.url}/{server.bucket}/in/")
    with pytest.raises(RunError, match=r"x\.jsonl does not exist"):
        read(f"{server.url}/{server.bucket}/x.jsonl")


# ------------------------------------------------------------------------------------------- what changes meanwhile


def resumed(server: Server, tmp_path: Path, **options: Any) -> list[Any]:
    """The rows of a run that goes on in the checkpoint of the test, without an end of its input."""
    out: list[Any] = []
    run(
        clicks(),
        {"clicks": server.address("in")},
        {"clicks": out},
        backend="local",
        checkpoint=tmp_path / "checkpoint",
        drain=False,
        **options,
    )
    return out


def test_each_object_is_read_once(server: Server, tmp_path: Path) -> None:
    server.put("in/a.jsonl", as_json(ROWS[:50]))
    first = resumed(server, tmp_path)
    server.put("in/b.jsonl", as_json(ROWS[50:]))
    second = resumed(server, tmp_path)
    assert (len(first), len(second)) == (50, 50)
    server.put("in/a.jsonl", as_json(ROWS[:50]))  # the same bytes: it is unchanged
    obstore.delete(server.store, "in/b.jsonl")
    assert resumed(server, tmp_path) == []
    server.put("in/a.jsonl", as_json(ROWS[1:51]))
    with pytest.raises(RunError, match=r"TT230 s3://.*a\.jsonl has changed"):
        resumed(server, tmp_path)
    with pytest.raises(RunError, match="TT230"):  # nobody appends to an object
        resumed(server, tmp_path, appended="read")


@pytest.mark.parametrize("other", [ROWS[:99], ROWS[::-1]], ids=["shorter", "as long"])
@pytest.mark.parametrize("ending", ["jsonl", "parquet", "jsonl.gz"])
def test_TT230_an_object_that_is_overwritten_before_it_is_read(
    server: Server, tmp_path: Path, ending: str, other: list[Click]
) -> None:
    key = f"in/a.{ending}"
    server.put(key, FORMATS[ending](ROWS))

    def listed(request: Request) -> bool:
        is_read = request.method == "GET" and request.path.endswith(key)
        return is_read and any((tmp_path / "checkpoint").glob("inputs/*/steps/*"))

    with server.failing(after(listed, lambda: server.put(key, FORMATS[ending](other)))), pytest.raises(
        RunError, match=r"TT230 .*has changed: it was .* since it was listed"
    ):
        resumed(server, tmp_path)
    assert len(resumed(server, tmp_path)) == len(other)


def test_an_object_that_is_removed_before_it_is_read(server: Server, tmp_path: Path) -> None:
    server.put("in/a.jsonl", as_json(ROWS[:10]))
    server.put("in/b.jsonl", as_json(ROWS[10:]))

    def listed(request: Request) -> bool:
        return request.method == "GET" and "list" not in request.query and any((tmp_path / "checkpoint").glob("inputs/*/steps/*"))

    with server.failing(after(listed, lambda: obstore.delete(server.store, "in/a.jsonl"))):
        assert len(resumed(server, tmp_path)) == 90


def test_a_listing_that_lags(server: Server, tmp_path: Path) -> None:
    server.put("in/a.jsonl", as_json(ROWS[40:]))
    server.put("in/b.jsonl", as_json(ROWS[:40]))
    with server.failing(lagging("in/a.jsonl")):
        assert len(resumed(server, tmp_path)) == 40
    assert len(resumed(server, tmp_path)) == 60
    assert resumed(server, tmp_path) == []


def test_a_run_that_follows_looks_for_new_objects(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ObjectStore, "rest", 0.01)
    server.put("in/a.jsonl", as_json(ROWS[:50]))
    out: list[Any] = []
    all_rows = threading.Event()

    def first_rows(request: Request) -> bool:
        if len(out) == 100:
            all_rows.set()
        return "list" in request.query and len(out) == 50

    address = server.address("in/")
    with server.failing(after(first_rows, lambda: server.put("in/b.jsonl", as_json(ROWS[50:])))):
        running = start(clicks(), {"clicks": address}, {"clicks": out}, backend="local", checkpoint=tmp_path / "c", follow=True)
        assert all_rows.wait(60)
        running.stop()
    assert len(out) == 100


# ---------------------------------------------------------------------------------------------- what goes wrong


def is_read(request: Request) -> bool:
    return request.method == "GET" and "list" not in request.query


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_a_connection_that_is_lost_in_the_middle(server: Server, ending: str) -> None:
    server.put(f"in/a.{ending}", FORMATS[ending](ROWS))
    with server.failing(broken_off(2, is_read)):
        assert len(read(server.address("in"))) == 100
    with server.failing(broken_off(1, lambda request: "list" in request.query)):
        assert len(read(server.address("in"))) == 100


def test_a_slow_store(server: Server) -> None:
    server.put("in/a.jsonl", as_json(ROWS))
    with server.failing(slow(0.05)):
        assert len(read(server.address("in"))) == 100


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is sent again for long."""
    monkeypatch.setattr(store_clients, "PATIENCE", 0.0)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (refused(403, "SignatureDoesNotMatch"), "refuses access"),
        (refused(403, "InvalidAccessKeyId"), "refuses access"),
        (refused(403, "AccessDenied", is_read), "refuses access"),
        (refused(503, "SlowDown"), "SlowDown|status 503"),
        (refused(500, "InternalError", is_read), "InternalError|status 500"),
        (broken_off(1000, lambda request: "list" in request.query), "connection was lost|cannot be reached"),
    ],
)
def test_TT208_says_what_the_store_answers_and_no_secret(server: Server, tmp_path: Path, fault: Any, said: str) -> None:
    server.put("in/a.jsonl", as_json(ROWS))
    with server.failing(fault), pytest.raises(TraceTypesError, match="TT208") as caught:
        resumed(server, tmp_path)
    shown = "".join(traceback.format_exception(caught.value))
    assert re.search(said, str(caught.value)), str(caught.value)
    assert SECRET not in shown
    assert KEY not in shown
    assert len(resumed(server, tmp_path)) == 100


def test_nothing_of_the_credentials_is_in_a_checkpoint(server: Server, tmp_path: Path) -> None:
    server.put("in/a.jsonl", as_json(ROWS))
    resumed(server, tmp_path)
    files = [one for one in tmp_path.rglob("*") if one.is_file()]
    assert files
    for file in files:
        content = file.read_bytes()
        assert SECRET.encode() not in content
        assert KEY.encode() not in content


def test_a_bucket_that_is_missing(server: Server) -> None:
    with pytest.raises(RunError, match=r"TT208.*NoSuchBucket.*\n.*name a bucket that exists"):
        read("s3://missing-bucket/in")


def test_an_account_that_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_CONNECTION_STRING"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(RunError, match=r"TT208.*no account is named\n.*AZURE_STORAGE_ACCOUNT_NAME"):
        read("az://container/in")


def test_a_folder_that_is_missing(server: Server) -> None:
    with pytest.raises(RunError, match=r"TT208.*/in does not exist"):
        read(server.address("in"))
    with pytest.raises(RunError, match=r"TT207.*holds no files yet"):
        read(server.address("in/"))
    server.put("_in.jsonl", "1")
    with pytest.raises(RunError, match=r"TT208.*name begins with"):
        read(server.address("_in.jsonl"))


def test_an_object_that_no_client_can_read(server: Server) -> None:
    server.put_public("in//a.jsonl", as_json(ROWS))
    with pytest.raises(RunError, match=r"TT208.*an object with an empty name, '\.' or '\.\.' between the slashes of its key"):
        read(server.address("in"))


# --------------------------------------------------------------------------------------------------- credentials


def test_a_profile(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.put("in/a.jsonl", as_json(ROWS))
    for name in server.variables:
        monkeypatch.delenv(name)
    keys, about = tmp_path / "credentials", tmp_path / "config"
    keys.write_text(f"[work]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n")
    about.write_text(f"[profile work]\nregion = eu-west-1\nendpoint_url = {server.url}\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(keys))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(about))
    monkeypatch.setenv("AWS_PROFILE", "work")
    server.requests.clear()
    assert len(read(server.address("in"))) == 100
    assert all(KEY in one.headers["HTTP_AUTHORIZATION"] for one in server.requests)
    about.write_text(f"[profile work]\nregion = eu-west-1\nendpoint_url = nowhere/{SECRET}\n")
    store_clients._client.cache_clear()
    with pytest.raises(UsageError, match="TT402 endpoint_url of the profile 'work' is no address of a server") as caught:
        read(server.address("in"))
    assert SECRET not in str(caught.value)
    monkeypatch.setenv("AWS_PROFILE", "other")
    with pytest.raises(UsageError, match="TT402 AWS_PROFILE is 'other', and there is no such profile"):
        read(server.address("in"))


@pytest.mark.parametrize("url", ["127.0.0.1:9000", "localhost", "http://", f"ftp://user:{SECRET}@host", "http://[::1"])
def test_an_endpoint_that_is_no_address(server: Server, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", url)
    with pytest.raises(UsageError, match=r"TT402 AWS_ENDPOINT_URL is no address of a server\n.*write http://HOST:PORT") as caught:
        read(server.address("in"))
    assert SECRET not in str(caught.value)


# ------------------------------------------------------------------------------------------------------ the server


def test_of_fifty_conditional_puts_exactly_one_wins(server: Server) -> None:
    def put(at: int) -> bool:
        try:
            obstore.put(server.store, "commit", f"{at}".encode(), mode="create")
        except AlreadyExistsError:
            return False
        return True

    with ThreadPoolExecutor(50) as threads:
        won = list(threads.map(put, range(50)))
    assert won.count(True) == 1
    assert server.content("commit") == f"{won.index(True)}".encode()
