"""The paper's flows in a workspace that runs: it counts the tasks that the paper and an independent count have found."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks._reuse_flows import OPMW
from benchmarks._reuse_workloads import Tally, Workload, opmw_workload, riot_workload, submit
from examples.opmw import pi
from tracetypes.workspace import Workspace


def tallies(workload: Workload, home: Path, *, alone: bool = False) -> tuple[Tally, Tally]:
    """With all flows, and when all have gone."""
    for feed in workload.feeds:
        (home / "feeds" / feed).mkdir(parents=True)
        (home / "feeds" / feed / "0.jsonl").write_text("".join(workload.rows(feed, 3, 1, 0)))
    with Workspace(home / "workspace") as workspace:
        for flow in workload.flows.values():
            submit(workspace, flow, home / "feeds", None, alone=alone)
        full = Tally.of(workspace, workload)
        for name in workload.flows:
            workspace.remove(name)
        empty = Tally.of(workspace, workload)
        assert not workspace.show().segments
    assert not list((home / "workspace" / "channels").iterdir())
    assert not list((home / "workspace" / "segments").iterdir())
    return full, empty


def test_riot(tmp_path: Path) -> None:
    full, empty = tallies(riot_workload(), tmp_path)
    assert full == Tally(flows=21, types=19, alone=138, de_duplicated=138, merged=75, running=75)
    assert empty == Tally(0, 0, 0, 0, 0, 0)


@pytest.mark.nightly
def test_riot_with_sharing_off(tmp_path: Path) -> None:
    full, _ = tallies(riot_workload(), tmp_path, alone=True)
    assert full == Tally(flows=21, types=19, alone=138, de_duplicated=138, merged=138, running=138)


@pytest.mark.skipif(not OPMW.exists(), reason="there is no ../shared/data/opmw_fragflow")
@pytest.mark.parametrize(
    ("only_processes", "tally"),
    [
        (True, Tally(flows=22, types=28, alone=91, de_duplicated=79, merged=51, running=51)),
        pytest.param(
            False, Tally(flows=22, types=43, alone=271, de_duplicated=215, merged=113, running=113), marks=pytest.mark.nightly
        ),
    ],
)
def test_opmw(only_processes: bool, tally: Tally, tmp_path: Path) -> None:
    full, _ = tallies(opmw_workload(only_processes=only_processes), tmp_path)
    assert full == tally


def test_pi() -> None:
    assert abs(pi(24, 2.0) - 3.141592653589793) < 1e-12
