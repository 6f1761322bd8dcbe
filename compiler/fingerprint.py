"""What of a plan a checkpoint depends on, and what may change: as labelled lines that a person can compare.

A checkpoint holds, for each stage and key group, the progress of each link, what has come for open blocks, and the states of
the keys of each step. Spark adds how far each source was read, by its place in the query, and numbers the stateful operators
by theirs. So a plan can go on with it when it has the same stages in the same places, which read the same sources in the same
order, the same steps, and the same types in what is held. All of that is ``kept``. What lies between is ``free``: stateless
operators, what they make of the items to come, the columns and the format of the sink. The code of functions is compared
nowhere.

Parameters of keyed operators are kept: a state means something for the parameters that it was made with (a window's panes, the
best k of a block), and nobody but the author can say what it means for others (``may_change``).
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
import typing
from collections.abc import Iterator, Mapping
from typing import Any, NewType, TypeVar, get_args, get_origin

import attrs

from tracetypes.compiler.blocks import folds
from tracetypes.compiler.kernels import is_straight
from tracetypes.compiler.plan import (
    FromChannel,
    FromSource,
    FromStage,
    Link,
    Mapped,
    Plan,
    Region,
    Stage,
    United,
    links,
)
from tracetypes.edges import edge_type
from tracetypes.graph import Apply, Restore, RowPosition, title
from tracetypes.markers import EventTime
from tracetypes.records import ListOf, OneOf, Optional, Record, Schema, name_of, show, show_type
from tracetypes.templates import Operator, OpKeyedOrdered, OpKeyedUnordered, type_arguments

__all__ = ["Fingerprint", "described", "fingerprint"]

MOST = 1_000_000
"""Characters of a parameter that are compared."""

NOTHING = "nothing"
TELLS = "late rows are told by"


@attrs.frozen
class Fingerprint:
    """A plan as a checkpoint knows it. ``kept``: what it depends on, text by label; ``free``: what may change."""

    kept: Mapping[str, str]
    free: Mapping[str, str]

    @classmethod
    def of(cls, plain: Mapping[str, Mapping[str, str]]) -> Fingerprint:
        """The inverse of :attr:`plain`. Raises :class:`KeyError` and :class:`TypeError` for what is none."""
        return cls(dict(plain["kept"]), dict(plain["free"]))

    @property
    def plain(self) -> dict[str, dict[str, str]]:
        """For JSON."""
        return {"kept": dict(self.kept), "free": dict(self.free)}

    def refused(self, new: Fingerprint) -> list[str]:
        """Why another plan cannot go on where this one was: what changed."""
        return [*map(self._named, changes(self.kept, new.kept)), *self._swapped(new)]

    def changed(self, new: Fingerprint) -> list[str]:
        """What is other for a plan that can."""
        return list(map(self._named, changes(self.free, new.free)))

    def _named(self, line: str) -> str:
        """A line about a step, with its operator."""
        step = re.match(r"stage \d+, step \d+(?=, )", line)
        return line if step is None else f"{step[0]} ({self.kept.get(step[0], NOTHING)}){line[step.end() :]}"

    def _swapped(self, new: Fingerprint) -> Iterator[str]:
        """Stages of one make that have changed places: each would go on with the state of the other."""
        if self.kept["stages"] != new.kept["stages"]:
            return
        mine, theirs, makes = self._of_stages(self.free), self._of_stages(new.free), self._of_stages(self.kept)
        for at, before in enumerate(mine):
            for other, after in enumerate(theirs):
                moved = before == after and before != theirs[at] and after != mine[other]
                if moved and makes[at] == makes[other]:
                    yield f"stage {at} has changed places with stage {other}: {', '.join(before)}"

    def _of_stages(self, lines: Mapping[str, str]) -> list[list[str]]:
        """The lines of each stage without its number, but for those that say where it stands."""
        starts = [f"stage {at}, " for at in range(int(self.kept["stages"]))]
        return [
            [
                f"{label.removeprefix(start)}: {text}"
                for label, text in lines.items()
                if label.startswith(start) and not label.endswith((", reads", TELLS))
            ]
            for start in starts
        ]


def changes(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """The labels that differ, with what was there and what is."""
    return [
        f"{label}: was {old.get(label, NOTHING)}, is {new.get(label, NOTHING)}"
        for label in dict.fromkeys([*old, *new])
        if old.get(label) != new.get(label)
    ]


def fingerprint(plan: Plan, *, sends: bool = False, channels: Mapping[str, str] | None = None) -> Fingerprint:
    """The fingerprint of a plan. ``sends``: its sink feeds a channel; ``channels``: names under which a checkpoint knows
    channels, where these are others."""
    return _Describer(plan, sends, channels or {}).run()


def described(plan: Plan) -> list[dict[str, Any]]:
    """The stages for whoever looks into a checkpoint: names of operators, and which earlier stages each reads."""
    return [
        {
            "stage": stage.number,
            "operators": [title(step.node) for step in stage.steps],
            "reads": [link.leaf.stage.number for link in links(stage.region) if isinstance(link.leaf, FromStage)],
        }
        for stage in plan.stages
    ]


class _Describer:
    def __init__(self, plan: Plan, sends: bool, channels: Mapping[str, str]) -> None:
        self.plan, self.sends, self.channels = plan, sends, channels
        self.kept: dict[str, str] = {}
        self.free: dict[str, str] = {}

    def run(self) -> Fingerprint:
        plan, straight = self.plan, is_straight(self.plan)
        self.kept["key groups"] = str(plan.key_groups)
        self.kept["stages"] = str(len(plan.stages))
        self.kept["blocks are closed"] = "by the driver" if straight else "by stages"
        for stage in plan.stages:
            self.stage(stage, holds=not straight)
        (behind,) = links(plan.region)
        self.free["behind the last stage"] = _path(behind)
        if self.sends:
            self.add(self.kept, "channel, key", fields_of(plan.region.stream.key))
            self.add(self.kept, "channel, value", fields_of(plan.region.stream.value))
        else:
            sink = plan.sink
            self.kept["sink"] = sink.name
            columns = [name for name in (sink.marker, sink.position) if name is not None]
            self.free["sink, type"] = str(plan.edge)
            self.free["sink, columns for marker and position"] = ", ".join(columns) or NOTHING
            self.free["sink, format"] = NOTHING if sink.format is None else _parameter(sink.format)
            self.add(self.free, "sink, key", fields_of(plan.region.stream.key))
            self.add(self.free, "sink, value", fields_of(plan.region.stream.value))
        return Fingerprint(self.kept, self.free)

    @staticmethod
    def add(to: dict[str, str], label: str, fields: Mapping[str, str]) -> None:
        to |= {label + path: text for path, text in fields.items()}

    def stage(self, stage: Stage, *, holds: bool) -> None:
        name = f"stage {stage.number}"
        self.kept[f"{name}, reads"] = self.reads(stage.region)
        for link in links(stage.region):
            self.leaf(name, link)
        if holds:
            self.held(name, stage)
        for at, step in enumerate(stage.steps):
            node, label = step.node, f"{name}, step {at}"
            self.kept[label] = type(node.op).__qualname__ if isinstance(node, Apply) else title(node)
            if isinstance(node, Apply):
                self.add(self.kept, f"{label}, key", fields_of(step.takes.key))
                self.operator(label, node.op, step.takes.value)

    def reads(self, region: Region) -> str:
        match region:
            case FromSource(source=source):
                return {"items": "", "late": "late items of ", "rejects": "rejects of "}[
                    source.output
                ] + f"source {source.name}"
            case FromChannel(name=name):
                return f"channel {self.channels.get(name, name)}"
            case FromStage(stage=stage):
                return f"stage {stage.number}"
            case Mapped():
                return self.reads(region.upstream)
            case United():
                return f"merge of ({', '.join(map(self.reads, region.upstreams))})"

    def leaf(self, name: str, link: Link) -> None:
        leaf, where = link.leaf, self.reads(link.leaf)
        label = f"{name}, from {where}"
        while label in self.free:
            label += " again"
        self.free[label] = _path(link)
        match leaf:
            case FromSource(source=source):
                how, by = source.markers, source.ordered_by
                self.kept[f"{where}, markers"] = _times(how) if isinstance(how, EventTime) else "in band"
                order = (
                    "no order"
                    if by is None
                    else "the position of rows"
                    if isinstance(by, RowPosition)
                    else "a function"
                )
                self.kept[f"{where}, ordered by"] = order
                tells = "another reading of the source" if leaf.quiet else "this reading"
                self.kept[f"{label}, {TELLS}"] = tells
                self.free[f"{where}, type"] = str(edge_type(source.edge))
                self.add(self.free, f"{where}, value", fields_of(leaf.items.value))
            case FromChannel():
                self.add(self.kept, f"{where}, key", fields_of(leaf.stream.key))
                self.add(self.kept, f"{where}, value", fields_of(leaf.stream.value))
            case FromStage():
                pass

    def held(self, name: str, stage: Stage) -> None:
        """What is kept of items for blocks that are open."""
        first = stage.steps[0].node if stage.steps else None
        self.add(self.kept, f"{name}, open blocks, key", fields_of(stage.takes.key))
        if isinstance(first, Apply) and folds(stage):
            self.kept[f"{name}, open blocks"] = f"aggregates of {title(first)}"
            return
        self.kept[f"{name}, open blocks"] = "items with their places" if isinstance(first, Restore) else "items"
        self.add(self.kept, f"{name}, open blocks, value", fields_of(stage.takes.value))

    def operator(self, label: str, op: Operator, value: Schema) -> None:
        may_change = op.may_change if isinstance(op, OpKeyedUnordered | OpKeyedOrdered) else ()
        for parameter, text in _parameters(op).items():
            lines = self.free if parameter in may_change else self.kept
            lines[f"{label}, parameter {parameter}"] = text
        types: dict[str, tuple[Any, Any]] = {}
        if isinstance(op, OpKeyedUnordered):
            *_, state, agg = type_arguments(op, OpKeyedUnordered)
            types = {"state": (state, op.initial_state), "aggregate": (agg, op.identity)}
            self.kept[f"{label}, keys without items"] = "are skipped" if op.skips_untouched else "are visited"
            if op.forgets_idle:
                self.free[f"{label}, idle keys"] = "are forgotten"
        elif isinstance(op, OpKeyedOrdered):
            types = {"state": (type_arguments(op, OpKeyedOrdered)[-1], op.initial_state)}
        for what, (annotation, first) in types.items():
            self.add(self.kept, f"{label}, {what}", fields_of_type(annotation))
            self.kept[f"{label}, {what} at first"] = _first(first)
            generic: Any = getattr(annotation, "__parameters__", None)
            if isinstance(annotation, TypeVar) or generic:
                self.add(self.kept, f"{label}, items", fields_of(value))


def _path(link: Link) -> str:
    return " ; ".join(_operator(mapped.node.op) for mapped in link.path) or NOTHING


def _operator(op: Operator) -> str:
    given = ", ".join(f"{name}={text}" for name, text in _parameters(op).items())
    return f"{type(op).__qualname__}({given})"


def _times(how: EventTime) -> str:
    return f"every {how.period / 1e6:g} s, delay {how.delay / 1e6:g} s"


# --------------------------------------------------------------------------------------------------- types


def fields_of(schema: Schema, path: str = "") -> dict[str, str]:
    """A schema as lines: its name, and that of each field of its records, by path."""
    match schema:
        case Record(cls, fields):
            found = {path: _class(cls)}
            for name, inner in fields:
                found |= fields_of(inner, f"{path}.{name}")
            return found
        case Optional(item):
            found = fields_of(item, path)
            return found | {path: f"{found[path]} | None"}
        case ListOf(item, frozen):
            return {path: "tuple" if frozen else "list"} | fields_of(item, f"{path}[]")
        case OneOf(members):
            found = {path: " | ".join(_class(member.cls) for member in members)}
            for member in members:
                found |= fields_of(member, f"{path}<{member.cls.__name__}>")
            return found
        case _:
            return {path: name_of(schema)}


def fields_of_type(annotation: Any, path: str = "", above: tuple[Any, ...] = ()) -> dict[str, str]:
    """The same for the type of a state, which need not have a schema: any class, and any generic type of such."""
    if isinstance(annotation, NewType):
        return fields_of_type(annotation.__supertype__, path, above)
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is typing.Annotated:
        return fields_of_type(args[0], path, above)
    cls = origin if isinstance(origin, type) else annotation
    found = {path: _class(cls) if isinstance(cls, type) and not args else show_type(annotation)}
    if annotation in above:
        return found
    inner = (*above, annotation)
    for at, arg in enumerate(args):
        if arg is not ... and arg is not type(None):
            found |= fields_of_type(arg, f"{path}[{at}]", inner)
    if isinstance(cls, type) and cls.__module__ not in ("builtins", "typing"):
        for name, field in _annotations(cls).items():
            found |= fields_of_type(field, f"{path}.{name}", inner)
    return found


def _annotations(cls: type[Any]) -> dict[str, Any]:
    try:
        hints = typing.get_type_hints(cls)
    except Exception:  # names that only the author's file knows
        hints = getattr(cls, "__annotations__", {})
    return {name: hint for name, hint in hints.items() if get_origin(hint) is not typing.ClassVar}


def _class(cls: type[Any]) -> str:
    """A class by the name by which it is pickled."""
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def _first(make: Any) -> str:
    """The types in the value that a pure function of the author's gives."""
    try:
        return _types(make(), 6)
    except Exception as error:  # a run will say so
        return f"raises {type(error).__name__}"


