"""Tracing: an operator's Python methods, called with symbolic arguments, become trees of
:mod:`tracetypes.compiler.tracing.expr`.

The tracer runs a method once for each path through it. The arguments are symbols that record what is done with them. A
condition on symbols is a decision, and the method runs again for each outcome that was not seen yet. The tracer first
compiles the author's functions again (:mod:`tracetypes.compiler.tracing.syntax`), so that every operation passes
through the ``Tracer`` of :mod:`tracetypes.compiler.tracing.symbolic`.

A tree is never wrong. For every row :func:`tracetypes.compiler.tracing.expr.run` gives the result of the method, or it
is undefined: if Python raises, if an integer leaves 64 bits, or if the answer depends on something that expressions
cannot express (whether two NaNs in tuples are the same object; whether an integer beyond 2**53 is less than a float). A
method that cannot be traced raises :class:`Untraceable` with the reason and the author's line.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Literal, TypeAlias, final

import attrs

from tracetypes.blame import Called
from tracetypes.compiler.tracing.expr import Leaf, Tree
from tracetypes.compiler.tracing.symbolic.calls import Tracer
from tracetypes.compiler.tracing.symbolic.exploration import explored
from tracetypes.compiler.tracing.symbolic.paths import Raised, Stop, TracePath, Untraceable
from tracetypes.compiler.tracing.symbolic.proxies import (
    TracedDeferred,
    TracedDuration,
    TracedEmit,
    TracedMatch,
    TracedMethod,
    TracedParts,
    TracedSymbol,
)
from tracetypes.compiler.tracing.symbolic.shapes import Fixed, Given, Nested, Shape, shape_of
from tracetypes.function_code import runs_later
from tracetypes.records import Schema
from tracetypes.templates import OpKeyedUnordered, OpStateless

__all__ = [
    "Fixed",
    "Given",
    "Nested",
    "Shape",
    "Untraceable",
    "shape_of",
    "trace",
    "trace_function",
    "trace_lift",
    "trace_method",
    "trace_on_item",
]

Emits: TypeAlias = Literal["pairs", "values", None]

_STAND_INS = tuple(
    cls.__name__ for cls in (TracedSymbol, TracedDeferred, TracedDuration, TracedParts, TracedMatch, TracedMethod, TracedEmit)
)
"""Classes that Python names where it cannot do without a value."""


def trace(
    function: Callable[..., Any],
    arguments: Sequence[Shape],
    *,
    emits: Emits,
    limit: int = 64,
    fields: bool = False,
    instants: bool = False,
) -> Tree:
    """The tree of a function of these arguments.

    ``emits``: adds a last argument ``emit``, which takes a key and a value, or a value only; None: no such argument.
    With ``"pairs"`` the result of the function does not count. ``limit``: the largest number of paths. ``fields``: optional
    records are None or have their fields in the tree; otherwise they may be inputs as a whole. ``instants``: of a time that it
    returns, only the instant counts, in whatever zone. Raises :class:`Untraceable`.
    """
    tracer = Tracer(limit, fields=fields, instants=instants)
    return _Explorer(function, tuple(arguments), emits, tracer).tree()


def trace_method(
    op: object, method: str, arguments: Sequence[Shape], *, emits: Emits, limit: int = 64, fields: bool = False
) -> Tree:
    """The tree of a method of an operator, aggregate or other frozen object. Raises :class:`Untraceable`."""
    return trace(getattr(op, method), arguments, emits=emits, limit=limit, fields=fields)


def trace_on_item(op: OpStateless[Any, Any, Any, Any], key: Schema, value: Schema, *, limit: int = 64) -> Tree:
    """The tree of ``on_item`` of a stateless operator; inputs ``key`` and ``value``. Raises :class:`Untraceable`."""
    return trace(op.on_item, (Given("key", key), Given("value", value)), emits="pairs", limit=limit)


def trace_lift(
    op: OpKeyedUnordered[Any, Any, Any, Any, Any, Any], key: Schema, value: Schema, *, limit: int = 64
) -> Tree:
    """The tree of ``lift``; inputs ``key`` and ``value``. Raises :class:`Untraceable`."""
    return trace(op.lift, (Given("key", key), Given("value", value)), emits=None, limit=limit)


def trace_function(
    function: Callable[[Any], Any], schema: Schema, *, limit: int = 64, instants: bool = False
) -> Tree:
    """The tree of a function of one value, as of ``every(time=...)`` and ``key=``; input ``value``. ``instants``: of a time that
    it returns, only the instant counts.

    Raises :class:`Untraceable`.
    """
    return trace(function, (Given("value", schema),), emits=None, limit=limit, instants=instants)


@final
class _Explorer:
    """Runs a function once for each way through it: depth first, the outcome True before False."""

    def __init__(
        self, function: Callable[..., Any], arguments: tuple[Shape, ...], emits: Emits, tracer: Tracer
    ) -> None:
        self.function, self.arguments, self.emits, self.tracer = function, arguments, emits, tracer
        self.first_exception: tuple[str, tuple[Called, ...]] | None = None
        self.returned = False

    def tree(self) -> Tree:
        try:
            tree = self.explored()
            if not self.returned:
                error, calls = self.first_exception or ("an exception", ())
                raise Stop(f"always raises {error}", calls)
            return attrs.evolve(tree, touched=tuple(self.tracer.touched.values()))
        except Stop as stop:
            raise Untraceable(stop.what, stop.calls) from None

    def explored(self) -> Tree:
        exploration = explored(self.tracer, self.once)
        try:
            next(exploration)
        except StopIteration as end:
            tree: Tree = end.value
            return tree
        raise TypeError("only a loop yields")

    def once(self, forced: tuple[bool, ...]) -> Generator[Any, None, tuple[TracePath, Leaf]]:
        """Run it, taking the decisions in ``forced`` and then the outcome True."""
        yield from ()
        tracer = self.tracer
        run = tracer.run = TracePath(forced)
        leaf: Leaf | None = None
        try:
            arguments = [tracer.argument(shape) for shape in self.arguments]
            if self.emits is not None:
                arguments.append(TracedEmit(tracer, self.emits))
            returned = tracer.call(self.function, *arguments)
            if (later := runs_later(returned)) is not None:
                raise Stop(f"is {later}, which does not run")
            result = None if self.emits == "pairs" else tracer.value_of(returned, "returns")
            leaf = Leaf(tuple(run.emissions), result)
        except Raised as raised:
            self.failed(run, "an exception", raised)
        except RecursionError:
            raise Stop("recurses too deep") from None
        except Exception as error:
            if any(name in str(error) for name in _STAND_INS):
                raise Stop(f"needs a real value ({type(error).__name__})", tracer.calls(error.__traceback__)) from error
            self.failed(run, f"{type(error).__name__}: {error}", error)
        finally:
            tracer.run = None
        if isinstance(run.ended, Stop):
            raise run.ended
        if leaf is None or run.ended is not None:
            return run, Leaf(raises=True)
        self.returned = True
        return run, leaf

    def failed(self, run: TracePath, reason: str, error: BaseException) -> None:
        """A path ends in an exception."""
        calls = self.tracer.calls(error.__traceback__)
        if self.tracer.run is not run:
            raise Stop(f"raises {reason} in a loop over a range of values", calls)
        self.first_exception = self.first_exception or (reason, calls)
