"""A run that crashes before or after any step of its work, once, and goes on: its output has each row once.

The steps are found by a first run that counts them, so a step that is added later is crashed at too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.spark import dags
from tests.spark.test_dags import Job as ProgramJob
from tests.spark.test_exactly_once import Crash, files
from tests.spark.test_exactly_once import Job as PlanJob
from tracetypes.compiler.backend.channel_retention import ChannelRetention
from tracetypes.compiler.local.backend import LocalBackend
from tracetypes.compiler.local.log import LocalLog
from tracetypes.compiler.local.workers import Workers
from tracetypes.compiler.store import file_channel, gate_channel, input_files, output_interface
from tracetypes.compiler.store.file_channel import ChannelOutput
from tracetypes.compiler.store.gate_channel import GateOutput
from tracetypes.compiler.store.input_files import InputFiles
from tracetypes.compiler.store.outputs import FileOutput
from tracetypes.compiler.store.run_store import RunStore
from tracetypes.errors import TraceTypesError

STEPS: Final[list[tuple[Any, str]]] = [
    (InputFiles, "look"),
    (InputFiles, "committed"),
    (LocalLog, "begin"),
    (LocalLog, "end"),
    (LocalLog, "forget"),
    (LocalLog, "_file"),
    (Workers, "run"),
    (output_interface, "move"),
    (file_channel, "take"),
    (FileOutput, "take"),
    (ChannelOutput, "take"),
    (gate_channel, "move"),
    (gate_channel, "write_json"),
    (ChannelOutput, "send"),
    (gate_channel, "_write"),
    (GateOutput, "_forget"),
    (GateOutput, "tidy"),
    (GateOutput, "take"),
    (ChannelRetention, "clean"),
    (RunStore, "begin"),
    (RunStore, "commit"),
    (RunStore, "drain"),
    (RunStore, "finish"),
]


class ListingsJob(PlanJob):
    """A run whose files are listings of their own, of which an epoch takes several."""

    files_per_step = None

    def __init__(self, path: Path) -> None:
        super().__init__(LocalBackend(2), path)  # type: ignore[arg-type]
        self.lines = files(path / "in", 6)
        self.epochs = 0

    def __call__(self, told: Callable[[Any], None] | None = None) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(input_files, "EPOCH", 1)
            summary = super().__call__(told)
        self.epochs = summary.batches
        return summary


JOBS: Final[dict[str, Callable[[Path], Any]]] = {
    "one segment": lambda path: PlanJob(LocalBackend(1), path),  # type: ignore[arg-type]
    "segments and a channel": lambda path: ProgramJob(LocalBackend(1), path, dags.diamond(), files=2),  # type: ignore[arg-type]
    "several listings": ListingsJob,
    "gates": lambda path: ProgramJob(LocalBackend(1), path, dags.gates(), files=2),  # type: ignore[arg-type]
}


@contextmanager
def crashing_at(place: int | None) -> Iterator[list[str]]:
    """A context in which a step crashes. Each step is two places: before it and after it. Gives the names of all places."""
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
        patch.setattr(gate_channel, "MERGED", 2)
        patch.setattr(gate_channel, "TABLE", 3)
        patch.setattr(gate_channel, "FILE", 4)
        for owner, name in STEPS:
            patch.setattr(owner, name, wrapped(owner, name))
        yield places


def crash(job: Any, place: int) -> bool:
    """Run a job until it crashes there. Whether it did."""
    with crashing_at(place):
        try:
            job()
        except (Crash, TraceTypesError) as error:
            return "Crash" in f"{type(error).__name__} {error}"
        return False


PARTS: Final = [
    *(pytest.param(name, part, 6, marks=[pytest.mark.nightly] if part else []) for name in list(JOBS)[:3] for part in range(6)),
    pytest.param("gates", 5, 40),
    *(pytest.param("gates", part, 6, marks=pytest.mark.nightly) for part in range(6)),
]
"""Every so many places of a job, from one of them on: all in a night."""


@pytest.mark.parametrize(("name", "part", "of"), PARTS)
def test_a_crash_at_each_place(tmp_path: Path, name: str, part: int, of: int) -> None:
    with crashing_at(None) as places:
        JOBS[name](tmp_path / "count")()
    assert len(places) > 30
    crashed = 0
    for place in range(part, len(places), of):
        job = JOBS[name](tmp_path / str(place))
        crashed += crash(job, place)
        try:
            job()
        except TraceTypesError as error:
            if error.code != "TT212":  # else the crash came when all was done
                raise
        job.is_right()
    assert crashed > 5


def test_several_listings_are_one_epoch(tmp_path: Path) -> None:
    """Else the crashes above would be at nothing else than those of single listings."""
    job = ListingsJob(tmp_path)
    job()
    assert job.epochs < 6
    job.is_right()
