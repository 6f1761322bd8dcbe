"""A flow that is drained emits all that it holds back, also where it reads operators that another flow has started.

Behind the end of its inputs there is as much silence as the operators of this flow wait for, not those of the other one.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from tests.workspace.clicks import Click, answer, rows, write
from tracetypes import Dataflow, U, every
from tracetypes.compiler.workspace import new_flows
from tracetypes.stdlib import filter, map_values, sum, tumbling
from tracetypes.workspace import Workspace


def sums_of_sums(name: str, *sizes: int) -> Dataflow:
    """Sums in windows of 300 seconds, and these again in longer ones, each with a sink."""
    flow = Dataflow(name)
    how = every(seconds=60, time=lambda click: click.ts)
    clicks = flow.source("clicks", U[str, Click], key=lambda click: click.user, markers=how)
    for size in sizes:
        amounts = clicks.through(filter(lambda key, click: click.amount > 0)).through(map_values(lambda c: c.amount, to=int))
        sums = amounts.through(tumbling(sum(of=lambda amount: amount, to=int), size=300))
        if size == 300:
            flow.sink("every_300", sums, marker="at")
            continue
        flow.sink(f"every_{size}", sums.through(tumbling(sum(of=lambda total: total, to=int), size=size)), marker="at")
    return flow


def longer(clicks: list[Click], size: int) -> list[tuple[int, str, int]]:
    """What windows of this size answer. The sum of a window of 300 seconds comes at its end, in the block of that time."""
    found: dict[tuple[int, str], int] = defaultdict(int)
    for end, user, total in answer(clicks):
        found[((end - 60) // size + 1) * size, user] += total
    return sorted((end, user, total) for (end, user), total in found.items())


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Code is not copied: it would be all tests."""
    monkeypatch.setattr(new_flows, "sources_of_launch", lambda launch: None)
    return tmp_path


def come(home: Path) -> list[Click]:
    clicks = [Click(f"u{n % 3}", 10 * n, n % 7) for n in range(70)]
    write(home / "clicks", 0, clicks)
    return clicks


@pytest.mark.parametrize("is_left", [False, True])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_flow_that_joins_may_wait_for_longer(home: Path, *, is_left: bool, restarts: bool) -> None:
    """``is_left``: the flow that started the operators has left before."""
    clicks = come(home)
    workspace = Workspace(home / "workspace")
    try:
        workspace.submit("ann", sums_of_sums("ann", 300), {"clicks": home / "clicks"}, {"every_300": home / "ann"})
        outputs = {"every_1800": home / "bob"}
        workspace.submit("bob", sums_of_sums("bob", 1800), {"clicks": home / "clicks"}, outputs, start="earliest")
        assert workspace.show()["bob"].shared > 1
        workspace.wait()
        if is_left:
            workspace.remove("ann", drain=True)
        if restarts:
            workspace.close()
            workspace = Workspace(home / "workspace")
        workspace.remove("bob", drain=True)
        if not is_left:
            workspace.remove("ann", drain=True)
    finally:
        workspace.close()
    assert rows(home / "bob") == longer(clicks, 1800) != []
    assert rows(home / "ann") == answer(clicks)


def test_a_flow_may_have_an_operator_twice(home: Path) -> None:
    """It runs once, and its readers wait for different times."""
    clicks = come(home)
    with Workspace(home / "workspace") as workspace:
        outputs = {f"every_{size}": home / str(size) for size in (600, 1800)}
        workspace.submit("bob", sums_of_sums("bob", 600, 1800), {"clicks": home / "clicks"}, outputs)
        workspace.wait()
        assert workspace.show()["bob"].operators == 8  # of 11
        workspace.remove("bob", drain=True)
    for size in (600, 1800):
        assert rows(home / str(size)) == longer(clicks, size) != []
