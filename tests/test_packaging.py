"""The wheel as a user gets it: built from the sdist, installed where there is nothing else, run outside of here."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.pages import ROOT, blocks, sessions

README = ROOT / "README.md"


class Built(NamedTuple):
    """One build of the repository."""

    sdist: Path
    wheel: Path


class Installed(NamedTuple):
    """An environment that holds the wheel and what it depends on, and nothing of the repository."""

    folder: Path

    @property
    def site(self) -> Path:
        (site,) = self.folder.glob("lib/python*/site-packages")
        return site

    def run(self, command: str, *arguments: str) -> str:
        """The standard output of one of the environment's commands, run from inside it."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        line = [str(self.folder / "bin" / command), *arguments]
        done = subprocess.run(line, cwd=self.folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{command} {' '.join(arguments)}\n{done.stdout}{done.stderr}"
        return done.stdout


Install: TypeAlias = Callable[..., Installed]


def requirements(distribution: str, extras: frozenset[str]) -> set[str]:
    """What `distribution` needs with these extras, directly or not, among the running environment's packages."""
    needed: set[str] = set()
    waiting = [(distribution, extras)]
    while waiting:
        name, wanted = waiting.pop()
        for text in metadata.requires(name) or []:
            requirement = Requirement(text)
            applies = requirement.marker is None or any(
                requirement.marker.evaluate({"extra": extra}) for extra in ("", *wanted)
            )
            if applies and (found := canonicalize_name(requirement.name)) not in needed:
                needed.add(found)
                waiting.append((found, frozenset(requirement.extras)))
    return needed - {canonicalize_name(distribution)}


def link_distribution(name: str, site: Path) -> None:
    """Puts an installed distribution into another site-packages without copying or downloading it."""
    distribution = metadata.distribution(name)
    for top in {file.parts[0] for file in distribution.files or []} - {"..", "__pycache__"}:
        if not (site / top).exists():
            (site / top).symlink_to(Path(str(distribution.locate_file(top))))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(build, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (sdist,) = folder.glob("*.tar.gz")
    (wheel,) = folder.glob("*.whl")
    return Built(sdist, wheel)


@pytest.fixture(scope="module")
def install(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Install:
    """`install(*extras)` makes an environment with the wheel and the dependencies of these extras."""

    def install(*extras: str) -> Installed:
        installed = Installed(tmp_path_factory.mktemp("environment"))
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", installed.folder], check=True)
        for name in requirements("tracetypes", frozenset(extras)):
            link_distribution(name, installed.site)
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        where = ["--python", str(installed.folder / "bin" / "python")]
        subprocess.run([*pip, *where, "install", "--no-deps", "--no-index", str(built.wheel)], check=True)
        return installed

    return install


@pytest.fixture(scope="module")
def core(install: Install) -> Installed:
    """The environment of `pip install tracetypes`, without extras."""
    return install()


def expected_files() -> set[str]:
    """The repository's sources, by the names that they must have in the wheel."""
    files = {"tracetypes/py.typed"}
    for prefix, top in (("", "tracetypes"), ("tracetypes/", "compiler"), ("tracetypes/", "stdlib")):
        for folder, _, names in os.walk(ROOT / top, followlinks=False):
            here = Path(folder).relative_to(ROOT).as_posix()
            files |= {f"{prefix}{here}/{name}" for name in names if name.endswith(".py")}
    return files


def test_the_wheel_holds_the_sources_and_no_other_top_level_name(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as wheel:
        names = set(wheel.namelist())
    assert expected_files() <= names
    assert {name.split("/")[0].removesuffix(".dist-info") for name in names} == {"tracetypes", "tracetypes-0.1.0"}


def test_the_sdist_holds_real_files_and_no_other_top_level_package(built: Built) -> None:
    with tarfile.open(built.sdist) as sdist:
        members = sdist.getmembers()
    assert all(member.isfile() or member.isdir() for member in members)
    names = {member.name.partition("/")[2] for member in members if member.isfile()}
    assert expected_files() <= names
    assert {name.split("/")[0] for name in names if name.endswith(".py")} == {"tracetypes"}
    assert "LICENSE" in names


def test_the_installed_wheel_is_imported_without_extras(core: Installed) -> None:
    script = "import tracetypes, tracetypes.compiler.graph as c, tracetypes.stdlib as s; print(tracetypes.__file__)"
    script += "; print(c.__file__); print(s.__file__)"
    for file in core.run("python", "-c", script).splitlines():
        assert Path(file).is_relative_to(core.site)
    assert {path.name for path in core.site.iterdir()} & {"pyspark", "pandas", "numpy", "hypothesis", "tests"} == set()


def test_the_extra_local_is_enough_for_the_first_example(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """The README's program with ``backend="local"``, and its command, for which local is the default there."""
    monkeypatch.delenv("TRACETYPES_BACKEND", raising=False)
    installed, text = install("local"), README.read_text(encoding="utf-8")
    assert {path.name for path in installed.site.iterdir()} & {"pyspark", "py4j", "pandas", "grpc", "deltalake", "paho"} == set()
    wrong, last, runs, rides = blocks(text, "python")
    (installed.folder / "gaps.py").write_text("\n".join(wrong.splitlines()[:-1]) + "\n" + last, encoding="utf-8")
    on_spark, locally = "parallelism=4)", 'parallelism=4, backend="local")'
    assert runs.count(on_spark) == 1
    assert installed.run("python", "-c", runs.replace(on_spark, locally)) == blocks(text, "text")[0]
    given, rows = blocks(text, "json")
    (installed.folder / "measurements.jsonl").write_text(given, encoding="utf-8")
    (command,) = [words for words, _ in sessions(text) if words[1] == "run"]
    installed.run("tracetypes", *command[1:])
    lines = [line for file in (installed.folder / "out").glob("*.jsonl") for line in file.read_text().splitlines()]
    assert sorted(lines) == sorted(rows.splitlines())
    (installed.folder / "rides.py").write_text(rides, encoding="utf-8")
    assert "rides" in installed.run("tracetypes", "check", "rides.py")
    with pytest.raises(AssertionError, match=r"TT401 pyspark\S* is not installed\n +fix: +pip install 'tracetypes\[spark\]'"):
        installed.run("tracetypes", *command[1:], "--backend", "spark")


@pytest.mark.spark
@pytest.mark.nightly
def test_the_demo_runs_from_the_wheel(install: Install) -> None:
    installed = install("spark")
    shutil.copytree(ROOT / "examples", installed.folder / "examples")
    assert "The four traces are equal." in installed.run("python", "-m", "examples.demo")


def test_the_command_line_tells_its_version(core: Installed) -> None:
    assert "0.1.0" in core.run("tracetypes", "--version")
