"""Nothing that a run writes holds a secret: checkpoint, messages, metrics, pictures, and what Java and Python workers print."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.support import Cli, row, write_lines

FLOWS = "tests.spark.planted"
SECRET = re.compile(rb"PLANTED-\d+")


def written(path: Path) -> dict[str, bytes]:
    """The files below a directory, but for what the user gave."""
    given = (path / "in", path / "config")
    files = [one for one in path.rglob("*") if one.is_file() and not any(one.is_relative_to(there) for there in given)]
    return {str(one.relative_to(path)): one.read_bytes() for one in files}


@pytest.fixture
def said(spark: SparkSession, cli: Cli, tmp_path: Path) -> Iterator[list[str]]:
    """Put into it what commands say. In the end all of it, and all that was written, is searched for secrets."""
    texts: list[str] = []
    yield texts
    settings = spark.sparkContext.getConf().get("spark.driver.extraJavaOptions") or ""
    properties = re.search(r"log4j2.configurationFile=file:(\S+)", settings)
    assert properties is not None
    log = Path(properties[1]).with_name("jvm.log")
    found = {**written(tmp_path), "jvm.log": log.read_bytes(), "messages": "\n".join(texts).encode()}
    assert {name: secrets for name, data in found.items() if (secrets := SECRET.findall(data))} == {}


def test_no_secret_in_what_a_run_writes(cli: Cli, tmp_path: Path, said: list[str]) -> None:
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    write_lines(tmp_path / "in" / "0.jsonl", [*(row(id="a", ts=n, watts=1) for n in range(30)), "{"], at=1)

    def run(target: str, *more: str) -> tuple[int, str]:
        ran = cli(
            *("run", f"{FLOWS}:{target}", "-i", f"readings={tmp_path / 'in'}", "-o", f"sums={out}"),
            *("--checkpoint", checkpoint, "--metrics", tmp_path / "metrics", "--progress", "operators", *more),
        )
        said.append(ran.out + ran.err)
        return ran.code, ran.err

    assert run("flow", "--no-drain")[0] == 0
    assert b"SEEN-1" in (checkpoint / "graph.json").read_bytes()  # the search finds what may be shown
    assert (checkpoint / "key").stat().st_mode & 0o777 == 0o600
    code, err = run("other")
    assert (code, "TT211" in err, "Counted.hidden" in err or "hidden:" in err) == (1, True, True)
    write_lines(tmp_path / "in" / "1.jsonl", [row(id="a", ts=40, watts=13)], at=2)
    code, err = run("flow")
    assert (code, "SEEN-3: no answer from postgres://u:***@db/x for ***, ***" in err) == (1, True)
    assert len(written(tmp_path)) > 20
    for ending in ("svg", "html"):
        said.append(cli("graph", f"{FLOWS}:flow", "-o", tmp_path / f"flow.{ending}").err)
        assert "SEEN-1" in (tmp_path / f"flow.{ending}").read_text()
    said += [cli(command, f"{FLOWS}:flow").out for command in ("check", "explain")]
    ran = cli("state", checkpoint, f"{FLOWS}:flow", "--key", "a")
    said.append(ran.out + ran.err)
    assert "30" in ran.out


@pytest.mark.skipif(importlib.util.find_spec("psycopg") is None, reason="psycopg is not installed")
def test_no_secret_of_a_database_that_cannot_be_reached(cli: Cli, tmp_path: Path, said: list[str]) -> None:
    write_lines(tmp_path / "in" / "0.jsonl", [row(id="a", ts=1, watts=1)])
    ran = cli("run", f"{FLOWS}:asking", "-i", f"readings={tmp_path / 'in'}", "-o", f"sums={tmp_path / 'out'}")
    said.append(ran.out + ran.err)
    assert (ran.code, "TT215" in ran.err, "SEEN-4" in ran.err or "port 1" in ran.err) == (1, True, True)


@pytest.mark.skipif(importlib.util.find_spec("confluent_kafka") is None, reason="confluent_kafka is not installed")
def test_no_secret_of_settings_that_no_client_takes(cli: Cli, tmp_path: Path, said: list[str]) -> None:
    config = tmp_path / "config" / "kafka.conf"
    write_lines(config, ["sasl.password=PLANTED-10", "ssl.key.password=PLANTED-11", "security.protocl=PLANTED-12"])
    words = ["run", f"{FLOWS}:flow", "-i", f"readings=kafka://127.0.0.1:1/t?config={config}"]
    ran = cli(*words, "-o", f"sums={tmp_path / 'out'}")
    said.append(ran.out + ran.err)
    assert (ran.code, f"TT402 {config}: " in ran.err) == (2, True)
