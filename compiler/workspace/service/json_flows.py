"""Dataflows as JSON (section 4.3 of the paper on reuse): tasks with an id, a type and a config, and the streams between them.

::

    {"tasks":   [{"id": "clicks", "type": "source", "config": {"input": "clicks"}},
                 {"id": "cents",  "type": "map_values", "config": {"function": {"field": "cents"}, "to": {"type": "int"}}},
                 {"id": "spent",  "type": "tumbling", "config": {"aggregate": {"type": "sum", ...}, "size": 300}},
                 {"id": "totals", "type": "sink", "config": {"output": "spent", "marker": "until"}}],
     "streams": [["clicks", "cents"], ["cents", "spent"], ["spent", "totals"]]}

``source`` and ``sink`` are built in, and so are the types ``int``, ``float``, ``str`` and ``bool`` in a config. Every other type
is one that the registry allows. It names an operator, a function of streams, or a function of the config that returns an
operator. As in the paper, several streams into a task of one input are merged. All problems are reported at once, those of
the checker too.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from typing import Any, Final, get_type_hints

import attrs

from tracetypes.calls import like
from tracetypes.check import Checked, check, edge_of
from tracetypes.compiler.workspace.service.allowed_functions import (
    is_factory,
    parameters_of,
    stream_parameters,
    text_of,
)
from tracetypes.compiler.workspace.service.field_functions import COMPARISONS, field_of, function_of
from tracetypes.compiler.workspace.service.flow_problems import FlowProblem, FlowRefused
from tracetypes.compiler.workspace.service.registry import Input, Registry, is_name
from tracetypes.edges import U
from tracetypes.errors import CheckFailed, CodedError, Location, counted
from tracetypes.formats import Format, csv, json_lines, parquet
from tracetypes.graph import Dataflow, Stream, merge
from tracetypes.markers import every
from tracetypes.records import Record, Unit, show
from tracetypes.schemas import schema_of

__all__ = ["JsonFlow", "dataflow_of", "resolve"]

TYPES: Final[Mapping[str, type[Any]]] = {"int": int, "float": float, "str": str, "bool": bool}
"""Types that a config may name."""

PLAIN: Final[Mapping[str, tuple[type[Any], ...]]] = {
    "int": (int,), "float": (int, float), "str": (str,), "bool": (bool,), "None": (type(None),)
}  # fmt: skip
"""Which JSON values a parameter of such a type takes."""


@attrs.frozen(eq=False, kw_only=True)
class JsonFlow:
    """A dataflow that JSON describes, which is checked, or one of an owner's package. ``inputs``: addresses by source;
    ``outputs``: places below the owner's folder by sink."""

    flow: Dataflow | Checked
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]


def dataflow_of(name: str, plain: Mapping[str, Any], registry: Registry, owner: str) -> JsonFlow:
    """The dataflow that JSON describes. It has no violations. ``owner``: whose it is. Raises :class:`FlowRefused`."""
    return _Builder(name, registry, owner).build(plain)


def resolve(target: str) -> Any:
    """What MODULE:NAME names. Raises :class:`ImportError` and :class:`AttributeError`."""
    module, _, name = target.partition(":")
    found: Any = import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


@attrs.frozen(eq=False)
class _Task:
    id: str
    type: str
    config: Mapping[str, Any]


