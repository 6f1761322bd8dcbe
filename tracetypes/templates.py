"""The three operator templates (data-trace-types, section 4, Table 1).

An operator is a frozen instance of a class that fills one template in. What it may do is what its signature allows:
state is passed in and returned, output goes through ``emit``, and what must be pure gets no ``emit``.

The types of a generic operator's class are those of the stream that it is applied to. What does not follow from that
stream, such as what a function returns, the operator names itself: see :meth:`SelfDescribing.type_arguments`.
"""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar, cast, get_args, get_origin

import attrs

from tracetypes.block_joins import BlockJoin
from tracetypes.choices import Choice
from tracetypes.consecutive_windows import ConsecutiveWindows
from tracetypes.duplicates import Duplicates
from tracetypes.edges import EdgeType, O, U
from tracetypes.errors import DataError, TraceTypesError, raised_at
from tracetypes.graph import Stream, extend
from tracetypes.last_items import LastItems
from tracetypes.latest import Latest
from tracetypes.markers import Marker
from tracetypes.near import Near
from tracetypes.own_windows import OwnWindows
from tracetypes.records import show
from tracetypes.self_description import SelfDescribing
from tracetypes.sliding import Sliding
from tracetypes.summaries import WholeBlock

__all__ = [
    "Coarser",
    "Emit",
    "EmitValue",
    "Linger",
    "OpKeyedOrdered",
    "OpKeyedUnordered",
    "OpStateless",
    "Operator",
    "as_operator",
    "overrides",
    "template_types",
    "type_arguments",
]

K = TypeVar("K")
V = TypeVar("V")
L = TypeVar("L")
W = TypeVar("W")
S = TypeVar("S")
A = TypeVar("A")

Emit: TypeAlias = Callable[[L, W], None]
"""How an operator emits a pair: ``emit(key, value)``."""

EmitValue: TypeAlias = Callable[[W], None]
"""How an operator that keeps its key emits: ``emit(value)``."""

Linger: TypeAlias = int | dt.timedelta
"""How long an operator may still emit at markers after its last item: a number of blocks, or a time."""


class OpStateless(SelfDescribing, ABC, Generic[K, V, L, W]):
    """``U[K, V] -> U[L, W]``: each item by itself, without memory."""

    _is_template = True
    _is_keyed: ClassVar[bool] = False

    def __call__(self, upstream: Stream[U[K, V]]) -> Stream[U[L, W]]:
        """Append the operator to a stream; use :meth:`Stream.through`."""
        return extend(upstream, self)

    @abstractmethod
    def on_item(self, key: K, value: V, emit: Emit[L, W]) -> None:
        """Emit any number of pairs for one item."""

    def on_marker(self, marker: Marker, emit: Emit[L, W]) -> None:
        """Emit any number of pairs at a marker, into the block that it ends: once per marker at every parallelism."""

    def prefetch(self, items: Sequence[tuple[K, V]]) -> None:
        """A hint that ``on_item`` will be called for these items next, for operators that ask somebody else: one question
        for all of them. Pure optimisation: a backend may leave it out, repeat it, or name items that never come; what
        ``on_item`` emits does not depend on it."""


class _Keyed(SelfDescribing, ABC):
    """What the two templates with a state per key share."""

    may_change: ClassVar[tuple[str, ...]] = ()
    """Declares which parameters may be others when a run goes on with a changed graph: states, and aggregates of open blocks,
    that were made with the old ones mean the same with the new ones. Nothing tests that."""

    def linger(self) -> Linger:
        """How long the operator may still emit at markers when its input has ended: a number of blocks, or a time.

        A source that ends sends markers over empty blocks as long as operators behind it linger, and ``on_marker`` runs at
        these; then it runs no more. An operator that emits at markers what earlier blocks held says here after how many of
        them it has emitted all: a window of three blocks ``2``, a session its gap. A law tests that longer silence brings
        nothing more. See :mod:`tracetypes.silence`."""
        return 0


class OpKeyedOrdered(_Keyed, Generic[K, V, W, S]):
    """``O[K, V] -> O[K, W]``: per key and in order, with a state per key. The key is kept: ``emit`` takes a value.

    The state that a method receives is its own: it may change and return it.
    """

    _is_template = True

    forgets_idle: ClassVar[bool] = False
    """Declares that a key that was never seen would be silent: ``on_marker`` emits nothing for ``initial_state()`` and returns
    it as it is, whatever the key and the marker. A law that is tested; it lets a key be forgotten when its state has become
    ``initial_state()`` again, so that keys which come and go cost neither time nor state."""

    def __call__(self, upstream: Stream[O[K, V]]) -> Stream[O[K, W]]:
        """Append the operator to a stream; use :meth:`Stream.through`."""
        return extend(upstream, self)

    @abstractmethod
    def initial_state(self) -> S:
        """The state of a key that was not seen yet."""

    @abstractmethod
    def on_item(self, state: S, key: K, value: V, emit: EmitValue[W]) -> S:
        """The state after an item."""

    def on_marker(self, state: S, key: K, marker: Marker, emit: EmitValue[W]) -> S:
        """The state after a marker. Called for every key seen so far, also when the block held nothing for it."""
        return state

    def next_due(self, state: S, key: K) -> int | None:
        """The earliest time, in microseconds since the epoch, of a marker at which ``on_marker`` does anything for a key that
        gets no items; None for never. Markers before it are left out where nothing else comes. Pure optimisation, for long
        silences: an operator that does not define it is asked at each marker. A law tests it."""
        raise NotImplementedError

    def next_emission(self, state: S, key: K) -> int | None:
        """The earliest time of a marker at which ``on_marker`` may emit anything for a key that gets no items; None for never.
        For an operator that is due (``next_due``) more often than it emits: of the markers before that time the last one must do
        to the state what all of them would, and the others are left out. Pure optimisation, like ``next_due``; a law tests it."""
        raise NotImplementedError

    def _says(
        self,
    ) -> ConsecutiveWindows[V] | Duplicates[V] | LastItems | Latest[V] | Near[V] | OwnWindows[V] | Sliding | None:
        """The parameters of an operator of the standard library that has a kernel over columns; None for all others."""
        return None


