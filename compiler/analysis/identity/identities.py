"""The identity of each node of a graph: what it computes, as a hash that is the same in every process.

An identity is made of the template, the code with all that it reaches, values, types, markers, the source, and the
identities of the parents in their places. Names of local variables, files, lines and parallelism do not count. Equal
identities mean equal traces, so what nothing can identify is :class:`Unique`.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, Final, TypeAlias, final

import attrs

from tracetypes.adaptive_bounds import Adaptive
from tracetypes.bounds import parts_of
from tracetypes.check import Checked
from tracetypes.compiler.analysis.identity.description import Hide, Reads, Unidentified
from tracetypes.compiler.analysis.identity.reach import Reach
from tracetypes.compiler.analysis.identity.writer import Writer
from tracetypes.edges import EdgeType
from tracetypes.nodes import Apply, Gate, Merge, Node, Sink, Sort, Source, title
from tracetypes.templates import TEMPLATES

__all__ = ["Digest", "Identity", "Unique", "identities"]


@final
@attrs.frozen
class Digest:
    """The identity of a node that others may have too. ``text``: the SHA-256, in hexadecimal digits."""

    text: str


@final
@attrs.frozen(eq=False)
class Unique:
    """The identity of a node that no other node has. ``reason``: why, for users. ``text``: different for each."""

    reason: str
    text: str = attrs.field(factory=lambda: f"unique:{secrets.token_hex(16)}")


Identity: TypeAlias = Digest | Unique

_ABOVE: Final = "it reads from "


def identities(
    checked: Checked,
    *,
    inputs: Mapping[str, str | Unique],
    outputs: Mapping[str, str | Unique] | None = None,
    hide: Hide | None = None,
) -> dict[int, Identity]:
    """The identity of each node, by its number.

    ``inputs``: of each source by its name, what is read and how, as a text. A source without one is unique. ``outputs``: of
    each sink, where it writes. ``hide``: a keyed hash for secrets; without it operators that hold secrets are unique.
    """
    identifier = _Identifier(checked, inputs, outputs or {}, hide)
    return {node.id: identifier.add(node) for node in checked.graph.nodes}


@final
class _Identifier:
    def __init__(
        self, checked: Checked, inputs: Mapping[str, str | Unique], outputs: Mapping[str, str | Unique], hide: Hide | None
    ) -> None:
        self.types, self.inputs, self.outputs = checked.types, inputs, outputs
        self.nodes = checked.graph.by_id
        self.reach = Reach(hide)
        self.known: dict[int, Identity] = {}

    def add(self, node: Node) -> Identity:
        """The identity of a node whose parents have one."""
        identity = self.known[node.id] = self._identity(node)
        return identity

    def _identity(self, node: Node) -> Identity:
        for parent in node.inputs:
            above = self.known[parent]
            if isinstance(above, Unique):
                inherited = above.reason.startswith(_ABOVE)
                return Unique(above.reason if inherited else f"{_ABOVE}{title(self.nodes[parent])}: {above.reason}")
        try:
            writer = Writer(self.reach.context)
            self._write(node, writer)
            text, reads = self.reach.hash_of(writer.description())
        except Unidentified as error:
            return Unique(str(error))
        except Exception as error:  # of the author's own code, or nested too deeply
            return Unique(f"it cannot be looked at: {type(error).__name__}: {error}")
        if isinstance(node, Gate) and "outside" in reads.attributes:
            return Unique("its bound looks at the machine")
        return Digest(text)

    def _write(self, node: Node, writer: Writer) -> None:
        writer.out.append(f"{type(node).__name__} gives ")
        self._edge(self.types[node.id], writer)
        if isinstance(node, Merge):
            self._parents_in_any_order(node, writer)
        else:
            for parent in node.inputs:
                writer.out.append(f" reads {self.known[parent].text} ")
                self._edge(self.types[parent], writer)
        match node:
            case Source():
                self._source(node, writer)
            case Apply(op=op):
                writer.out.append(next((template.__name__ for template in TEMPLATES if isinstance(op, template)), "none"))
                writer.named("operator", op)
            case Sort(by=by):
                writer.named("by", by)
            case Gate(bound=bound, latest=latest, latest_by=latest_by):
                if any(isinstance(one, Adaptive) and one.load for one in parts_of(bound)):
                    raise Unidentified("its bound looks at the machine")
                writer.named("bound", bound)
                writer.named("latest", latest)
                writer.named("latest by", latest_by)
            case Sink():
                self._sink(node, writer)
            case Merge():
                pass
            case _:
                raise Unidentified("it is made by the compiler")

    @staticmethod
    def _edge(edge: EdgeType, writer: Writer) -> None:
        writer.out.append("O[" if edge.ordered else "U[")
        writer.type(edge.key)
        writer.out.append(", ")
        writer.type(edge.value)
        writer.out.append("]")

    def _parents_in_any_order(self, node: Merge, writer: Writer) -> None:
        """The parents of a merge, each as often as it is read. Two records of equal fields are told apart by their places in
        the type of the merge."""
        parents: list[tuple[str, str, list[Any]]] = []
        for parent in node.inputs:
            own = Writer(self.reach.context)
            self._edge(self.types[parent], own)
            parents.append((self.known[parent].text, "".join(own.out), own.parts))
        for identity, edge, parts in sorted(parents, key=lambda one: one[:2]):
            writer.out.append(f" reads {identity} {edge}")
            writer.parts += parts

    def _source(self, node: Source, writer: Writer) -> None:
        found = self.inputs.get(node.name)
        if found is None:
            raise Unidentified("nothing says what it reads")
        if isinstance(found, Unique):
            raise Unidentified(found.reason)
        self._edge_of_source(node, writer)
        for label, one in (
            ("input", found),
            ("output", node.output),
            ("markers", node.markers),
            ("key", node.key),
            ("ordered by", node.ordered_by),
            ("format", node.format),
            ("times", node.times),
            *([("file name", node.file_name)] if node.file_name is not None else []),
        ):
            writer.named(label, one)
        if node.output == "rejects":
            writer.reads |= Reads(shown=True)  # the reason of a reject names classes

    def _edge_of_source(self, node: Source, writer: Writer) -> None:
        writer.out.append(" declares ")
        writer.type(node.edge)

    def _sink(self, node: Sink, writer: Writer) -> None:
        found = self.outputs.get(node.name)
        if found is None:
            raise Unidentified("it writes an output of its own")
        if isinstance(found, Unique):
            raise Unidentified(found.reason)
        for label, one in (
            ("output", found),
            ("marker", node.marker),
            ("position", node.position),
            ("format", node.format),
            ("partition by", node.partition_by),
            *([("flat", True)] if node.flat else []),
        ):
            writer.named(label, one)