def _types(value: object, depth: int) -> str:
    cls: Any = type(value)
    inner: list[str] = []
    if depth and isinstance(value, list | tuple | set | frozenset):
        inner = sorted({_types(one, depth - 1) for one in value})
    elif depth and isinstance(value, dict):
        inner = sorted({f"{_types(key, depth - 1)}: {_types(one, depth - 1)}" for key, one in value.items()})
    elif depth and attrs.has(cls):
        inner = [f"{a.name}: {_types(getattr(value, a.name), depth - 1)}" for a in attrs.fields(cls)]
    elif depth and dataclasses.is_dataclass(value):
        inner = [f"{f.name}: {_types(getattr(value, f.name), depth - 1)}" for f in dataclasses.fields(value)]
    return _class(cls) + (f"({', '.join(inner)})" if inner else "")


# ---------------------------------------------------------------------------------------------- parameters


def _parameters(value: object) -> dict[str, str]:
    cls: Any = type(value)
    names = [a.name for a in attrs.fields(cls)] if attrs.has(cls) else []
    return {name: _parameter(getattr(value, name)) for name in names}


def _parameter(value: object) -> str:
    """A parameter by its value where that is the same in every process, else by its type."""
    if isinstance(value, type) or get_origin(value) is not None:
        return show_type(value)
    if attrs.has(type(value)):
        return f"{type(value).__qualname__}({', '.join(f'{n}={text}' for n, text in _parameters(value).items())})"
    text = show(_sorted(value), MOST)
    if " at 0x" in text or callable(value):
        return type(value).__name__
    return text if len(text) <= 200 else f"{text[:160]}... ({hashlib.sha256(text.encode()).hexdigest()[:8]})"


def _sorted(value: object) -> object:
    """With its sets as sorted lists: the order of a set of texts differs from process to process."""
    match value:
        case set() | frozenset():
            return sorted((_sorted(one) for one in value), key=repr)
        case dict():
            return {key: _sorted(one) for key, one in value.items()}
        case list() | tuple():
            return [_sorted(one) for one in value]
        case _:
            return value