@attrs.frozen
class Coarser:
    """What may run in place of an operator: ``op``, whose aggregates are those of the other one. So many ``blocks`` are joined
    into one for it, of this ``size`` and ``offset`` in microseconds."""

    op: OpKeyedUnordered[Any, Any, Any, Any, Any, Any]
    blocks: int
    size: int
    offset: int


class OpKeyedUnordered(_Keyed, Generic[K, V, L, W, S, A]):
    """``U[K, V] -> U[L, W]``: per key and block a bag, summed up in a commutative monoid ``A`` and folded into a state.

    ``lift``, ``identity``, ``combine``, ``initial_state`` and ``update_state`` are pure; ``combine`` is associative and
    commutative with ``identity()`` as its neutral element. :func:`tracetypes.testing.check_laws` tests that.
    """

    _is_template = True

    skips_untouched: ClassVar[bool] = False
    """Declares that a key whose block is empty needs no visit: its ``on_marker`` would emit nothing, and leaving the
    identity update out changes nothing that is ever emitted. A law that is tested; it makes idle keys free."""

    forgets_idle: ClassVar[bool] = False
    """Declares that a key that was never seen would be silent: ``on_marker`` emits nothing for ``initial_state()``, nor for what
    ``update_state(..., identity())`` makes of it, whatever the key and the marker. A law that is tested; it lets a key be
    forgotten when its state has become that of a key that was never seen. Nothing more to gain where ``skips_untouched``."""

    def __call__(self, upstream: Stream[U[K, V]]) -> Stream[U[L, W]]:
        """Append the operator to a stream; use :meth:`Stream.through`."""
        return extend(upstream, self)

    @abstractmethod
    def lift(self, key: K, value: V) -> A:
        """One item as an element of the monoid (the paper's ``in``)."""

    @abstractmethod
    def identity(self) -> A:
        """The neutral element (the paper's ``id``)."""

    @abstractmethod
    def combine(self, a: A, b: A) -> A:
        """The operation of the monoid."""

    @abstractmethod
    def initial_state(self) -> S:
        """The state before the first marker."""

    @abstractmethod
    def update_state(self, state: S, agg: A) -> S:
        """The state after a marker, from the state before it and the aggregate of the block."""

    def on_item(self, last_state: S, key: K, value: V, emit: Emit[L, W]) -> None:
        """Emit for an item, knowing the state as of the last marker."""

    @abstractmethod
    def on_marker(self, new_state: S, key: K, marker: Marker, emit: Emit[L, W]) -> None:
        """Emit at a marker. Called for every key seen so far, also when the block held nothing for it."""

    def tumbles(self) -> tuple[int, int] | None:
        """Size and offset, in microseconds, of windows that follow one another, for an operator that answers whole windows: it
        emits only at the markers that end one, nothing for a key without items in it, and there what follows from the items of
        the window alone: ``on_marker(update_state(initial_state(), agg), ...)`` with the aggregate of all its items. Then the
        blocks of a window may be joined, and no key is visited between. A law tests it. Windows begin at the multiples of the
        size plus the offset; the stream has a marker at each end of a window."""
        return None

    def coarser(self) -> Coarser | None:
        """An operator that emits the same when it gets fewer markers, and the blocks between two of them as one. For an operator
        that emits at some markers only, and to which it makes no difference in which of the blocks between them an item is. A
        law tests it."""
        return None

    def chooses(self) -> tuple[Choice[V], ...]:
        """Which values of a block and key it needs, for an operator that would emit the same without the others: those of any
        of the choices, and one at least where there is any. Empty: it needs all. Pure optimisation: others may come all the
        same. A law tests it."""
        return ()

    def _meaning_of_states(self) -> str:
        """Of an operator of the standard library whose states mean something else than those of an earlier version: what they
        mean. A checkpoint with the others does not go on."""
        return ""

    def _whole_block(self) -> WholeBlock[V] | None:
        """What an operator of the standard library emits of a block, where columns can compute that; None for all others."""
        return None

    def _joins(self) -> BlockJoin | None:
        """The parameters of a join of the standard library that has a kernel over columns; None for all others."""
        return None


