"""The format of a checkpoint: another one is refused by name, and what is pickled into one cannot change without a new format."""

from __future__ import annotations

import ast
import importlib
import inspect
import io
import json
import pickle
import pkgutil
import textwrap
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ForwardRef, Generic, TypeVar, Union, get_args, get_origin

import attrs
import pytest
from hypothesis import given, settings

from tests.graphs import Case, cases
from tests.test_verification import flow, rows
from tracetypes import OpStateless, RunError, check, records, stdlib
from tracetypes.compiler.analysis import pickles
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.runtime import column_states as states
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.spark.log import SparkLog
from tracetypes.compiler.store import version
from tracetypes.compiler.store.compatibility import queries_of
from tracetypes.compiler.store.inspection import open_checkpoint
from tracetypes.compiler.store.version import FORMAT, look, stamp
from tracetypes.compiler.trial import simulate
from tracetypes.stdlib.aggregates import Aggregate
from tracetypes.templates import TEMPLATES

ROOT = Path(__file__).resolve().parent.parent

LAYOUTS = Path(__file__).parent / "layouts.json"
"""By format, the layouts that began with it. Written by ``python -m tests.test_version``; an entry is never changed."""

PICKLED = (
    *("compiler.runtime.state.StageState", "compiler.runtime.progress.Progress", "compiler.runtime.operators.UnorderedState"),
    *("compiler.runtime.column_states.ColumnState", "compiler.runtime.column_states.Shape"),
    *("compiler.runtime.ordered_states.OrderedState", "compiler.runtime.held_items.HeldItems"),
    "compiler.runtime.held_items.HeldSide",
    *(f"compiler.runtime.name_states.{name}" for name in ("NameState", "NameKind", "NameTable")),
    *("compiler.runtime.window_states.WindowState", "compiler.runtime.state_log.LogAbout"),
    *("compiler.columns.growing.GrowingArray", "compiler.columns.growing.GrowingColumns"),
    *("compiler.runtime.partial_aggregation.Combined", "compiler.runtime.partial_aggregation.Reduced"),
    "compiler.columns.exact_sums.ExactSums",
    *("compiler.columns.column.Column", "compiler.columns.column.Struct", "compiler.columns.dictionary.DictionaryEncoded"),
    *("compiler.columns.lists.Lists", "compiler.tracing.kinds.Empty"),
    *("compiler.tracing.kinds.Level", "compiler.tracing.kinds.MapOf"),
    *("compiler.tracing.expr.Input", "compiler.tracing.expr.Pack", "compiler.tracing.expr.Exact"),
    *("algebra.ExactSum", "rejects.Rejected", "markers.Marker", "marker_runs.MarkerRuns"),
)
"""What states are made of behind fields of type ``Any``; a test finds what is missing here."""

OTHERS = ("tracetypes.records.Unit", "tracetypes.record_copies._made")
"""Pickled by name alone."""


# ------------------------------------------------------------------------------------------------ the file


def test_a_directory_that_is_no_checkpoint_yet_has_no_format(tmp_path: Path) -> None:
    look(tmp_path / "none")
    (tmp_path / "lock").touch()
    look(tmp_path)
    stamp(tmp_path)
    about = json.loads((tmp_path / "format.json").read_text())
    assert about["format"] == FORMAT
    look(tmp_path)


@pytest.mark.parametrize("content", ["graph.json", "program.json", "channels.json", "commits", "spark", "queries"])
def test_a_checkpoint_without_a_format_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / content).mkdir()
    with pytest.raises(RunError, match=rf"^TT220 the checkpoint .* has no format.* reads format {FORMAT}\n"):
        look(tmp_path)


def test_another_format_is_refused_with_both_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stamp(tmp_path)
    for old, new in ((FORMAT, FORMAT + 1), (FORMAT, FORMAT - 1)):
        monkeypatch.setattr(version, "FORMAT", new)
        with pytest.raises(RunError) as refused:
            look(tmp_path)
        assert refused.value.code == "TT220"
        assert f"has format {old}, written by tracetypes 0" in refused.value.message
        assert f"reads format {new}" in refused.value.message


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": null, "tracetypes": "1"}', "\0\xff"])
def test_a_broken_format_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "format.json").write_text(text, encoding="latin-1")
    with pytest.raises(RunError, match=r"^TT220 .* has a format.json that cannot be read"):
        look(tmp_path)


@pytest.mark.parametrize("reads", [queries_of, lambda path: open_checkpoint(str(path), SparkLog)], ids=["program", "state"])
def test_the_format_is_looked_at_first(tmp_path: Path, reads: Callable[[Path], Any]) -> None:
    """Nothing else of a checkpoint is parsed before."""
    (tmp_path / "graph.json").write_text("{")
    (tmp_path / "program.json").write_text("{")
    with pytest.raises(RunError, match=r"^TT220 "):
        reads(tmp_path)


# ---------------------------------------------------------------------------------------------- the layout


def shown(of: Any, module: types.ModuleType) -> str:
    """A type as text, the same in every version of Python; aliases by what they stand for."""
    match of:
        case str():
            return shown(eval(of, dict(vars(module))), module)
        case ForwardRef():
            return shown(of.__forward_arg__, module)
        case TypeVar():
            return of.__name__
        case None | types.NoneType:
            return "None"
        case types.EllipsisType():
            return "..."
        case _:
            pass
    origin, parts = get_origin(of), [shown(one, module) for one in get_args(of)]
    if origin in (Union, types.UnionType):
        return " | ".join(parts)
    name = getattr(origin or of, "__name__", repr(of))
    return f"{name}[{', '.join(parts)}]" if parts else name


