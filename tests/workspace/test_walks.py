"""Random walks: flows come and go, the process dies at any moment and goes on. No answer differs from the one counted by hand."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from tests.pages import ROOT
from tests.workspace.clicks import Click, answer, rows
from tests.workspace.walker import DELAY, Walk


@attrs.frozen
class Walker:
    """The process that takes steps, and dies."""

    process: subprocess.Popen[str]

    def take(self, home: Path, steps: list[dict[str, Any]], die: int = 0) -> dict[str, Any]:
        """Open the workspace and take the steps that are left."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"home": str(home), "steps": steps, "die": die}) + "\n")
        self.process.stdin.flush()
        said: dict[str, Any] = json.loads(self.process.stdout.readline())
        assert said["status"] in ("done", "died"), said["status"]
        return said


@pytest.fixture(scope="module")
def walker() -> Iterator[Walker]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.workspace.walker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    yield Walker(process)
    process.kill()
    process.communicate()


class Steps:
    """Steps of a random walk."""

    def __init__(self, seed: int) -> None:
        self.drawn = random.Random(seed)
        self.steps: list[dict[str, Any]] = []
        self.now = self.files = self.flows = 0
        self.there: list[str] = []

    def come(self) -> None:
        """A file of clicks. Times are out of order by less than the delay."""
        until = self.now + self.drawn.choice((60, 300, 600))
        clicks = []
        for at in sorted(self.drawn.randrange(self.now, until) for _ in range(30)):
            ts = max(self.now, at - self.drawn.randrange(DELAY // 2))
            clicks.append([f"u{self.drawn.randrange(3)}", ts, self.drawn.randrange(-5, 20)])
        self.now = until
        self.steps.append({"do": "come", "number": self.files, "clicks": clicks})
        self.files += 1

    def submit(self) -> None:
        name = f"f{self.flows}"
        self.flows += 1
        flow: dict[str, Any] = {"size": self.drawn.choice((300, 600)), "least": self.drawn.choice((0, 0, 5))}
        flow["changes"] = self.drawn.random() < 0.5
        how = self.drawn.choice(({}, {}, {"share": "exact"}, {"start": "earliest"}, {"backfill": True}))
        whole = {**how, "wait": self.drawn.random() < 0.5}
        self.steps.append({"do": "submit", "name": name, "flow": flow, "how": whole})
        self.there.append(name)

    def remove(self) -> None:
        name = self.there.pop(self.drawn.randrange(len(self.there)))
        how = {"drain": self.drawn.random() < 0.5, "wait": self.drawn.random() < 0.5}
        self.steps.append({"do": "remove", "name": name, **how})

    def wait(self) -> None:
        self.steps.append({"do": "wait"})

    def walk(self, count: int, most: int) -> list[dict[str, Any]]:
        """So many steps, with at most so many flows at once. In the end all flows go."""
        self.come()
        self.submit()
        while len(self.steps) < count:
            what = self.drawn.choice((self.come, self.come, self.submit, self.submit, self.remove, self.wait))
            if not (what == self.remove and not self.there) and not (what == self.submit and len(self.there) >= most):
                what()
        self.come()
        self.wait()
        while self.there:
            self.remove()
        return self.steps


def compare(home: Path) -> int:
    """Compare the outputs of all flows with what is counted by hand. Returns how many rows there are."""
    walk = Walk(home)
    clicks, total = walk.clicks, 0
    submits: dict[str, dict[str, Any]] = {}
    files = waited = 0
    closed: dict[str, int] = {}
    counts: dict[str, int] = {}
    upto: list[int] = []
    drained: set[str] = set()
    for step in walk.done:
        match step["do"]:
            case "come":
                upto.append(max(one[1] for one in step["clicks"]))
                files += 1
            case "submit":
                submits[step["name"]] = step
            case "wait":
                waited = (max(upto) - DELAY) // 60 * 60
                closed |= dict.fromkeys(submits.keys() - counts.keys(), waited)
            case _:
                counts[step["name"]] = step["clicks"]
                if step["drain"]:
                    drained.add(step["name"])
    assert counts.keys() == submits.keys()
    for name, step in submits.items():
        found = rows(home / name)
        expected = answer(clicks[: counts[name]], **step["flow"], **step["begins"])
        if name in drained:
            assert found == expected, (name, step)
        last = max((end for end, _, _ in found), default=0)
        assert found == [one for one in expected if one[0] <= last], (name, step)
        missing = [one for one in expected if last < one[0] <= closed.get(name, 0)]
        assert not missing, (name, step)
        total += len(found)
    left = [one for one in (home / "workspace").rglob("*") if one.is_file() and one.parent.name != "_lock"]
    assert all(one.name.startswith("workspace.db") for one in left), left
    return total


def shown(clicks: list[Click]) -> list[list[Any]]:
    return [[one.user, one.ts, one.amount] for one in clicks]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(1, 12))])
def test_a_walk_with_deaths(seed: int, walker: Walker, tmp_path: Path) -> None:
    drawn = random.Random(seed)
    steps = Steps(seed).walk(30 if seed == 0 else 100, 6 if seed == 0 else 20)
    deaths = 0
    for _ in range(40):
        said = walker.take(tmp_path, steps, drawn.randrange(1, 400))
        if said["status"] == "done":
            break
        deaths += 1
    else:
        walker.take(tmp_path, steps)
    assert deaths
    assert compare(tmp_path) > 0


SCENE = Steps(3)
"""Two flows share, the first one goes, a third one joins, all are drained."""
SCENE.come()
for _name, _changes in (("ann", False), ("bob", True)):
    SCENE.steps.append({"do": "submit", "name": _name, "flow": {"changes": _changes}, "how": {}})
    SCENE.come()
    SCENE.wait()
SCENE.steps.append({"do": "remove", "name": "ann", "drain": True})
SCENE.come()
SCENE.steps.append({"do": "submit", "name": "cat", "flow": {"size": 600}, "how": {"share": "exact"}})
SCENE.come()
SCENE.wait()
for _name in ("bob", "cat"):
    SCENE.steps.append({"do": "remove", "name": _name, "drain": True})


@pytest.mark.nightly
def test_every_point_of_death(walker: Walker, tmp_path: Path) -> None:
    passed = walker.take(tmp_path / "whole", SCENE.steps)["passed"]
    for die in range(1, passed + 1):
        home = tmp_path / str(die)
        walker.take(home, SCENE.steps, die)
        walker.take(home, SCENE.steps)
        assert compare(home) > 0


def test_some_points_of_death(walker: Walker, tmp_path: Path) -> None:
    passed = walker.take(tmp_path / "whole", SCENE.steps)["passed"]
    whole = compare(tmp_path / "whole")
    assert whole > 5
    for die in sorted(random.Random(0).sample(range(1, passed), 3)):
        home = tmp_path / str(die)
        walker.take(home, SCENE.steps, die)
        walker.take(home, SCENE.steps)
        assert compare(home) > 0
