"""The local backend reads and writes what is on this machine: remote file systems are refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

import tracetypes
from tests.spark.flows import Reading, here, sums
from tests.spark.support import Cli
from tracetypes import UsageError

REMOTE = ["s3a://bucket/rows", "hdfs://host:8020/rows"]


def refusals(address: str) -> dict[str, str]:
    """What is said of an address, as an input and as an output."""
    return {
        "input": (
            f"TT402 this backend cannot run sums:\n    source 'readings' reads {address}, which is not on this machine's disks\n"
            "    fix:      choose another backend, or do without that"
        ),
        "output": f"TT402 --output {address} is not local\n    fix:      give a directory of a local or mounted disk",
    }


@pytest.mark.parametrize("address", REMOTE)
def test_TT402_a_remote_file_system(address: str, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """From Python and on the command line, before anything is written."""
    monkeypatch.chdir(tmp_path)
    said = refusals(address)
    with pytest.raises(UsageError) as refused:
        tracetypes.run(sums, {"readings": address}, {"sums": []}, backend="local")
    assert str(refused.value) == said["input"]
    with pytest.raises(UsageError) as refused:
        tracetypes.run(sums, {"readings": [Reading("a", 1, 5)]}, {"sums": address}, backend="local")
    assert str(refused.value) == said["output"]
    options = ("run", here("sums"), "--backend", "local")
    for what, source, sink in (("input", address, "out"), ("output", "in.jsonl", address)):
        ran = cli(*options, "-i", f"readings={source}", "-o", f"sums={sink}")
        assert (ran.code, ran.out, ran.err) == (2, "", f"tracetypes: {said[what]}\n")
    assert not list(tmp_path.iterdir())
