"""``docs/deploy.md`` and ``tracetypes submit-files``: what the page shows can be read, and the archive runs alone."""

from __future__ import annotations

import ast
import configparser
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.pages import ROOT, blocks
from tests.test_packaging import link_distribution, requirements
from tracetypes import cli

PAGE = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
PROGRAM = """
from __future__ import annotations
import attrs
from tracetypes import Dataflow, U, every, stdlib

@attrs.frozen
class Click:
    page: str
    ts: int

def twice(count: int) -> int:
    return count * 2

counts = Dataflow("counts")
source = counts.source("clicks", U[str, Click], key=lambda c: c.page, markers=every(seconds=10, time=lambda c: c.ts))
counts.sink("counts", source.through(stdlib.aggregate(stdlib.count())).through(stdlib.map_values(twice)))
"""
ROWS = '{"page": "a", "ts": 1}\n{"page": "a", "ts": 2}\n{"page": "b", "ts": 12}\n'
WANTED = ['{"key":"a","value":4}', '{"key":"b","value":2}']


def submit_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[Path, Path, str]:
    assert cli.main(["submit-files", str(folder)]) == 0
    return folder / "tracetypes.zip", folder / "job.py", capsys.readouterr().out


def flow_in(folder: Path) -> None:
    (folder / "flows.py").write_text(PROGRAM)
    (folder / "in.jsonl").write_text(ROWS)
    with zipfile.ZipFile(folder / "flows.zip", "w") as archive:
        archive.write(folder / "flows.py", "flows.py")
    (folder / "flows.py").unlink()


def rows_of(folder: Path) -> list[str]:
    return sorted(line for file in folder.glob("part-*") for line in file.read_text().splitlines())


def environment(folder: Path, extra: str) -> Path:
    """A Python with what tracetypes needs, and without it."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for name in sorted(requirements("tracetypes", frozenset({extra}))):
        link_distribution(name, site)
    return folder / "bin" / "python"


def without_python() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TRACETYPES", "SPARK"))}


def test_the_archive_has_all_of_the_package_and_is_the_same_each_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive, starter, said = submit_files(tmp_path / "one", capsys)
    assert said.startswith(f"spark-submit --py-files {archive} {starter} ")
    names = zipfile.ZipFile(archive).namelist()
    of_folders = ("compiler/spark/transform.py", "stdlib/windows.py", "compiler/workspace/service/page.js")
    for name in ("__init__.py", "py.typed", *of_folders):
        assert f"tracetypes/{name}" in names
    assert not [name for name in names if "__pycache__" in name or ".." in name]
    assert submit_files(tmp_path / "two", capsys)[0].read_bytes() == archive.read_bytes()
    (tmp_path / "file").write_text("")
    assert cli.main(["submit-files", str(tmp_path / "file" / "below")]) == 2
    assert "TT402" in capsys.readouterr().err


def test_the_archive_runs_where_tracetypes_is_not_installed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive, starter, _ = submit_files(tmp_path / "submit", capsys)
    flow_in(tmp_path)
    python = environment(tmp_path / "venv", "local")
    alone = subprocess.run([str(python), "-c", "import tracetypes"], capture_output=True, env=without_python(), cwd=tmp_path)
    assert b"ModuleNotFoundError" in alone.stderr
    words = [str(starter), "flows:counts", "--backend", "local", "-i", "clicks=in.jsonl", "-o", "counts=out"]
    path = os.pathsep.join([str(archive), str(tmp_path / "flows.zip")])
    env = {**without_python(), "PYTHONPATH": path}
    done = subprocess.run([str(python), *words], capture_output=True, text=True, env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert rows_of(tmp_path / "out") == WANTED


@pytest.mark.nightly
@pytest.mark.spark
def test_spark_submit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A real one, where tracetypes is not installed. A second start goes on with new rows."""
    archive, starter, _ = submit_files(tmp_path / "submit", capsys)
    flow_in(tmp_path)
    python = environment(tmp_path / "venv", "spark")
    submit = next((tmp_path / "venv").glob("lib/python*/site-packages/pyspark/bin/spark-submit"))
    env = {**without_python(), "PYSPARK_PYTHON": str(python), "SPARK_HOME": str(submit.parent.parent)}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [str(submit), "--master", "local[2]", "--py-files", f"{archive},{tmp_path / 'flows.zip'}", str(starter)]
        inputs = ["flows:counts", "--parallelism", "2", "-i", "clicks=in.jsonl", "-o", "counts=out"]
        return subprocess.run([*command, *inputs, *words], capture_output=True, text=True, env=env, cwd=tmp_path)

    done = run()
    assert done.returncode == 0, done.stderr
    assert rows_of(tmp_path / "out") == WANTED
    wrong = run("--late")
    assert wrong.returncode != 0


