"""A channel that is damaged before it is read, on Spark. ``tests/local/test_damage.py`` has the rest."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark import dags
from tests.spark.test_rescale import Growing
from tracetypes import RunError
from tracetypes.compiler.store.run_store import RunStore


def flipped(data: bytes) -> bytes:
    at = len(data) // 2
    return data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]


DAMAGES: list[tuple[str, Callable[[bytes], bytes]]] = [("manifests", lambda _: b""), ("rows", flipped)]


@pytest.mark.nightly  # tests/local/test_damage.py damages such a channel every time
def test_TT225_a_channel_that_is_not_read_yet(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Growing(spark, tmp_path, dags.two_sinks())
    job.more(2)
    commit = RunStore.commit

    def dies(self: RunStore, epoch: int, record: dict[str, Any]) -> None:
        if self.path.name in {sink.name for sink in job.checked.graph.sinks}:
            raise OSError("no space")
        commit(self, epoch, record)

    with monkeypatch.context() as broken:
        broken.setattr(RunStore, "commit", dies)
        with pytest.raises(RunError, match="no space"):
            job(2)
    checkpoint, kept = tmp_path / "checkpoint", tmp_path / "kept"
    shutil.copytree(checkpoint, kept)
    for directory, damage in DAMAGES:
        shutil.rmtree(checkpoint)
        shutil.copytree(kept, checkpoint)
        files = sorted(checkpoint.glob(f"channels/*/{directory}/*"))
        for file in files if directory == "rows" else files[-1:]:  # some rows may be of an attempt, and in no manifest
            file.write_bytes(damage(file.read_bytes()))
        with pytest.raises(RunError, match=r"TT225 .*channel"):
            job(2, drain=True)
    shutil.rmtree(checkpoint)
    shutil.copytree(kept, checkpoint)
    job(2, drain=True)
    job.is_right()
