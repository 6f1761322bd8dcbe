"""The examples in the docstrings of the standard library are true."""

import doctest
import importlib
import pkgutil
from types import ModuleType

import attrs
import pytest

import tracetypes
from tracetypes import stdlib

MODULES = [
    importlib.import_module(f"tracetypes.stdlib.{found.name}") for found in pkgutil.iter_modules(stdlib.__path__)
]
WITH_EXAMPLES = ("stateless", "windows", "ordered", "joins")
NAMES = {
    **vars(tracetypes),
    **{name: getattr(stdlib, name) for name in stdlib.__all__},
    "attrs": attrs,
}
"""What an example may use without importing it: the public names."""


def run(module: ModuleType) -> doctest.TestResults:
    """The examples of all docstrings of a module."""
    return doctest.testmod(module, globs=dict(NAMES), optionflags=doctest.NORMALIZE_WHITESPACE)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_examples(module: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    failed = run(module).failed
    assert not failed, capsys.readouterr().out


def test_public_functions_have_examples() -> None:
    without = {"look_up"}  # needs a file: docs/operators.md has its example
    for name in stdlib.__all__:
        made = getattr(stdlib, name)
        if name[0].islower() and made.__module__.rpartition(".")[2] in WITH_EXAMPLES:
            assert name in without or ">>>" in made.__doc__, name


def test_a_wrong_example_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    module = ModuleType("wrong", ">>> 1 + 1\n3\n")
    assert run(module).failed == 1
    capsys.readouterr()
