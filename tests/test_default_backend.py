"""Which backend runs what does not say it: the variable, then ``pyproject.toml``, then Spark, or local without pyspark."""

from __future__ import annotations

import importlib.util
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

import tracetypes
from tracetypes import Dataflow, U, Unit, UsageError, cli, every
from tracetypes.running import default_backend, engine_of

flow = Dataflow("words")
flow.sink("words", flow.source("words", U[Unit, str], markers=every(seconds=1, time=len)))
TARGET = f"{__name__}:flow"

KINDS = {"spark": "SparkEngine", "local": "LocalEngine"}


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory in which nothing chooses a backend."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRACETYPES_BACKEND", raising=False)


def says(text: str) -> None:
    """What pyproject.toml says here."""
    Path("pyproject.toml").write_text(text, encoding="utf-8")


def without_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec

    def find(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == "pyspark" else real(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", find)


def backend() -> str:
    """The default one, of which a run has the engine."""
    named = default_backend()
    assert type(engine_of(None)).__name__ == KINDS[named]
    return named


@pytest.mark.parametrize("text", [None, "[tool.tracetypes]\n", "[project]\nname = 'x'\n", "no TOML"])
def test_it_is_spark_or_local_without_pyspark(text: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if text is not None:
        says(text)
    assert backend() == "spark"
    without_pyspark(monkeypatch)
    assert backend() == "local"


@pytest.mark.parametrize("named", ["spark", "local"])
def test_pyproject_names_it(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable comes before it, and a call before the variable."""
    says(f'[tool.tracetypes]\nbackend = "{named}"\n')
    assert backend() == named
    (other,) = KINDS.keys() - {named}
    monkeypatch.setenv("TRACETYPES_BACKEND", other)
    assert backend() == other
    assert type(engine_of(named)).__name__ == KINDS[named]
    monkeypatch.setenv("TRACETYPES_BACKEND", "")
    assert backend() == named
    without_pyspark(monkeypatch)
    assert default_backend() == named


def test_runs_and_commands_take_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    says('[tool.tracetypes]\nbackend = "local"\n')
    words: list[str] = []
    result = tracetypes.run(flow, {"words": ["a", "b"]}, {"words": words})
    assert sorted(words) == ["a", "b"]
    assert "start of the local backend" in result.spent
    Path("in.jsonl").write_text('{"value": "a"}\n', encoding="utf-8")
    assert cli.main(["run", TARGET, "-i", "words=in.jsonl", "-o", "words=-"]) == 0
    out, err = capsys.readouterr()
    assert out == '{"value": "a"}\n'
    assert ", start of the local backend " in err


@pytest.mark.parametrize(
    ("variable", "text", "said", "fix"),
    [
        ("locla", None, "'locla', which TRACETYPES_BACKEND names", "local"),
        ("flink", '[tool.tracetypes]\nbackend = "local"\n', "'flink', which TRACETYPES_BACKEND names", "spark, local"),
        (None, '[tool.tracetypes]\nbackend = "Spark"\n', "'Spark', which pyproject.toml names", "spark"),
        (None, "[tool.tracetypes]\nbackend = 5\n", "5, which pyproject.toml names", "the backends are spark, local"),
    ],
)
def test_TT402_a_backend_that_is_none(
    variable: str | None,
    text: str | None,
    said: str,
    fix: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if variable is not None:
        monkeypatch.setenv("TRACETYPES_BACKEND", variable)
    if text is not None:
        says(text)
    with pytest.raises(UsageError) as refused:
        default_backend()
    first, last = str(refused.value).splitlines()
    assert first == f"TT402 there is no backend {said}"
    assert last.startswith("    fix: ")
    assert fix in last
    for command in (["explain", TARGET], ["run", TARGET, "-i", "words=in.jsonl", "-o", "words=-"]):
        assert cli.main(command) == 2
        assert capsys.readouterr() == ("", f"tracetypes: {refused.value}\n")


def test_help_says_what_the_default_is(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["run", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "(default: TRACETYPES_BACKEND, pyproject.toml, else spark, or local if pyspark is not installed)" in text


@pytest.mark.parametrize("text", ["tool = 5", "[tool]\ntracetypes = 5", "[tool]\ntracetypes = [1]"])
def test_TT402_a_table_that_is_none(text: str) -> None:
    says(text)
    if text.startswith("tool"):
        assert backend() == "spark"
        return
    with pytest.raises(UsageError, match=r"tool\.tracetypes in pyproject\.toml is (5|\[1\])"):
        default_backend()