class _Builder:
    """Builds one dataflow, and collects what is wrong with it."""

    def __init__(self, name: str, registry: Registry, owner: str) -> None:
        self.flow, self.registry, self.owner = Dataflow(name), registry, owner
        self.problems: list[FlowProblem] = []
        self.inputs: dict[str, str] = {}
        self.outputs: dict[str, str] = {}

    def build(self, plain: Mapping[str, Any]) -> JsonFlow:
        """All of it."""
        tasks = {one.id: one for one in self._tasks(plain.get("tasks"))}
        parents = self._parents(plain.get("streams", []), tasks)
        streams: dict[str, Stream[Any] | None] = {}
        for id in self._order(parents):
            first = len(self.flow._nodes)
            streams[id] = self._task(tasks[id], [streams[one] for one in parents[id]])
            for at in range(first, len(self.flow._nodes)):  # so the checker names the task, and no line of the service
                self.flow._nodes[at] = attrs.evolve(self.flow._nodes[at], where=Location(id, 0))
        checked: Dataflow | Checked = self.flow
        if not self.problems:
            try:
                checked = check(self.flow)
            except CheckFailed as error:
                for one in error.violations:
                    self._refuse(one.code, one.where.file, one.found, one.fix, one.expected)
        if self.problems:
            raise FlowRefused(self.problems)
        return JsonFlow(flow=checked, inputs=self.inputs, outputs=self.outputs)

    # ---------------------------------------------------------------------------------------------------- form

    def _tasks(self, plain: Any) -> Iterator[_Task]:
        if not isinstance(plain, list) or not plain:
            self._refuse("TT410", "", f"tasks is {show(plain)}", 'give {"tasks": [{"id": ..., "type": ..., "config": {}}], ...}')
            return
        if len(plain) > self.registry.limits.tasks:
            self._refuse("TT416", "", f"{len(plain)} tasks, at most {self.registry.limits.tasks}", "make several flows of it")
            raise FlowRefused(self.problems)
        seen: set[str] = set()
        for number, one in enumerate(plain):
            task: dict[str, Any] = one if isinstance(one, dict) else {}
            id, type, config = task.get("id"), task.get("type"), task.get("config")
            if not isinstance(id, str) or not is_name(id) or not isinstance(type, str) or not isinstance(config, dict | None):
                fix = "give an id and a type of letters, digits, '-' and '_', and a config that is an object"
                self._refuse("TT410", f"number {number}", f"it is {show(one)}", fix)
                continue
            for word in task.keys() - {"id", "type", "config"}:
                self._refuse("TT410", id, f"it has {word!r}", "a task has id, type and config")
            if id in seen:
                self._refuse("TT410", id, "two tasks have this id", "give each its own")
                continue
            seen.add(id)
            yield _Task(id, type, config or {})

    def _parents(self, plain: Any, tasks: Mapping[str, _Task]) -> dict[str, list[str]]:
        parents: dict[str, list[str]] = {id: [] for id in tasks}
        if not isinstance(plain, list):
            self._refuse("TT410", "", f"streams is {show(plain)}", 'give {"streams": [["FROM", "TO"], ...]}')
            return parents
        for one in plain:
            if not isinstance(one, list) or len(one) != 2 or not all(isinstance(end, str) for end in one):
                self._refuse("TT410", "", f"a stream is {show(one)}", 'give pairs of ids: ["FROM", "TO"]')
                continue
            there = [end for end in one if end in tasks]
            for end in one:
                if end not in tasks:
                    fix = "name tasks of this flow: what flows have in common is found and shared without a reference"
                    self._refuse("TT412", there[0] if there else "", f"a stream names {end!r}, which is no task of the flow", fix)
            if len(there) == 2:
                parents[one[1]].append(one[0])
        return parents

    def _order(self, parents: Mapping[str, Sequence[str]]) -> list[str]:
        """The tasks, each behind those that it reads."""
        try:
            return list(TopologicalSorter(parents).static_order())
        except CycleError as error:
            circle = " -> ".join(reversed(error.args[1]))
            self._refuse("TT412", error.args[1][0], f"the streams {circle} are a circle", "remove one of them")
            return []

    # --------------------------------------------------------------------------------------------------- tasks

    def _task(self, task: _Task, upstream: Sequence[Stream[Any] | None]) -> Stream[Any] | None:
        """The stream of a task. None if there is none, which is a problem then, or it is that of a sink."""
        streams = [one for one in upstream if one is not None]
        if task.type == "source":
            if upstream:
                self._refuse("TT412", task.id, "a stream leads into a source", "remove it, or merge behind the source")
            return self._source(task)
        if not upstream:
            self._refuse("TT412", task.id, "no stream leads into it", "add one from a source")
        if task.type == "sink":
            config = self._sink_config(task)
            if config is not None and len(streams) == len(upstream) and streams:
                self.flow.sink(task.id, _one(streams), **config)
            return None
        operator = self._allowed(task.id, task.type)
        if operator is None:
            return None
        functions: list[str] = []
        config = self._config(task.id, task.type, operator, task.config, functions)
        if config is None or len(streams) < len(upstream) or not streams:
            return None
        self._need_fields(task.id, functions, streams)
        return self._applied(task, operator, config, streams)

    def _applied(self, task: _Task, operator: Any, config: dict[str, Any], streams: Sequence[Stream[Any]]) -> Stream[Any] | None:
        inputs = stream_parameters(operator)
        if len(inputs) > 1 and len(inputs) != len(streams):
            fix = f"give it a stream for each of {', '.join(inputs)}, in this order"
            self._refuse("TT412", task.id, f"{counted(len(streams), 'stream')} lead into it", fix)
            return None
        try:
            if len(inputs) > 1:
                result: Any = operator(*streams, **config)
            elif inputs or not is_factory(operator):
                result = _one(streams).through(operator)
            else:
                result = _one(streams).through(operator(**config))
        except CodedError as error:
            self._refuse(error.code, task.id, error.message, error.fix)
        except Exception as error:  # code that the administrator allowed
            found = f"{task.type} with this config raises {error.__class__.__name__}: {error}"
            self._refuse("TT413", task.id, found, "see its config")
        else:
            if isinstance(result, Stream):
                return result
            self._refuse("TT413", task.id, f"{task.type} gave {show(result)} and no stream", "name an operator")
        return None

    def _source(self, task: _Task) -> Stream[Any] | None:
        name = task.config.get("input")
        for word in task.config.keys() - {"input"}:
            self._refuse("TT413", task.id, f"a source has no {word!r}", 'give {"input": NAME}')
        found = self.registry.inputs.get(name) if isinstance(name, str) else None
        if found is None or not found.is_for(self.owner):  # as if it were not there
            there = sorted(one.name for one in self.registry.inputs.values() if one.is_for(self.owner))
            fix = f"the inputs are: {', '.join(there) or 'none'}"
            self._refuse("TT411", task.id, f"there is no input {show(name)}", fix)
            return None
        try:
            stream = _source_of(self.flow, task.id, found)
        except (CodedError, ImportError, AttributeError) as error:
            self._refuse("TT414", task.id, f"input {found.name!r} cannot be read: {error}", "the administrator has to mend it")
            return None
        self.inputs[task.id] = found.address
        return stream

    def _sink_config(self, task: _Task) -> dict[str, Any] | None:
        count = len(self.problems)
        for word, one in task.config.items():
            if word not in ("output", "marker"):
                self._refuse("TT413", task.id, f"a sink has no {word!r}", 'give {"output": PLACE, "marker": COLUMN}')
            elif not isinstance(one, str) or not one:
                self._refuse("TT413", task.id, f"{word} is {show(one)}", "give a text")
        if "output" not in task.config:
            self._refuse("TT413", task.id, "it has no output", 'give {"output": PLACE}')
        if len(self.problems) > count:
            return None
        self.outputs[task.id] = task.config["output"]
        return {"marker": task.config.get("marker")}

    # -------------------------------------------------------------------------------------------------- config

    def _allowed(self, task: str, type: str) -> Any | None:
        """What a type names, if it is allowed."""
        target = self.registry.operators.get(type)
        if target is None:
            there = ["source", "sink", *sorted(self.registry.operators)]
            fix = like(type, there) or f"the types are: {', '.join(there)}"
            self._refuse("TT411", task, f"there is no type {type!r}", fix)
            return None
        try:
            return resolve(target)
        except Exception as error:
            found = f"type {type!r} cannot be imported: {error.__class__.__name__}: {error}"
            self._refuse("TT414", task, found, "the administrator has to mend it")
            return None

    def _config(
        self, task: str, type: str, operator: Any, config: Mapping[str, Any], functions: list[str]
    ) -> dict[str, Any] | None:
        """The arguments of a function. ``functions``: gets the fields that functions in it read."""
        count = len(self.problems)
        parameters = parameters_of(operator)
        for word in config.keys() - parameters.keys():
            fix = f"it has {', '.join(parameters)}" if parameters else "it has no config"
            self._refuse("TT413", task, f"{type} has no {word!r}", fix)
        for word, one in parameters.items():
            if word not in config and one.default is inspect.Parameter.empty:
                self._refuse("TT413", task, f"{type} has no {word}", f'give "{word}" in its config')
        values = {
            word: self._value(task, f"{word} of {type}", config[word], text_of(parameters[word]), functions)
            for word in config
            if word in parameters
        }
        return values if len(self.problems) == count else None

    def _value(self, task: str, what: str, plain: Any, annotation: str, functions: list[str]) -> Any:
        if isinstance(plain, list):
            return [self._value(task, what, one, "", functions) for one in plain]
        if not isinstance(plain, dict):
            kinds = [PLAIN[one] for one in re.split(r"\s*\|\s*", annotation) if one in PLAIN]
            known = annotation and all(one in PLAIN for one in re.split(r"\s*\|\s*", annotation))
            if known and not any(isinstance(plain, one) and not (isinstance(plain, bool) and bool not in one) for one in kinds):
                self._refuse("TT413", task, f"{what} is {show(plain)}", f"give a value of the type {annotation}")
            return plain
        if plain.keys() <= {"field", *COMPARISONS} and plain:
            return self._function(task, what, plain, annotation, functions)
        if "type" not in plain or plain.keys() - {"type", "config"} or not isinstance(plain.get("config", {}), dict):
            fix = 'give {"type": NAME, "config": {...}}, or a function: {"field": NAME}, {"field": NAME, "above": NUMBER}'
            self._refuse("TT413", task, f"{what} is {show(plain)}", fix)
            return None
        if isinstance(plain["type"], str) and plain["type"] in TYPES and "config" not in plain:
            return TYPES[plain["type"]]
        inner = self._allowed(task, plain["type"]) if isinstance(plain["type"], str) else None
        if inner is None or not is_factory(inner):
            return inner
        config = self._config(task, plain["type"], inner, plain.get("config", {}), functions)
        if config is None:
            return None
        try:
            return inner(**config)
        except CodedError as error:
            self._refuse(error.code, task, error.message, error.fix)
        except Exception as error:  # code that the administrator allowed
            found = f"{plain['type']} with this config raises {type(error).__name__}: {error}"
            self._refuse("TT413", task, found, "see its config")
        return None

    def _function(self, task: str, what: str, plain: dict[str, Any], annotation: str, functions: list[str]) -> Any:
        field, comparisons = plain.get("field"), sorted(plain.keys() - {"field"})
        is_field = "field" not in plain or (isinstance(field, str) and field.isidentifier() and not field.startswith("_"))
        if not is_field or len(comparisons) > 1 or any(isinstance(plain[one], dict | list) for one in comparisons):
            fix = f"give the name of a field, and at most one of {', '.join(COMPARISONS)} with a number or text"
            self._refuse("TT413", task, f"{what} is {show(plain)}", fix)
            return None
        if field is not None:
            functions.append(field)
        comparison = comparisons[0] if comparisons else None
        arguments = re.search(r"Callable\[\[([^\]]*)\]", annotation)
        with_key = arguments is not None and "," in arguments.group(1)
        return function_of(field, comparison, plain.get(comparison) if comparison else None, with_key=with_key)

    def _need_fields(self, task: str, fields: Sequence[str], streams: Sequence[Stream[Any]]) -> None:
        """The fields that functions read are those of the values that come."""
        edge = edge_of(streams[0]) if len(streams) == 1 else None
        if edge is None:
            return
        schema = schema_of(edge.value)
        there = [name for name, _ in schema.fields] if isinstance(schema, Record) else []
        for field in fields:
            if field not in there:
                fix = f"the fields are: {', '.join(there)}" if there else "the values have no fields: leave out the field"
                self._refuse("TT413", task, f"there is no field {field!r}", fix)

    # ------------------------------------------------------------------------------------------------ problems

    def _refuse(self, code: str, task: str, found: str, fix: str, expected: str = "") -> None:
        self.problems.append(FlowProblem(code, task, found, expected, fix))

