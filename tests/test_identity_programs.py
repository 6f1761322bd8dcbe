"""Programs that differ in what does not count have equal identities. Programs that compute different things have not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.identity_programs import CHANGES, PLAIN, Program, Style, identities_of, some_programs

ROOT = Path(__file__).parents[1]

NAMES = st.sampled_from(["alpha", "beta_", "gamma1", "zeta", "omega", "_delta"])

PROGRAMS = st.lists(st.sampled_from(sorted(CHANGES)), max_size=6).map(
    lambda changes: _changed(Program(), changes),
)


def _changed(program: Program, changes: list[str]) -> Program:
    for one in changes:
        program = CHANGES[one](program)
    return program


@st.composite
def styles(draw: st.DrawFn) -> Style:
    named = draw(st.lists(NAMES, min_size=9, max_size=9))
    names = [f"{name}{at}" for at, name in enumerate(named)]
    return Style(
        record=names[0].title(),
        operator=names[1].title(),
        enum=names[2].title(),
        base=names[3].title(),
        local=names[4],
        inner=names[5],
        helper=names[6],
        deeper=draw(st.sampled_from(["aaa", "zzz"])),
        constant=names[7].upper(),
        module=f"made_{names[8]}",
        comments=draw(st.booleans()),
        docs=draw(st.sampled_from(["", "Of rows.", "Of the others."])),
        annotated=draw(st.booleans()),
        backwards=draw(st.booleans()),
        alias=draw(st.booleans()),
        parallelism=draw(st.sampled_from([None, 1, 4])),
        flow=draw(st.sampled_from(["flow", "other"])),
    )


@given(PROGRAMS, styles())
def test_what_does_not_count_changes_no_identity(program: Program, style: Style) -> None:
    assert identities_of(program, style) == identities_of(program, PLAIN)


@given(PROGRAMS, styles(), st.sampled_from(sorted(CHANGES)))
def test_what_counts_changes_the_identity(program: Program, style: Style, change: str) -> None:
    _assert_another(program, style, change)


@pytest.mark.parametrize("change", sorted(CHANGES))
def test_each_change_counts(change: str) -> None:
    _assert_another(Program(), PLAIN, change)


def _assert_another(program: Program, style: Style, change: str) -> None:
    mine, others = identities_of(program, PLAIN), identities_of(CHANGES[change](program), style)
    # The sinks are last. The order of the parents of a merge does not count, and a sort is behind the other sink.
    at = -1 if change in ("sorted", "swapped") else -3
    assert mine[at] != others[at]
    if change == "swapped":
        assert mine[:-2] == others[:-2]


def test_every_field_of_a_program_has_a_change() -> None:
    assert set(CHANGES) == {one.name for one in fields(Program)}


def _in_process(python: str, seed: str, *arguments: str) -> list[str]:
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [python, "-m", "tests.identity_programs", "3", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.mark.parametrize("seed", ["0", "12345"])
def test_identities_are_the_same_in_another_process(seed: str) -> None:
    here = [" ".join(identities_of(one, PLAIN)) for one in [Program(), *some_programs(3)]]
    assert _in_process(sys.executable, seed) == here


def _others() -> list[str]:
    """Other interpreters of this machine that have what the core needs."""
    named = os.environ.get("TRACETYPES_INTERPRETERS", "").split(os.pathsep)
    found = [*named, *(shutil.which(f"python3.{minor}") for minor in range(11, 15))]
    able = []
    for python in filter(None, found):
        asked = subprocess.run([python, "-c", "import attrs, cloudpickle"], capture_output=True, check=False)
        if asked.returncode == 0 and os.path.realpath(python) != os.path.realpath(sys.executable):
            able.append(python)
    return able


@pytest.mark.nightly
def test_identities_are_the_same_in_other_versions_of_python() -> None:
    """``TRACETYPES_INTERPRETERS``: paths of interpreters, separated like those of ``PATH``."""
    others = _others()
    if not others:
        pytest.skip("no other interpreter has attrs and cloudpickle")
    own = replace(PLAIN, alias=None)
    here = [" ".join(identities_of(one, own)) for one in [Program(), *some_programs(3)]]
    for python in others:
        assert _in_process(python, "1", "--own") == here, python
