"""Checkpoints on an object store, without Spark: places, and starts that take over from each other."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import attrs
import pytest

from tests.store_server import SECRET, Request, Server, bucket_of, refused
from tests.test_object_outputs import clicks, counts
from tracetypes import RunError, UsageError, check, run
from tracetypes.compiler.connectors.file_splits import Split
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.store import listings as listings_of_store
from tracetypes.compiler.store import object_place, takeover
from tracetypes.compiler.store.compatibility import claim
from tracetypes.compiler.store.input_files import InputFiles
from tracetypes.compiler.store.listings import listings_in
from tracetypes.compiler.store.object_place import ObjectPlace
from tracetypes.compiler.store.places import (
    Place,
    append,
    create,
    lines_of,
    opened,
    place_of,
    probe,
    remove_folder,
    replace,
    rewrite,
    scratch,
    sizes,
    spark_address,
    take,
)
from tracetypes.compiler.store.run_store import RunStore
from tracetypes.compiler.store.takeover import Held, held, home_of


@pytest.fixture
def server(object_server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    return bucket_of(object_server, monkeypatch)


@pytest.fixture(params=["disk", "store"])
def home(request: pytest.FixtureRequest, tmp_path: Path, server: Server) -> Place:
    return tmp_path / "home" if request.param == "disk" else place_of(server.address("home"))


def names(folder: Place, pattern: str = "*") -> list[str]:
    return sorted(one.name for one in folder.glob(pattern))


# ------------------------------------------------------------------------------------------------------- places


def test_files_are_read_listed_and_written_alike(home: Place) -> None:
    assert not home.exists()
    probe(home)
    assert home.is_dir()
    assert names(home) == []
    replace(home / "a.json", b"one")
    replace(home / "a.json", b"two")
    replace(home / "below" / "b.json", b"three", above=True)
    assert (home / "a.json").read_bytes() == b"two"
    assert (home / "a.json").read_text() == "two"
    assert names(home) == ["a.json", "below"]
    assert names(home, "a*") == ["a.json"]
    assert names(home, "*/*") == ["b.json"]
    assert sorted(one.name for one in home.rglob("*.json")) == ["a.json", "b.json"]
    assert (home / "below" / "b.json").parent == home / "below"
    assert ((home / "a.json").name, (home / "a.json").stem) == ("a.json", "a")
    assert sorted(name for name, size, _ in sizes(home / "below") if size == 5) == ["b.json"]
    with opened(home / "below" / "b.json") as file:
        assert file.read() == b"three"
    assert not (home / "none").exists()
    with pytest.raises(FileNotFoundError):
        (home / "none").read_bytes()
    (home / "a.json").unlink()
    (home / "a.json").unlink(missing_ok=True)
    assert names(home) == ["below"]
    remove_folder(home / "below")
    assert names(home) == []
    remove_folder(home / "below")


def test_a_folder_is_there_before_it_has_a_file(home: Place) -> None:
    (home / "control").mkdir(parents=True, exist_ok=True)
    (home / "control").mkdir(exist_ok=True)
    assert (home / "control").is_dir()
    assert names(home / "control") == []


def test_of_fifty_who_create_a_file_one_wins(home: Place) -> None:
    probe(home)
    ready = threading.Barrier(50)

    def one(number: int) -> bool:
        ready.wait()
        return create(home / "record", b"%d" % number)

    with ThreadPoolExecutor(50) as pool:
        won = list(pool.map(one, range(50)))
    assert won.count(True) == 1
    assert (home / "record").read_bytes() == b"%d" % won.index(True)
    assert names(home) == ["record"]


def test_lines_are_appended_and_written_anew(home: Place) -> None:
    probe(home)
    file = home / "files.jsonl"
    assert lines_of(file) == []
    append(file, b"1\n2\n")
    append(file, b"3\n")
    assert lines_of(file) == [b"1", b"2", b"3"]
    rewrite(file, b"4\n")
    append(file, b"5\n")
    assert lines_of(file) == [b"4", b"5"]


def test_files_are_taken_to_their_places(home: Place, tmp_path: Path) -> None:
    probe(home)
    here = scratch(home) / "rows"
    here.write_bytes(b"rows")
    take(here, home / "below" / "rows")
    assert not here.exists()
    assert (home / "below" / "rows").read_bytes() == b"rows"
    replace(home / "staged", b"more")
    take(home / "staged", home / "below" / "more")
    assert names(home) == ["below"]
    assert (home / "below" / "more").read_bytes() == b"more"


def test_a_key_is_for_its_owner(tmp_path: Path) -> None:
    replace(tmp_path / "key", b"secret", private=True)
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600


def test_Spark_names_objects_as_Hadoop_does(tmp_path: Path) -> None:
    assert spark_address(place_of("s3://bucket/a b/c")) == "s3a://bucket/a b/c"
    assert spark_address(tmp_path) == str(tmp_path)


# ----------------------------------------------------------------------------------------------------- listings


def split(number: int, path: str = "a") -> Split:
    return Split(number, path, 0, 1, 1, 0, 1)


def test_listings_appear_whole_and_are_read_again(home: Place) -> None:
    first = listings_in(home, 2, "0a1b2c3d")
    first.begin()
    for number in (1, 2, 3):
        first.publish(number, [split(number), split(number, "b")])
    first.remove(1)
    first.swap(2, [])
    again = listings_in(home, 3, "0a1b2c3d")
    again.begin()
    again.spread(3)
    assert [*again.numbers()] == [2, 3]
    assert again.splits(2) == []
    assert sorted(one.path for one in again.splits(3)) == ["a", "b"]
    assert len(names(again.place(3))) == again.parts


def test_no_listing_is_younger_than_one_behind_it(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark takes them in the order of their times, whatever the clocks of a store say."""
    times = iter([5.0, 9.0, 9.0, 9.0])  # of the second listing and of the first, and once more
    monkeypatch.setattr(listings_of_store, "modified_at", lambda address: next(times))
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    found = listings_in(place_of(server.address("home")), 1, "0a1b2c3d")
    found.begin()
    found.publish(1, [split(1)])
    server.requests.clear()
    found.publish(2, [split(2)])
    assert [one.method for one in server.requests] == ["PUT", "PUT"]
    server.requests.clear()
    found.swap(1, [])
    put = [one.path.split("/")[-2] for one in server.requests if one.method == "PUT"]
    assert put == ["00000001", "00000002"]