def _source_of(flow: Dataflow, name: str, one: Input) -> Stream[Any]:
    """A source that reads an input which the registry describes."""
    record = resolve(one.record)
    hints = get_type_hints(record, include_extras=True)
    time = resolve(one.time) if ":" in one.time else field_of(one.time)
    for word, field in (("markers.time", one.time), ("key", one.key)):
        if field is not None and ":" not in field and field not in hints:
            raise AttributeError(f"{one.record} has no field {field!r} for {word}")
    unit: Any = one.unit
    markers = every(seconds=one.seconds, time=time, delay=one.delay, unit=unit)
    formats: dict[str, Callable[[], Format]] = {"csv": csv, "json_lines": json_lines, "parquet": parquet}
    format = None if one.format is None else formats[one.format]()
    if one.key is None:
        return flow.source(name, U[Unit, record], markers=markers, format=format)  # type: ignore[valid-type]
    key = resolve(one.key) if ":" in one.key else field_of(one.key)
    kind = get_type_hints(key)["return"] if ":" in one.key else hints[one.key]
    return flow.source(name, U[kind, record], markers=markers, key=key, format=format)  # type: ignore[valid-type]


def _one(streams: Sequence[Stream[Any]]) -> Stream[Any]:
    return streams[0] if len(streams) == 1 else merge(*streams)