Operator = (
    OpStateless[Any, Any, Any, Any]
    | OpKeyedOrdered[Any, Any, Any, Any]
    | OpKeyedUnordered[Any, Any, Any, Any, Any, Any]
)
TEMPLATES = (OpStateless, OpKeyedOrdered, OpKeyedUnordered)


def as_operator(op: SelfDescribing) -> Operator:
    """The operator of a node, typed as one of the three templates. :mod:`tracetypes.check` refuses anything else."""
    if not isinstance(op, OpStateless | OpKeyedOrdered | OpKeyedUnordered):
        raise TypeError(f"{type(op).__name__} fills no template in")
    return op


def overrides(op: object, method: str) -> bool:
    """Does the operator's class define ``method`` itself, or does it inherit the template's?"""
    return getattr(type(op), method) not in [getattr(t, method, None) for t in TEMPLATES]


def type_arguments(instance: object, base: type[Any]) -> tuple[Any, ...]:
    """The arguments that a generic ``base`` has in the class of ``instance``; type variables where they are not known.

    Raises :class:`TypeError` when ``base`` is no base of the class, and :class:`DataError` ``TT106`` when the instance does not
    name its types as :meth:`SelfDescribing.type_arguments` shall.
    """
    cls, above = cast(Any, type(instance)), cast(Any, base)  # mypy takes a class for unhashable
    own = getattr(instance, "__orig_class__", None)
    named = _named(instance) if isinstance(instance, SelfDescribing) else {}
    if own is None and not named:
        return _arguments_of_class(cls, above)
    arguments = {} if own is None else dict(zip(cls.__parameters__, get_args(own), strict=False))
    return _arguments_of(cls, base, arguments, named)


@cache
def _arguments_of_class(cls: type[Any], base: type[Any]) -> tuple[Any, ...]:
    """The arguments that a generic ``base`` has in a class whose instances say nothing of their own."""
    return _arguments_of(cls, base, {}, {})


def _arguments_of(cls: type[Any], base: type[Any], arguments: dict[Any, Any], named: dict[str, Any]) -> tuple[Any, ...]:
    """The arguments that a generic ``base`` has in a class. ``arguments``: those of the class, by parameter. ``named``: those
    that an instance names itself."""
    pending: list[tuple[Any, dict[Any, Any]]] = [(cls, arguments)]
    while pending:
        at, bound = pending.pop()
        if "type_arguments" in vars(at):
            here = [parameter for parameter in getattr(at, "__parameters__", ()) if parameter.__name__ in named]
            bound = {**bound, **{parameter: substitute(named[parameter.__name__], bound) for parameter in here}}
        if at is base:
            return tuple(bound.get(parameter, parameter) for parameter in base.__parameters__)
        for parent in at.__dict__.get("__orig_bases__", at.__bases__):
            origin = get_origin(parent) or parent
            if isinstance(origin, type) and issubclass(origin, base):
                args = tuple(substitute(arg, bound) for arg in get_args(parent))
                pending.append((origin, dict(zip(getattr(origin, "__parameters__", ()), args, strict=False))))
    raise TypeError(f"{cls.__name__} is not derived from {base.__name__}")


def _named(instance: SelfDescribing) -> dict[str, Any]:
    """What an instance says of its types."""
    what, where = f"{type(instance).__name__}.type_arguments()", None
    try:
        arguments: object = instance.type_arguments()
    except TraceTypesError:
        raise
    except Exception as error:
        problem, where = f"raised {type(error).__name__}: {error}", raised_at(error)
    else:
        if isinstance(arguments, Mapping) and all(isinstance(name, str) for name in arguments):
            return dict(arguments)
        problem = f"gave {show(arguments)}"
    raise DataError("TT106", f"{what} {problem}", fix="return types by name of parameter: {'W': float}", where=where)


def _arguments(op: object) -> tuple[type[Any], tuple[Any, ...]]:
    """The template of an operator and its type arguments, type variables of generic operators included."""
    template = next((t for t in TEMPLATES if isinstance(op, t)), None)
    if template is None:
        raise TypeError(f"{type(op).__name__} fills no template in")
    return template, type_arguments(op, template)


def substitute(annotation: Any, bound: dict[Any, Any]) -> Any:
    """The annotation with its type variables replaced."""
    if isinstance(annotation, TypeVar):
        return bound.get(annotation, annotation)
    if parameters := getattr(annotation, "__parameters__", ()):
        return annotation[tuple(bound.get(p, p) for p in parameters)]
    return annotation


def template_types(op: Operator) -> tuple[EdgeType, EdgeType]:
    """The edge types that an operator takes and gives; they hold type variables when the operator is generic."""
    template, args = _arguments(op)
    if template is OpStateless:
        key, value, out_key, out_value = args
        return EdgeType(False, key, value), EdgeType(False, out_key, out_value)
    if template is OpKeyedOrdered:
        key, value, out_value, _ = args
        return EdgeType(True, key, value), EdgeType(True, key, out_value)
    key, value, out_key, out_value, _, _ = args
    return EdgeType(False, key, value), EdgeType(False, out_key, out_value)