def test_which_files_were_read_is_known_again(home: Place) -> None:
    files = InputFiles(home, "in", is_text=True, tasks=1, run="0a1b2c3d")
    probe(home)
    for number in range(3):
        files.keep([{"files": [[f"{number}.jsonl", 10, 5, 0, [[0, 10, "hash"]]]]}])
    again = InputFiles(home, "in", is_text=True, tasks=1, run="0a1b2c3d")
    again.load([])
    assert sorted(again.known) == ["0.jsonl", "1.jsonl", "2.jsonl"]


# ------------------------------------------------------------------------------------------------------- starts


@attrs.define
class Log:
    """Of a backend that has begun and ended all that was committed."""

    place: Place
    backend: str = "spark"
    begun: int = -1
    ended: int = -1

    def refuse(self, old: Any, new: Any) -> None: ...


PLAN = plan(check(counts()))


@attrs.define(eq=False)
class Driver:
    """One that may be killed at any moment: then nothing of it happens any more."""

    context: AbstractContextManager[Held]
    held: Held
    store: RunStore
    moved: list[tuple[Place, Place, Place]]

    @classmethod
    def start(cls, root: Place) -> Driver:
        moved: list[tuple[Place, Place, Place]] = []
        context = held(root, lambda *one: moved.append(one))
        mine = context.__enter__()
        store = RunStore(claim(mine.home, PLAN, Log))
        mine.check()
        return cls(context, mine, store, moved)

    def end(self) -> None:
        self.context.__exit__(None, None, None)

    @property
    def committed(self) -> list[int]:
        return [number for number in range(20) if self.store.committed(number) is not None]

    def commit(self, number: int) -> None:
        assert self.store.committed(number) is None
        self.store.commit(number, {"rows": number})


def root_of(server: Server) -> Place:
    return place_of(server.address("checkpoint"))


def test_a_start_takes_over_at_once_and_the_older_driver_loses(server: Server) -> None:
    older = Driver.start(root_of(server))
    for number in range(3):
        older.commit(number)
    replace(older.held.home / "spark" / "offsets" / "3", b"begun")
    newer = Driver.start(root_of(server))
    assert newer.store.run == older.store.run
    assert newer.committed == [0, 1, 2]
    assert newer.moved == [(newer.held.home, older.held.home, newer.held.home)]
    assert (newer.held.home / "spark" / "offsets" / "3").read_bytes() == b"begun"
    replace(older.held.home / "spark" / "offsets" / "4", b"late")  # nobody reads it
    lost = pytest.raises(RunError, match=r"TT209 .*another driver of the same run: a later start has taken over")
    with lost:
        older.store.committed(3)
    with lost:
        older.store.commit(3, {"rows": 3})
    newer.commit(3)
    assert not (newer.held.home / "spark" / "offsets" / "4").exists()
    assert Driver.start(root_of(server)).committed == [0, 1, 2, 3]


def test_an_older_driver_loses_before_it_has_written_what_names_the_run(server: Server) -> None:
    context = held(root_of(server), lambda *_: None)
    older = context.__enter__()
    newer = Driver.start(root_of(server))
    RunStore(claim(older.home, PLAN, Log))
    with pytest.raises(RunError, match=r"TT209 .*a later start has taken over"):
        older.check()
    newer.commit(0)


def test_a_start_behind_one_that_has_ended_goes_on_in_its_folder(server: Server) -> None:
    first = Driver.start(root_of(server))
    first.commit(0)
    first.end()
    second = Driver.start(root_of(server))
    assert (second.held.home, second.moved) == (first.held.home, [])
    assert second.committed == [0]
    second.commit(1)