def within(of: Any, module: types.ModuleType) -> Iterator[type[Any]]:
    """The classes of ours in a type."""
    if isinstance(of, str | ForwardRef):
        of = eval(of if isinstance(of, str) else of.__forward_arg__, dict(vars(module)))
    plain = get_origin(of) or of
    if inspect.isclass(plain) and plain.__module__.startswith("tracetypes."):
        yield plain
    for one in get_args(of):
        yield from within(one, module)


def fields(cls: type[Any]) -> str:
    """How a class is pickled: its fields with their types, or what its ``__reduce__`` does."""
    for one in cls.__mro__:
        if "__reduce__" in vars(one) and one is not object:
            return ast.unparse(ast.parse(textwrap.dedent(inspect.getsource(one.__reduce__))))
    module = importlib.import_module(cls.__module__)
    if attrs.has(cls):
        return ", ".join(
            f"{field.name}: {field.type if isinstance(field.type, str) else shown(field.type, module)}"
            for field in attrs.fields(cls)
        )
    return ", ".join(f"{name}: {of}" for name, of in inspect.get_annotations(cls).items())


def operators() -> Iterator[type[Any]]:
    """The operators and aggregates of the standard library."""
    for info in pkgutil.iter_modules(stdlib.__path__):
        module = importlib.import_module(f"{stdlib.__name__}.{info.name}")
        for cls in vars(module).values():
            if inspect.isclass(cls) and cls.__module__ == module.__name__ and issubclass(cls, (*TEMPLATES, Aggregate)):
                yield cls


def named(name: str) -> type[Any]:
    module, _, cls = f"tracetypes.{name}".rpartition(".")
    found: type[Any] = getattr(importlib.import_module(module), cls)
    return found


def layout() -> dict[str, str]:
    """Everything of ours that may be pickled into a checkpoint: fields by class, types of states by operator."""
    found: dict[str, str] = {}
    waiting = [*map(named, PICKLED), *(one for one in vars(records).values() if inspect.isclass(one) and attrs.has(one))]
    for cls in operators():
        module = importlib.import_module(cls.__module__)
        bases = [base for base in typing.cast("Any", cls).__orig_bases__ if get_origin(base) is not Generic]
        waiting += [one for base in bases for part in get_args(base) for one in within(part, module)]
        if not issubclass(cls, OpStateless):
            found[f"{cls.__module__}.{cls.__qualname__}"] = ", ".join(shown(base, module) for base in bases)
    while waiting:
        cls = waiting.pop()
        name = f"{cls.__module__}.{cls.__qualname__}"
        if name not in found:
            found[name] = fields(cls)
            module = importlib.import_module(cls.__module__)
            types = [field.type for field in (attrs.fields(cls) if attrs.has(cls) else ())]
            waiting += [one for of in types if not isinstance(of, str) for one in within(of, module)]
    return dict(sorted(found.items()))


def recorded() -> dict[str, str]:
    """The layout as it was written down, newest first."""
    formats = {int(number): layouts for number, layouts in json.loads(LAYOUTS.read_text()).items()}
    assert max(formats) <= FORMAT
    known = {name: text for number in sorted(formats) for name, text in formats[number].items()}
    return {name: text for name, text in known.items() if text is not None}


def test_a_layout_changes_with_the_format_only() -> None:
    """When this fails: raise ``FORMAT``, unless the class is new, and run ``python -m tests.test_version``."""
    assert layout() == recorded()


def test_every_class_in_a_state_is_in_the_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pickles of random runs, of states over columns too, hold no class of ours that is not written down."""
    found = set[str]()

    class Reader(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            found.add(f"{module}.{name}")
            return super().find_class(module, name)

    def dumps(value: Any) -> bytes:
        data = pickles.dumps(value)
        Reader(io.BytesIO(data)).load()
        return data

    monkeypatch.setattr(simulate, "dumps", dumps)
    monkeypatch.setattr(states, "dumps", dumps)
    monkeypatch.setattr(limits, "MANY", 1)

    @given(case=cases())
    @settings(max_examples=60, deadline=None)
    def run(case: Case) -> None:
        planned = plan(case.checked, parallelism=case.parallelism, key_groups=case.key_groups)
        simulate.simulate(planned, case.rows, seed=case.seed, drain=case.drain)

    run()
    # Random dataflows seldom come to states over columns.
    simulate.simulate(plan(check(flow()), key_groups=2), {"events": rows(0)}, seed=0)
    ours = {one for one in found if one.startswith("tracetypes.")}
    assert {"tracetypes.compiler.runtime.state.StageState", "tracetypes.compiler.runtime.column_states.ColumnState"} <= ours
    assert ours <= {*recorded(), *OTHERS}


if __name__ == "__main__":
    formats = json.loads(LAYOUTS.read_text()) if LAYOUTS.exists() else {}
    before = recorded() if formats else {}
    now: dict[str, str | None] = dict.fromkeys(before) | layout()
    news = {name: text for name, text in now.items() if before.get(name) != text}
    if str(FORMAT) in formats and news.keys() & before.keys():
        raise SystemExit(f"raise FORMAT first: {', '.join(sorted(news.keys() & before.keys()))}")
    formats[str(FORMAT)] = formats.get(str(FORMAT), {}) | news
    LAYOUTS.write_text(json.dumps(formats, indent=1) + "\n")
