"""The examples in the docstrings of the standard library are true."""

import doctest
import importlib.util
import pkgutil
from collections.abc import Iterable
from types import ModuleType

import attrs
import pytest

import tracetypes
from tracetypes import stdlib
from tracetypes.stdlib.lookups import Database

MODULES = [
    importlib.import_module(f"tracetypes.stdlib.{found.name}") for found in pkgutil.iter_modules(stdlib.__path__)
]
LEARNING = ("tree_of", "train_regression_tree")
"""Their examples need scikit-learn."""

NAMES = {
    **vars(tracetypes),
    **{name: getattr(stdlib, name) for name in stdlib.__all__},
    "attrs": attrs,
}
"""What an example may use without importing it: the public names."""


def run(module: ModuleType) -> doctest.TestResults:
    """The examples of all docstrings of a module."""
    failed = attempted = 0
    for test in doctest.DocTestFinder().find(module, globs=dict(NAMES)):
        if test.name.rpartition(".")[2] in LEARNING and importlib.util.find_spec("sklearn") is None:
            continue
        result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test)
        failed, attempted = failed + result.failed, attempted + result.attempted
    return doctest.TestResults(failed, attempted)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_examples(module: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    failed = run(module).failed
    assert not failed, capsys.readouterr().out


def lacking(names: Iterable[str]) -> list[str]:
    """Functions, and databases, of the standard library whose docstring has no example."""
    made = {name: getattr(stdlib, name) for name in names}
    shown = {name: one for name, one in made.items() if not isinstance(one, type) or issubclass(one, Database)}
    return [name for name, one in shown.items() if ">>>" not in (one.__doc__ or "")]


def test_public_functions_have_examples() -> None:
    assert lacking(stdlib.__all__) == []


def test_a_function_without_an_example_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdlib.lookup_join, "__doc__", "What it does.")
    monkeypatch.setattr(stdlib.Sqlite, "__doc__", None)
    assert lacking(stdlib.__all__) == ["Sqlite", "lookup_join"]


def test_a_wrong_example_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    module = ModuleType("wrong", ">>> 1 + 1\n3\n")
    assert run(module).failed == 1
    capsys.readouterr()