def test_an_error_ends_a_start_and_a_kill_does_not(server: Server) -> None:
    first = Driver.start(root_of(server))
    assert not first.context.__exit__(ValueError, ValueError("of the author"), None)
    second = Driver.start(root_of(server))
    assert second.held.home == first.held.home
    assert not second.context.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert Driver.start(root_of(server)).held.home != first.held.home


def test_folders_of_old_starts_go_but_for_what_shuts_out_their_drivers(server: Server) -> None:
    drivers = []
    for number in range(4):
        drivers.append(Driver.start(root_of(server)))
        replace(drivers[-1].held.home / "spark" / "commits" / str(number), b"")
        drivers[-1].commit(number)
    drivers[-1].end()
    for number, one in enumerate(drivers[:-1]):
        assert [str(file).split("/")[-2:] for file in one.held.home.rglob("*")] == [["commits", f"{number + 1:08d}.json"]]
        with pytest.raises(RunError, match="TT209"):
            one.store.commit(number + 1, {})
    assert Driver.start(root_of(server)).committed == [0, 1, 2, 3]


class Killed(Exception):
    """The driver does nothing more."""


def dies(patch: pytest.MonkeyPatch, left: int) -> None:
    """With a call of the store."""
    numbers = count()

    def dying(do: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any) -> Any:
            if next(numbers) >= left:
                raise Killed
            return do(*arguments)

        return called

    for module in (takeover, object_place):
        for name in ("copy_object", "object_names", "put", "put_if", "read_note", "remove_objects"):
            if hasattr(module, name):
                patch.setattr(module, name, dying(getattr(module, name)))


def test_a_start_that_is_killed_at_any_step_loses_nothing(server: Server) -> None:
    first = Driver.start(root_of(server))
    for number in range(2):
        first.commit(number)
    for left in count(0, 7):
        newest: Driver | None = None
        with pytest.MonkeyPatch.context() as patch, suppress(Killed):
            dies(patch, left)
            newest = Driver.start(root_of(server))
        check_nothing_is_lost(root_of(server), first.store.run)
        if newest is not None:
            break
    assert left > 20
    assert newest is not None
    assert newest.committed == [0, 1]
    newest.commit(2)


def check_nothing_is_lost(root: Place, run: str) -> None:
    """For whoever looks meanwhile."""
    home = home_of(root)
    assert claim(home, PLAN, Log).run == run
    assert [(home / "commits" / f"{number:08d}.json").exists() for number in range(2)] == [True, True]


def test_many_starts_at_once_leave_one(server: Server) -> None:
    """Each of the others fails, at the latest with its next commit; a record is there once."""
    Driver.start(root_of(server)).commit(0)

    def one(_: int) -> bool:
        try:
            Driver.start(root_of(server)).commit(1)
        except RunError as error:
            return error.code != "TT209"
        return True

    with ThreadPoolExecutor(6) as pool:
        won = list(pool.map(one, range(6)))
    last = Driver.start(root_of(server))
    assert last.committed in ([0], [0, 1])
    assert won.count(True) == len(last.committed) - 1


def test_a_store_that_refuses_is_no_damaged_checkpoint(server: Server) -> None:
    Driver.start(root_of(server)).commit(0)
    with server.failing(refused(403, "AccessDenied")), pytest.raises(RunError) as caught:
        Driver.start(root_of(server))
    assert "TT209 s3://" in str(caught.value)
    assert "the store refuses access (AccessDenied)" in str(caught.value)
    assert SECRET not in str(caught.value)


def test_what_is_put_while_a_folder_is_copied_is_copied_too(server: Server) -> None:
    """A driver that still runs removes commit records when it has kept elsewhere what they say."""
    older = Driver.start(root_of(server))
    older.commit(0)
    done = threading.Event()

    def meanwhile(request: Request, real: Any) -> None:
        if "HTTP_X_AMZ_COPY_SOURCE" in request.headers and not done.is_set():
            done.set()
            append(older.held.home / "inputs" / "files.jsonl", b"kept\n")

    with server.failing(meanwhile):
        newer = Driver.start(root_of(server))
    assert done.is_set()
    assert lines_of(newer.held.home / "inputs" / "files.jsonl") == [b"kept"]


# ----------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("s3://bucket/checkpoint", "the backend 'local' keeps its checkpoint on a disk"),
        ("hdfs://host/checkpoint", "is not local"),
        ("s3://key:secret@bucket/checkpoint", "before its bucket"),
    ],
)
def test_the_local_backend_keeps_its_checkpoint_on_a_disk(tmp_path: Path, address: str, message: str) -> None:
    (tmp_path / "in").mkdir()
    with pytest.raises(UsageError, match="TT402") as caught:
        run(clicks(), {"clicks": tmp_path / "in"}, {"clicks": tmp_path / "out"}, backend="local", checkpoint=address)
    assert message in str(caught.value)
    assert "give a directory of a local or mounted disk" in str(caught.value) or "credentials" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert os.listdir(tmp_path) == ["in"]


def test_an_address_keeps_no_slash_at_its_end() -> None:
    assert ObjectPlace("s3://bucket/a/") / "b" == ObjectPlace("s3://bucket/a/b")
    assert ObjectPlace("s3://bucket/a") / "." == ObjectPlace("s3://bucket/a")


