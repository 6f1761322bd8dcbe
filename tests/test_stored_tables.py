"""Delta tables on an object store as outputs: each row once, whatever is killed and whoever else writes."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.store_server import KEY, SECRET, Server, bucket_of
from tests.test_object_outputs import clicks
from tests.test_object_stores import ROWS, as_json
from tracetypes import Dataflow, RunError, UsageError, run
from tracetypes.compiler.connectors.delta_sink import TableSink
from tracetypes.compiler.store.run_store import RunStore
from tracetypes.compiler.store.stored_table_output import StoredTableOutput

pytest.importorskip("deltalake")

ROOT = Path(__file__).parents[1]


SERVES = """
import sys
from tests.store_server import serving
with serving() as server:
    print(server.port, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def other_process() -> Iterator[Server]:
    """A server that answers while delta-rs holds the lock of this interpreter."""
    words = [sys.executable, "-c", SERVES]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        yield Server(int(process.stdout.readline()))
        process.communicate()


@pytest.fixture
def server(other_process: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    return bucket_of(other_process, monkeypatch)


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
        late=f"{checkpoint}-late",
        rejects=f"{checkpoint}-rejects",
        **options,
    )


def table(server: Server) -> Any:
    from deltalake import DeltaTable

    options = {**{name.lower(): value for name, value in server.variables.items()}, "aws_allow_http": "true"}
    return DeltaTable(server.address("table"), storage_options=options)


def rows_of(server: Server) -> Counter[Any]:
    return Counter((one["ts"], one["page"]) for one in table(server).to_pyarrow_table().to_pylist())


EXPECTED = Counter((one.ts, one.page) for one in ROWS)


@pytest.mark.parametrize("partition_by", ["", "page"])
def test_rows_are_in_the_table_once(server: Server, inputs: Path, tmp_path: Path, partition_by: str) -> None:
    go(clicks(partition_by=partition_by), inputs, f"delta:{server.address('table')}", tmp_path / "checkpoint")
    assert rows_of(server) == EXPECTED
    assert table(server).metadata().partition_columns == ([partition_by] if partition_by else [])
    assert [key for key in server.keys("table") if "staged" in key] == []
    assert not (tmp_path / "delta:s3:").exists()


def dies(real: Callable[..., Any], at: int, *, first: bool) -> Callable[..., Any]:
    left = [at]

    def call(*arguments: Any, **options: Any) -> Any:
        left[0] -= 1
        if left[0] == -1 and first:
            raise ZeroDivisionError
        result = real(*arguments, **options)
        if left[0] == -1:
            raise ZeroDivisionError
        return result

    return call


@pytest.mark.parametrize(
    ("kind", "name", "first"),
    [
        (TableSink, "commit_files", False),
        *(
            pytest.param(kind, name, first, marks=pytest.mark.nightly)
            for kind, names in ((StoredTableOutput, ["take"]), (TableSink, ["commit_files", "write"]), (RunStore, ["commit"]))
            for name in names
            for first in (True, False)
        ),
    ],
)
def test_a_run_that_dies_at_any_step_goes_on(
    server: Server, inputs: Path, tmp_path: Path, kind: type[Any], name: str, first: bool
) -> None:
    output = f"delta:{server.address('table')}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kind, name, dies(getattr(kind, name), 2, first=first))
        with pytest.raises(Exception, match=r"."):
            go(clicks(), inputs, output, tmp_path / "checkpoint")
    go(clicks(), inputs, output, tmp_path / "checkpoint")
    assert rows_of(server) == EXPECTED


def test_many_rows_go_through_files_of_workers(
    server: Server, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tracetypes.compiler.store import staging

    monkeypatch.setattr(staging, "INLINE", 0)
    monkeypatch.setattr(staging.Staging.__init__, "__defaults__", (0, ()))
    go(clicks(), inputs, f"delta:{server.address('table')}", tmp_path / "checkpoint")
    assert rows_of(server) == EXPECTED


def test_two_runs_write_into_one_table(server: Server, inputs: Path, tmp_path: Path) -> None:
    for number in range(2):
        go(clicks(), inputs, f"delta:{server.address('table')}", tmp_path / f"checkpoint-{number}")
    assert rows_of(server) == Counter({row: 2 * count for row, count in EXPECTED.items()})


def test_a_table_that_was_made_anew_is_another_one(server: Server, inputs: Path, tmp_path: Path) -> None:
    output = f"delta:{server.address('table')}"
    go(clicks(), inputs, output, tmp_path / "checkpoint", drain=False)
    for key in server.keys("table"):
        import obstore

        obstore.delete(server.store, key)
    (inputs / "9.jsonl").write_bytes(as_json(ROWS[:1]))
    with pytest.raises(RunError, match="TT218"):
        go(clicks(), inputs, output, tmp_path / "checkpoint")


def test_a_store_that_refuses_shows_no_secret(
    server: Server, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.bucket = "there-is-none"
    with pytest.raises(RunError, match="TT209") as caught:
        go(clicks(), inputs, f"delta:{server.address('table')}", tmp_path / "checkpoint")
    assert SECRET not in str(caught.value)
    assert KEY not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("address", ["delta:gs://bucket/t", "delta:https://host/t", "delta:hdfs://host/t"])
def test_TT402_other_stores(inputs: Path, tmp_path: Path, address: str) -> None:
    with pytest.raises(UsageError, match="TT402"):
        go(clicks(), inputs, address, tmp_path / "checkpoint")
