"""The parts of a plan that a checkpoint depends on, and the parts that may change, as labelled lines that a person can
compare.

A checkpoint has, for each stage and key group, the progress of each link, the content of open blocks, and the states of
the keys of each step. Spark adds how far each source was read, by the place of the source in the query, and numbers the
stateful operators by place too. So a plan can go on with a checkpoint if it has the same stages in the same places,
which read the same sources in the same order, the same steps, and the same types in what is held. All of that is
``kept``. The rest is ``free``: stateless operators and what they emit for future items, and the columns and the format
of the sink. The code of functions is not compared.

Secrets are compared by a hash with the key of the checkpoint (:mod:`.key`). :data:`FIELDS` lists how each field of each
node counts.

Parameters of keyed operators are kept: a state has a meaning for the parameters that made it (a window's panes, the
best k of a block), and only the author knows what it means for others (``may_change``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar

import attrs

from tracetypes.compiler.analysis.content import Hidden, Incomparable, content, shortened
from tracetypes.compiler.analysis.secret import Key
from tracetypes.compiler.plan.facts import is_straight, sums_only
from tracetypes.compiler.plan.field_types import fields_of, fields_of_type, types_made
from tracetypes.compiler.plan.plan import (
    FromChannel,
    FromSource,
    FromStage,
    Leaf,
    Link,
    MergeStep,
    Plan,
    Region,
    Stage,
    StatelessStep,
    links,
)
from tracetypes.compiler.tracing.cache_keys import parts_of
from tracetypes.edges import edge_type
from tracetypes.errors import UsageError
from tracetypes.formats import Avro, Csv, JsonLines, Kafka, Layout, Parquet, TextLines
from tracetypes.markers import EventTime, InBand
from tracetypes.nodes import (
    Apply,
    Fused,
    Gate,
    Gather,
    Merge,
    Node,
    Receive,
    Restore,
    RowPosition,
    Sink,
    Sort,
    Source,
    Split,
    title,
)
from tracetypes.records import Schema
from tracetypes.redaction import hidden_fields
from tracetypes.templates import TEMPLATES, Operator, OpKeyedOrdered, OpKeyedUnordered, as_operator, type_arguments

__all__ = ["Fingerprint", "described", "fingerprint"]

KEPT, FREE, DERIVED = "kept", "free", "derived"

FIELDS: Final[Mapping[type[Any], Mapping[str, str]]] = {
    Source: {
        "id": DERIVED,
        "where": FREE,
        "name": KEPT,
        "edge": FREE,
        "markers": KEPT,
        "key": KEPT,
        "ordered_by": KEPT,
        "format": FREE,
        "times": FREE,
        "output": KEPT,
        "inputs": DERIVED,
        "file_name": FREE,
    },
    Apply: {"id": DERIVED, "where": FREE, "inputs": DERIVED, "op": KEPT, "parallelism": FREE},
    Sort: {"id": DERIVED, "where": FREE, "inputs": DERIVED, "by": KEPT, "parallelism": FREE},
    Merge: {"id": DERIVED, "where": FREE, "inputs": KEPT},
    Gate: {
        "id": DERIVED,
        "where": FREE,
        "inputs": DERIVED,
        "bound": KEPT,
        "latest": KEPT,
        "latest_by": KEPT,
        "name": KEPT,
    },
    Sink: {
        "id": DERIVED,
        "where": FREE,
        "inputs": DERIVED,
        "name": KEPT,
        "marker": FREE,
        "position": FREE,
        "format": FREE,
        "partition_by": FREE,
        "flat": FREE,
    },
    Split: dict.fromkeys(("id", "where", "inputs", "how", "ways"), DERIVED),
    Gather: dict.fromkeys(("id", "where", "inputs"), DERIVED),
    Restore: dict.fromkeys(("id", "where", "inputs"), DERIVED),
    Receive: {"id": DERIVED, "where": DERIVED, "name": KEPT, "edge": KEPT, "behind": DERIVED, "inputs": DERIVED},
    Fused: dict.fromkeys(("id", "where", "inputs", "steps"), DERIVED),
    EventTime: {**dict.fromkeys(("period", "delay", "time", "unit", "ahead", "per", "idle"), KEPT), "closes_after": FREE},
    InBand: dict.fromkeys(("is_marker", "time", "unit"), KEPT),
    Csv: dict.fromkeys(("separator", "columns", "zone", "null", "encoding", "extension", "compression"), FREE),
    JsonLines: dict.fromkeys(("zone", "extension", "compression"), FREE),
    Parquet: dict.fromkeys(("zone", "extension", "compression"), FREE),
    Avro: dict.fromkeys(("zone", "extension"), FREE),
    TextLines: {},
    Kafka: dict.fromkeys(("headers", "marker", "markers", "zone", "key", "value", "envelope"), FREE),
    Layout: dict.fromkeys(("key", "value", "reserved", "truncated"), DERIVED),
}
"""What becomes of each field of what an author writes: it is ``kept``, or ``free``, or derived from others (the place of a node,
which the stages tell; what the passes make). Of functions nothing is kept but that they are there; a ``partial`` or an
object that can be called is kept by its values."""

NOTHING = "nothing"
NO_FUSE = "--no-fuse"
TELLS = "late rows are told by"

CLOSES = ", closes after"

LONG = 100
"""Operators of a link from which on they are told by a hash: of many sources that join one chain each has all of it."""


@attrs.frozen
class Fingerprint:
    """A plan as a checkpoint records it. ``kept``: what the checkpoint depends on, text by label. ``free``: what may
    change."""

    kept: Mapping[str, str]
    free: Mapping[str, str]

    @classmethod
    def of(cls, plain: Mapping[str, Mapping[str, str]]) -> Fingerprint:
        """The inverse of :attr:`plain`. Raises :class:`KeyError` and :class:`TypeError` for anything else."""
        return cls(dict(plain["kept"]), dict(plain["free"]))

    @property
    def plain(self) -> dict[str, dict[str, str]]:
        """For JSON."""
        return {"kept": dict(self.kept), "free": dict(self.free)}

    def refused(self, new: Fingerprint) -> list[str]:
        """The changes because of which another plan cannot go on with this checkpoint. What explains many of them is first."""
        refused = [*map(self._named, changes(self.kept, new.kept)), *self._swapped(new)]
        return [*(line for line in changes(self.free, new.free) if refused and line.startswith(NO_FUSE)), *refused]

    def changed(self, new: Fingerprint) -> list[str]:
        """The changes of a plan that can go on."""
        return list(map(self._named, changes(self.free, new.free)))

    @property
    def closing(self) -> frozenset[str]:
        """The sources whose last blocks close by the clock."""
        return frozenset(label.removesuffix(CLOSES) for label in self.free if label.endswith(CLOSES))

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
    """The labels that differ, with the old and the new text."""
    return [
        f"{label}: was {old.get(label, NOTHING)}, is {new.get(label, NOTHING)}"
        for label in dict.fromkeys([*old, *new])
        if old.get(label) != new.get(label)
    ]


_ANY_KEY: Final = Key()


def fingerprint(
    plan: Plan, *, sends: bool = False, channels: Mapping[str, str] | None = None, key: Key = _ANY_KEY
) -> Fingerprint:
    """The fingerprint of a plan. ``sends``: its sink feeds a channel. ``channels``: names by which a checkpoint knows
    channels, if they differ. ``key``: of the checkpoint, to compare secrets (by default one of this process)."""
    return _Describer(plan, sends, channels or {}, key).run()


def described(plan: Plan) -> list[dict[str, Any]]:
    """The stages, for those who inspect a checkpoint: names of operators, and the earlier stages that each reads."""
    return [
        {
            "stage": stage.number,
            "operators": [title(step.node) for step in stage.steps],
            "reads": [leaf.stage for leaf in stage.region.leaves if isinstance(leaf, FromStage)],
        }
        for stage in plan.stages
    ]


class _Describer:
    def __init__(self, plan: Plan, sends: bool, channels: Mapping[str, str], key: Key) -> None:
        self.plan, self.sends, self.channels, self.hide = plan, sends, channels, key.hide
        self.kept: dict[str, str] = {}
        self.free: dict[str, str] = {}
        self.labels: dict[str, int] = {}
        self.operators: dict[int, str] = {}

    def run(self) -> Fingerprint:
        plan, straight = self.plan, is_straight(self.plan)
        self.kept["key groups"] = str(plan.key_groups)
        self.kept["stages"] = str(len(plan.stages))
        self.kept["blocks are closed"] = "by the driver" if straight else "by stages"
        for stage in plan.stages:
            self.stage(stage, holds=not straight)
        if not plan.fused:
            self.free[NO_FUSE] = "given"
        (behind,) = links(plan.region)
        self.free["behind the last stage"] = self.path(behind)
        if self.sends:
            self.add(self.kept, "channel, key", fields_of(plan.region.stream.key))
            self.add(self.kept, "channel, value", fields_of(plan.region.stream.value))
            if plan.gate is not None:
                self.kept["gate"] = f"{title(plan.gate)}: {plan.gate.bound}"
                self.kept["gate, bound"] = self.strictly(plan.gate.bound, "gate, bound")
                if plan.gate.latest_by is not None:
                    self.kept["gate, latest_by"] = self.strictly(plan.gate.latest_by, "gate, latest_by")
        else:
            sink = plan.sink
            self.kept["sink"] = sink.name
            columns = [name for name in (sink.marker, sink.position) if name is not None]
            self.free["sink, type"] = str(plan.edge)
            self.free["sink, columns for marker and position"] = ", ".join(columns) or NOTHING
            self.free["sink, folders"] = ", ".join(sink.partition_by) or NOTHING
            if sink.flat:
                self.free["sink, columns"] = "flat"
            self.free["sink, format"] = NOTHING if sink.format is None else self.loosely(sink.format)
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
            self.block_content(name, stage)
        if stage.pane is not None:
            self.kept[f"{name}, panes"] = f"{stage.pane[0]} microseconds, from {stage.pane[1]}"
        for at, step in enumerate(stage.steps):
            node, label = step.node, f"{name}, step {at}"
            self.kept[label] = type(node.op).__qualname__ if isinstance(node, Apply) else _kind(node)
            if isinstance(node, Apply):
                self.add(self.kept, f"{label}, key", fields_of(step.takes.key))
                self.operator(label, as_operator(node.op), step.takes.value)
            elif isinstance(node, Sort):
                self.kept[f"{label}, by"] = self.strictly(node.by, f"{label}, by")

    def reads(self, region: Region) -> str:
        """The inputs of a region, and how it is merged."""
        text: list[str] = []
        pending: list[int | str] = [len(region.nodes) - 1]
        while pending:
            one = pending.pop()
            if isinstance(one, str):
                text.append(one)
                continue
            node = region.nodes[one]
            match node:
                case StatelessStep():
                    pending.append(node.upstream)
                case MergeStep():
                    pending.append(")")
                    for upstream in reversed(node.upstreams[1:]):
                        pending += [upstream, ", "]
                    pending += [node.upstreams[0], "merge of ("]
                case FromSource() | FromStage() | FromChannel():
                    text.append(self.read(node))
        return "".join(text)

    def read(self, leaf: Leaf) -> str:
        """The input of a leaf."""
        match leaf:
            case FromSource(source=source):
                return {"items": "", "late": "late items of ", "rejects": "rejects of "}[
                    source.output
                ] + f"source {source.name}"
            case FromChannel(name=name):
                return f"channel {self.channels.get(name, name)}"
            case FromStage(stage=stage):
                return f"stage {stage}"

    def leaf(self, name: str, link: Link) -> None:
        leaf, where = link.leaf, self.read(link.leaf)
        label = f"{name}, from {where}"
        self.labels[label] = count = self.labels.get(label, 0) + 1
        label += " again" * (count - 1) if count <= 4 else f" again, {count}"
        self.free[label] = self.path(link)
        match leaf:
            case FromSource(source=source):
                how, by = source.markers, source.ordered_by
                self.kept[f"{where}, markers"] = _times(how) if isinstance(how, EventTime) else "in band"
                if isinstance(how, EventTime) and how.closes_after is not None:
                    self.free[where + CLOSES] = f"{how.closes_after / 1e6:g} s"
                self.kept[f"{where}, unit of time"] = how.unit
                self.kept[f"{where}, ordered by"] = "the position of rows" if isinstance(by, RowPosition) else NOTHING
                functions = {"key": source.key, "time": how.time, "ordered_by": by}
                functions |= {"per": how.per} if isinstance(how, EventTime) else {"is_marker": how.is_marker}
                for name, function in functions.items():
                    if function is not None and not isinstance(function, RowPosition):
                        self.kept[f"{where}, {name}"] = self.strictly(function, f"{where}, {name}")
                self.free[f"{where}, times"] = source.times
                self.free[f"{where}, format"] = NOTHING if source.format is None else self.loosely(source.format)
                if source.file_name is not None:
                    self.free[f"{where}, column for the name of the file"] = source.file_name
                tells = "another reading of the source" if leaf.quiet else "this reading"
                self.kept[f"{label}, {TELLS}"] = tells
                self.free[f"{where}, type"] = str(edge_type(source.edge))
                self.add(self.free, f"{where}, value", fields_of(leaf.items.value))
            case FromChannel():
                self.add(self.kept, f"{where}, key", fields_of(leaf.stream.key))
                self.add(self.kept, f"{where}, value", fields_of(leaf.stream.value))
            case FromStage():
                pass

    def block_content(self, name: str, stage: Stage) -> None:
        """The form of the items that open blocks hold."""
        first = stage.steps[0].node if stage.steps else None
        self.add(self.kept, f"{name}, open blocks, key", fields_of(stage.takes.key))
        if isinstance(first, Apply) and sums_only(stage):
            self.kept[f"{name}, open blocks"] = f"aggregates of {title(first)}"
            return
        self.kept[f"{name}, open blocks"] = "items with their places" if isinstance(first, Restore) else "items"
        self.add(self.kept, f"{name}, open blocks, value", fields_of(stage.takes.value))

    def path(self, link: Link) -> str:
        """The stateless operators of a link, whose parameters may change."""
        text = " ; ".join(map(self.of_operator, link.path)) or NOTHING
        return text if len(link.path) <= LONG else shortened(text)

    def of_operator(self, mapped: StatelessStep) -> str:
        """An operator with its parameters, described once for all links that have it."""
        if mapped.node.id not in self.operators:
            self.operators[mapped.node.id] = self.loosely(mapped.node.op)
        return self.operators[mapped.node.id]

    def loosely(self, value: object) -> str:
        """A parameter that may change: its value if that can be compared, otherwise its class."""
        if isinstance(value, TEMPLATES):
            parts = (f"{name}={self.loosely(part)}" for name, part in self.parameters(value))
            return f"{type(value).__qualname__}({', '.join(parts)})"
        try:
            return shortened(content(value, self.hide))
        except Incomparable:
            return type(value).__name__

    def strictly(self, value: object, what: str) -> str:
        """A parameter that may not change. Raises :class:`UsageError` ``TT409`` if it cannot be compared."""
        try:
            return shortened(content(value, self.hide))
        except Incomparable as error:
            raise UsageError(
                "TT409",
                f"{what} holds a {error}, and a later run could not tell whether it is another one",
                fix="give plain values, or a frozen class of such; may_change names the parameters of an operator that may",
            ) from error

    def parameters(self, op: Operator) -> Iterator[tuple[str, object]]:
        """The parameters of an operator; those with ``repr=False`` as a keyed hash."""
        cls: Any = type(op)
        for name, value in parts_of(op).items():
            yield name, Hidden(value) if name in hidden_fields(cls) else value

    def operator(self, label: str, op: Operator, value: Schema) -> None:
        may_change = op.may_change if isinstance(op, OpKeyedUnordered | OpKeyedOrdered) else ()
        for parameter, argument in self.parameters(op):
            line = f"{label}, parameter {parameter}"
            if parameter in may_change:
                self.free[line] = self.loosely(argument)
            else:
                self.kept[line] = self.strictly(argument, f"{type(op).__qualname__}.{parameter}")
        types: dict[str, tuple[Any, Any]] = {}
        if isinstance(op, OpKeyedUnordered):
            *_, state, agg = type_arguments(op, OpKeyedUnordered)
            types = {"state": (state, op.initial_state), "aggregate": (agg, op.identity)}
            self.kept[f"{label}, keys without items"] = "are skipped" if op.skips_untouched else "are visited"
            if meaning := op._meaning_of_states():
                self.kept[f"{label}, states"] = meaning
        elif isinstance(op, OpKeyedOrdered):
            types = {"state": (type_arguments(op, OpKeyedOrdered)[-1], op.initial_state)}
        if isinstance(op, OpKeyedOrdered | OpKeyedUnordered) and op.forgets_idle:
            self.free[f"{label}, idle keys"] = "are forgotten"
        for what, (annotation, first) in types.items():
            self.add(self.kept, f"{label}, {what}", fields_of_type(annotation))
            self.kept[f"{label}, {what} at first"] = types_made(first)
            generic: Any = getattr(annotation, "__parameters__", None)
            if isinstance(annotation, TypeVar) or generic:
                self.add(self.kept, f"{label}, items", fields_of(value))


def _times(how: EventTime) -> str:
    more = "" if how.ahead is None else f", ahead {how.ahead / 1e6:g} s"
    more += "" if how.idle is None else f", idle {how.idle / 1e6:g} s"
    return f"every {how.period / 1e6:g} s, delay {how.delay / 1e6:g} s{more}"


def _kind(node: Node) -> str:
    """The name of a node that is no operator, as checkpoints have it."""
    return {Sort: "SORT", Merge: "MRG"}.get(type(node)) or title(node)
