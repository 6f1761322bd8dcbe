"""Kills connectors, starts them again, and says which promise is broken. :mod:`.connector_process` is what is killed."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.machinery import PathFinder
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, TypeAlias

import attrs
import cloudpickle

from tracetypes.compiler.analysis.pickles import shipped
from tracetypes.compiler.trial.connector_process import (
    EPOCHS,
    SCHEMA,
    Fencing,
    Log,
    Reading,
    Rereading,
    Writing,
    line_of,
    rows_of,
)
from tracetypes.connectors import Sink, SinkRequest, Source
from tracetypes.errors import LawBroken, UsageError
from tracetypes.records import show

__all__ = ["Rows", "try_sink", "try_source"]

Rows: TypeAlias = Iterable[Mapping[str, Any]]

_KILLED: Final = -9


@attrs.define(eq=False)
class Rig:
    """A process that forks for each attempt. ``what``: of the connector, for messages. ``module``: whose lines are counted."""

    what: str
    module: str
    home: Path
    server: subprocess.Popen[str]
    number: int = 0

    def place(self) -> Path:
        """A new directory."""
        self.number += 1
        place = self.home / str(self.number)
        place.mkdir()
        return place

    def run(self, job: object, place: Path, kill_at: tuple[str, int] | None = None) -> bool:
        """Do a job in a fork. Whether it came to its end, and was not killed."""
        try:
            (place / "job").write_bytes(shipped((job, self.module, kill_at)))
        except Exception as error:
            raise self.broken("it cannot be sent to other processes", f"{type(error).__name__}: {error}") from error
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        self.server.stdin.write(f"{place}\n")
        self.server.stdin.flush()
        answer = self.server.stdout.readline()
        if not answer:
            raise self.broken("it ends the process that tries it", "")
        if int(answer) not in (0, _KILLED):
            log = Log(place).entries[-1]
            raise self.broken(f"it fails with {log.get('failed', 'status ' + answer.strip())}", log.get("where", "").strip())
        return int(answer) == 0

    def kill_point(self, lines: Mapping[str, int], choice: random.Random) -> tuple[str, int]:
        """A line of the connector, and which time that it runs. Each line is as likely as each other one, so those of loops hide
        none."""
        line = choice.choice(sorted(lines))
        return line, choice.randrange(1, lines[line] + 1)

    def broken(self, promise: str, details: str) -> LawBroken:
        """The error for a promise that is not kept."""
        lines = f"{self.what}: {promise}" + (f"\n    {details}" if details else "")
        return LawBroken("TT315", lines, fix="see what tracetypes.connectors promises of it (docs/connectors.md)")


@contextmanager
def _rig(what: str, one: object) -> Iterator[Rig]:
    module = getattr(one, "__module__", None) or type(one).__module__
    paths = [path or os.getcwd() for path in sys.path]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    with _by_value(module), tempfile.TemporaryDirectory(prefix="tracetypes-") as home:
        command = [sys.executable, "-m", "tracetypes.compiler.trial.connector_process", module]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen(command, env=environment, text=True, **pipes) as server:  # type: ignore[call-overload]
            try:
                yield Rig(what, module, Path(home), server)
            finally:
                server.stdin.close()


@contextmanager
def _by_value(module: str) -> Iterator[None]:
    """A context in which classes of a module are pickled with their code, if no other process finds it."""
    there, root = sys.modules.get(module), module.partition(".")[0]
    if there is None or module == "__main__" or PathFinder.find_spec(root) is not None or module in sys.builtin_module_names:
        yield
        return
    cloudpickle.register_pickle_by_value(there)
    try:
        yield
    finally:
        cloudpickle.unregister_pickle_by_value(there)


def _need(kills: int) -> None:
    if type(kills) is not int or kills < 0:
        raise UsageError("TT402", f"kills is {show(kills)}", fix="give a whole number")


# --------------------------------------------------------------------------------------------------------- sources


def try_source(source: Source, expected: Rows | None, kills: int, seed: int) -> int:
    """Read a source to its end again and again. The number of kills. Raises :class:`LawBroken` ``TT315``."""
    _need(kills)
    choice = random.Random(seed)
    with _rig(f"source {type(source).__name__}", source) as rig:
        place = rig.place()
        rig.run(Reading(source), place)
        lines = Log(place).of("lines")[-1]
        whole = _check_reading(rig, source, place)
        _compare_all(rig, whole, expected)
        done = 0
        while lines and done < kills:
            place = rig.place()
            while done < kills and not rig.run(Reading(source), place, rig.kill_point(lines, choice)):
                done += 1
            rig.run(Reading(source), place)
            rows = _check_reading(rig, source, place)
            if rows != whole:
                raise rig.broken("a run that is killed reads other rows than one that is not", _difference(whole, rows))
    return done


def _check_reading(rig: Rig, source: Source, place: Path) -> list[str]:
    """Read all epochs of a run again, in another process. Their rows."""
    rig.run(Rereading(source), place)
    log = Log(place)
    identities = log.of("identity")
    if len({*map(str, identities)}) > 1:
        raise rig.broken("its identity is another one in each process", f"{show(identities[0])}, then {show(identities[-1])}")
    begun = log.of("begun")
    rows: list[str] = []
    numbers: list[int] = []
    for number, (since, until) in enumerate(begun):
        first, again = (json.loads((place / f"{name}-{number}").read_text(encoding="utf-8")) for name in ("rows", "again"))
        where = f"between the offsets {json.dumps(since)} and {json.dumps(until)}"
        if [one for one, _ in first] != [one for one, _ in again]:
            raise rig.broken(f"it has other splits {where} when it is asked again", _difference(_numbers(first), _numbers(again)))
        if first != again:
            raise rig.broken(f"it has other rows {where} when it reads them again", _difference(_rows(first), _rows(again)))
        numbers += [one for one, _ in first]
        rows += _rows(first)
    if wrong := next((pair for pair in pairwise(numbers) if pair[0] >= pair[1]), None):
        raise rig.broken("the numbers of its splits do not rise", f"{wrong[1]} comes behind {wrong[0]}")
    whole = _rows(json.loads((place / "whole").read_text(encoding="utf-8")))
    if whole != rows:
        what = "its epochs have other rows than it has between the first offset and the last one"
        raise rig.broken(what, _difference(whole, rows))
    return rows


def _compare_all(rig: Rig, rows: list[str], expected: Rows | None) -> None:
    wanted = rows if expected is None else [line_of(dict(one)) for one in expected]
    if Counter(wanted) != Counter(rows):
        lost = Counter(wanted) - Counter(rows)
        raise rig.broken("it loses rows" if lost else "it gives rows twice, or rows that it has not", _difference(wanted, rows))
    if wanted != rows:
        raise rig.broken("it gives rows in another order", _difference(wanted, rows))


def _rows(splits: list[tuple[int, list[str]]]) -> list[str]:
    return [row for _, rows in splits for row in rows]


def _numbers(splits: list[tuple[int, list[str]]]) -> list[str]:
    return [f"split {number}" for number, _ in splits]


def _difference(wanted: list[str], found: list[str]) -> str:
    """What two lists differ in, shortly."""
    lost, more = (list((Counter(one) - Counter(other)).elements()) for one, other in ((wanted, found), (found, wanted)))
    parts = [f"{len(some):,} {what}, such as {some[0]}" for some, what in ((lost, "lost"), (more, "too many")) if some]
    return "; ".join(parts) or "the order differs"


# ----------------------------------------------------------------------------------------------------------- sinks


def try_sink(open: Callable[[SinkRequest], Sink], address: str, stored: Callable[[], Rows], kills: int, seed: int) -> int:
    """Write to a sink again and again. The number of kills. Raises :class:`LawBroken` ``TT315``."""
    _need(kills)
    choice = random.Random(seed)
    before = Counter(line_of(dict(one)) for one in stored_rows(stored))
    name = getattr(open, "__name__", type(open).__name__)
    with _rig(f"sink {name}", open) as rig:
        runs = 0

        def request() -> SinkRequest:
            return SinkRequest(address=address, run=uuid.uuid4().hex[:8], sink="trial", schema=SCHEMA)

        def look(run: int, begun: int, ended: int) -> None:
            found = Counter(line_of(dict(one)) for one in stored_rows(stored)) - before
            _check_stored(rig, found, run, begun, ended)

        def write(ask: SinkRequest, place: Path, kill_at: tuple[str, int] | None = None) -> bool:
            over = rig.run(Writing(open, ask, runs, choice.randrange(1, 2**60)), place, kill_at)
            log = Log(place)
            for epoch, last, _ in log.of("last"):
                if last != epoch:
                    raise rig.broken(f"last() is {last} behind epoch {epoch}", "")
            look(runs, max(log.of("begun"), default=-1), len(log.of("ended")) - 1)
            return over

        ask, place = request(), rig.place()
        write(ask, place)
        lines = Log(place).of("lines")[-1]
        _forget_last_epoch(place)
        write(ask, place)
        runs += 1
        place = rig.place()
        rig.run(Fencing(open, request(), runs), place)
        for what in Log(place).of("broken"):
            raise rig.broken(what, "")
        look(runs, 1, 1)
        done = 0
        while lines and done < kills:
            runs += 1
            ask, place = request(), rig.place()
            while done < kills and not write(ask, place, rig.kill_point(lines, choice)):
                done += 1
            write(ask, place)
    return done


def stored_rows(stored: Callable[[], Rows]) -> Rows:
    """What a sink has: dictionaries, or an Arrow table."""
    rows: Any = stored()
    return rows.to_pylist() if hasattr(rows, "to_pylist") else rows  # type: ignore[no-any-return]


def _forget_last_epoch(place: Path) -> None:
    """As if the process had been killed when the sink had the last epoch, and the checkpoint did not say so."""
    log = Log(place)
    kept = [one for one in log.entries if one.get("ended") != EPOCHS - 1 and "finished" not in one]
    log.path.write_text("".join(json.dumps(one) + "\n" for one in kept), encoding="utf-8")


def _check_stored(rig: Rig, found: Counter[str], run: int, begun: int, ended: int) -> None:
    """``begun``, ``ended``: the last epoch of a run that was begun, and that was committed."""
    for epoch in range(EPOCHS):
        wanted = [line_of(one) for one in rows_of(run, epoch)]
        there = sum(found[one] > 0 for one in wanted)
        where = f"of the {len(wanted)} rows of epoch {epoch} {there} are there"
        if any(found[one] > 1 for one in wanted):
            raise rig.broken("an epoch that is written again is there twice", f"epoch {epoch}")
        if there < len(wanted) and epoch <= ended:
            raise rig.broken("it loses rows of an epoch that it has written", where)
        if 0 < there < len(wanted):
            raise rig.broken("an epoch is visible in part: it is not one transaction", where)
        if there and epoch > begun:
            raise rig.broken("it has rows of an epoch that nobody has written", where)