# ------------------------------------------------------------------------------------------------------- the page


def test_the_commands_of_the_page_are_those_of_the_command_line() -> None:
    text = PAGE.replace("\\\n", " ")
    options = set(re.findall(r"(?:tracetypes run|job\.py)[^\n]*", text))
    assert len(options) > 2
    known = set(re.findall(r"--[a-z-]+", subprocess.run(
        [sys.executable, "-m", "tracetypes", "run", "--help"], capture_output=True, text=True, check=True
    ).stdout))
    for line in options:
        words = line.partition("job.py" if "job.py" in line else "tracetypes run")[2]
        assert set(re.findall(r"(?<= )--[a-z-]+", words)) <= known, line


def test_the_container() -> None:
    (text,) = blocks(PAGE, "dockerfile")
    lines = text.replace("\\\n", "").splitlines()
    assert [line.split()[0] for line in lines] == ["FROM", "USER", "COPY", "ENV", "RUN", "COPY", "USER"]
    assert lines[-1].split()[1] != "root"
    if shutil.which("hadolint"):
        subprocess.run(["hadolint", "-"], input=text, text=True, check=True)


def test_the_manifest() -> None:
    yaml: Any = pytest.importorskip("yaml", reason="PyYAML is not installed")
    (text,) = blocks(PAGE, "yaml")
    by_kind = {one["kind"]: one for one in yaml.safe_load_all(text)}
    assert all(one["apiVersion"] and one["metadata"]["name"] for one in by_kind.values())
    account, claim = by_kind["ServiceAccount"]["metadata"]["name"], by_kind["PersistentVolumeClaim"]["metadata"]["name"]
    role = by_kind["RoleBinding"]
    assert role["roleRef"]["name"] == by_kind["Role"]["metadata"]["name"]
    assert role["subjects"] == [{"kind": "ServiceAccount", "name": account}]
    driver = by_kind["StatefulSet"]["spec"]
    pod, labels = driver["template"]["spec"], driver["template"]["metadata"]["labels"]
    assert driver["selector"]["matchLabels"] == labels == by_kind["Service"]["spec"]["selector"]
    assert driver["serviceName"] == by_kind["Service"]["metadata"]["name"]
    assert driver["replicas"] == 1
    assert pod["serviceAccountName"] == account
    volumes = {one["name"]: one for one in pod["volumes"]}
    assert volumes["shared"]["persistentVolumeClaim"]["claimName"] == claim
    (container,) = pod["containers"]
    assert {one["name"] for one in container["volumeMounts"]} == set(volumes)
    settings = dict(word.removeprefix("--conf=").split("=", 1) for word in container["command"] if word.startswith("--conf="))
    assert settings["spark.kubernetes.container.image"] == container["image"]
    assert settings["spark.kubernetes.authenticate.serviceAccountName"] == account
    assert settings["spark.driver.host"] == by_kind["Service"]["metadata"]["name"]
    where = "spark.kubernetes.executor.volumes.persistentVolumeClaim.shared"
    assert settings[f"{where}.options.claimName"] == claim
    mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    assert settings[f"{where}.mount.path"] == mounts["shared"]
    cores = int(settings["spark.executor.instances"]) * int(settings["spark.executor.cores"])
    assert f"--parallelism={cores}" in container["command"]


def test_the_unit(tmp_path: Path) -> None:
    (text,) = blocks(PAGE, "ini")
    unit = configparser.ConfigParser(strict=True)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(text)
    assert unit.sections() == ["Unit", "Service", "Install"]
    assert int(unit["Service"]["TimeoutStopSec"]) > 0
    assert unit["Service"]["ExecStart"].split()[0].endswith("/bin/tracetypes")
    if shutil.which("systemd-analyze"):
        file = tmp_path / "counts.service"
        file.write_text(text.replace("/srv/counts/venv/bin/tracetypes", sys.executable).replace("User=counts", "User=root"))
        done = subprocess.run(["systemd-analyze", "verify", str(file)], capture_output=True, text=True)
        assert "counts.service" not in done.stderr, done.stderr


def test_the_task() -> None:
    (text,) = (block for block in blocks(PAGE, "python") if "airflow" in block)
    tree = ast.parse(text)
    (flow,) = (one for one in tree.body if isinstance(one, ast.FunctionDef))
    assert "max_active_runs=1" in ast.unparse(flow.decorator_list[0])
