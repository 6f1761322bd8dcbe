"""Checkpoints that are damaged while the output is a topic, which cannot be put back: a run that is refused writes nothing to
it, and a run that goes on completes it. ``test_damage.py`` has the other outputs."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.local.test_damage import LAST, OF_EPOCHS, Case, Life, damages, judged, keyed, kinds, not_ended, straight
from tests.spark.broker import Broker, running
from tests.spark.maven import Unavailable
from tracetypes import Dataflow, RunError

WAYS = ("gone", "halved", "flipped", "older")


class Topic(Life):
    """Runs whose output is a topic."""

    def __init__(self, place: Path, case: Case, broker: Broker, topic: str) -> None:
        super().__init__(place, case)
        self.broker, self.topic = broker, topic
        self.address = broker.create(topic, 1)

    def address_of(self, sink: str) -> str:
        return self.address

    def answer(self) -> Counter[str]:
        return Counter(repr(one.value) for one in self.broker.read(self.topic))


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    try:
        with running() as one:
            yield one
    except Unavailable as why:
        pytest.skip(str(why))


@pytest.mark.parametrize("of", [straight, pytest.param(keyed, marks=pytest.mark.nightly)])
def test_every_record_of_epochs(tmp_path: Path, broker: Broker, of: Callable[[], Dataflow]) -> None:
    numbers, case = count(), Case(of, OF_EPOCHS, not_ended)

    def begun() -> tuple[Topic, Path, Path]:
        number = next(numbers)
        life = Topic(tmp_path / f"run{number}", case, broker, f"damaged-{of.__name__}-{number}")
        life.run(0)
        life.run(1)
        older = life.keep("older")
        with case.crash():
            life.run(2)
        return life, older, life.keep("newer")

    life, _, _ = begun()
    life.run(LAST)
    wanted = life.answer()
    assert wanted
    life, older, newer = begun()
    wrong: list[str] = []
    for at in range(len(kinds(newer, case.files))):
        # Each record in half of the ways, in turn: the program that runs nightly has it in all.
        for way in WAYS if of is keyed else WAYS[at % 2 :: 2]:
            file = kinds(newer, case.files)[at]
            found = dict(damages(newer / file, older / file, Path("none")))
            name = next((what for what in found if what.startswith(way)), None)
            if name is None:
                continue
            life.put_back(newer)
            content, before = found[name], life.answer()
            if content is None:
                (life.place / file).unlink()
            else:
                (life.place / file).write_bytes(content)
            problem, after = judged(life, wanted), life.answer()
            if problem is not None or after not in (before, wanted):
                wrong.append(f"{file} {name}: {problem or 'it was refused, and has written'}")
            if after != before:
                life, older, newer = begun()
    assert not wrong, "\n".join(wrong)


def test_TT227_a_checkpoint_that_is_older_than_its_topic(tmp_path: Path, broker: Broker) -> None:
    life = Topic(tmp_path / "run", Case(straight), broker, "older")
    life.run(0)
    older = life.keep("older")
    life.run(1)
    before = life.answer()
    shutil.rmtree(life.checkpoint)
    shutil.copytree(older / "ck", life.checkpoint)
    with pytest.raises(RunError, match=r"TT2(09|27)"):
        life.run(LAST)
    assert life.answer() == before
