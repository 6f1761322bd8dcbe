"""The laws of an operator, checked on a sample of the calls and items of a run.

For some rows each call of the operator's methods is made twice, the second time with copies of what the first one got. Both must
do the same, and neither may change what it got, but for the state of an ordered operator. The items of these rows are kept until
the piece, or the epoch of a key group, ends. Then the laws on aggregates, and on what the class declares, are tried on them:
the equations of :mod:`tracetypes.equations`. A breach ends the epoch before anything of it is committed, and the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice, pairwise, repeat
from types import CellType, FunctionType, MethodType
from typing import Any, Final, Protocol, final

from tracetypes.compiler.runtime.quiet import quiet
from tracetypes.equations.equality import copied, fields_of, largest_of
from tracetypes.equations.operators import Equation, equations_of
from tracetypes.equations.purity import PURE, TYPED, changed, is_pure_alone, not_its_fields, not_pure
from tracetypes.equations.silence import WHEN
from tracetypes.equations.subject import Abandon, Call, Collector, Elements, Outcome, Subject, items_in
from tracetypes.errors import CodedError, LawBroken, OperatorFailed, UsageError
from tracetypes.lookup_table import LookupTable
from tracetypes.markers import Marker
from tracetypes.self_description import SelfDescribing
from tracetypes.state_check import NO_KEY, results_of
from tracetypes.templates import Operator, OpKeyedOrdered, OpStateless, overrides
from tracetypes.trace import Element, Item, StreamType

__all__ = ["DEAR", "ROWS", "Picker", "Watch", "Watches"]

ROWS: Final = 100
"""The first rows of each operator on which a worker checks the laws."""

KEPT: Final = 20
"""The first rows of an operator over columns, which are kept for the laws of what it declares."""

TRIPLES: Final = 8
"""How often three aggregates are compared, of the rows that are kept."""

AT_ONCE: Final = 64
"""Rows that come one by one are counted by so many, once the first ones have been looked at."""

DEAR: Final = 1.0
"""Seconds of processor time after which a worker does not even look at all of the first rows: states are large."""

_METHODS: Final = frozenset(
    ("on_item", "on_marker", "lift", "identity", "combine", "initial_state", "update_state")
)


class Watches(Protocol):
    """Who knows the watch of each operator."""

    def watch(self, op: Operator, takes: StreamType, gives: StreamType) -> Watch:
        """The watch of an operator."""


class Flowing(Protocol):
    """A block of items before an operator."""

    @property
    def values(self) -> list[Any]:
        """Their values."""

    def key_of_each(self) -> list[Any]:
        """Their keys."""


class Picker(Protocol):
    """Who says which rows are looked at, and counts the time that it takes."""

    period: int | None
    """Of the markers of its sources, in microseconds; None where it is not known."""

    def pick_laws(self, name: str, count: int, first: int = ...) -> Any | None:
        """Which of the next rows are looked at. ``first``: of the first ones, how many."""

    def affords(self, seconds: float) -> bool:
        """Whether less than this was spent in all, or so little that it does not matter."""

    def timed(self) -> Any:
        """Count the processor time of a check."""


@final
class Watch:
    """The laws of one operator in one worker."""

    def __init__(
        self, name: str, op: Operator, declared: Operator, takes: StreamType, gives: StreamType, picker: Picker
    ) -> None:
        """``declared``: the author's, where ``op`` runs in place of it."""
        self.name, self.op, self.picker = name, op, picker
        self.subject = Subject(op, takes, gives, rounds=True)
        self.declared = self.subject if declared is op else Subject(declared, takes, gives, rounds=True)
        self.asks = _asks(op)
        self.twice: Any = _Twice(self)
        self.left = dict.fromkeys(_METHODS, 0)
        self.constants: dict[str, Outcome] = {}
        self.makes = () if self.asks else tuple(method for method in ("initial_state", "identity") if hasattr(op, method))
        self.results = results_of(op)
        self.dues = [method for method in WHEN if isinstance(op, OpKeyedOrdered) and overrides(op, method)]
        period = None if _has_times_of_its_own(declared) else picker.period
        self.equations = [one for one in equations_of(declared, period=period) if one.declared or one.of == "three bags"]
        self.items: list[tuple[Any, Any, int]] = []
        self.room, self.due, self.first, self.whole = 0, 1, True, ROWS

    def of(self, count: int, what: str = "laws") -> Any:
        """The operator for the next rows; where some are looked at, one that makes calls twice. ``what`` they are."""
        if self.asks or (rows := self.picker.pick_laws(f"{self.name} {what}", count)) is None:
            return self.op
        self.left = dict.fromkeys(_METHODS, len(rows))
        self.room = len(rows) if self.equations else 0
        return self.twice

    def of_block(self, flowing: Flowing, marker: Marker) -> Any:
        """The same for a block of items and its marker."""
        values = flowing.values
        if not values:
            return self.at_marker()
        op = self.of(len(values))
        if self.room:
            self.take(flowing.key_of_each(), values, repeat(marker.micros))
        return op

    def of_keys(self, count: int) -> Any:
        """The same for so many aggregates, whose items others look at."""
        op = self.of(count, "keys") if count else self.at_marker()
        self.room = 0
        return op

    def at_marker(self, count: int = 0) -> Any:
        """The same for a marker, and so many items."""
        return self.of(count + 1, "markers")

    def kept(self, count: int) -> Any | None:
        """Which of the next rows, that are columns, are to be kept: for what the operator declares, since its aggregates are
        compared with Python."""
        self.equations = [one for one in self.equations if one.declared]
        if not self.equations:
            return None
        rows = self.picker.pick_laws(f"{self.name} items", count, KEPT)
        self.room, self.whole = 0 if rows is None else len(rows), KEPT
        return rows

    def one_by_one(self, method: str) -> Callable[..., Any]:
        """A method for rows that come one by one."""
        plain, passed, rows = getattr(self.op, method), 0, 0

        def call(*args: Any) -> Any:
            nonlocal passed, rows
            passed += 1
            if passed < AT_ONCE and rows > ROWS:
                return plain(*args)
            rows, op = rows + passed, self.of(passed)
            passed = 0
            return getattr(op, method)(*args)

        return call

    def call(self, method: str, function: Callable[..., Any], *args: Any) -> Any:
        """Call a method, and check the call."""
        if not self.left[method] or not self.picker.affords(DEAR):
            return function(*args)
        self.left[method] -= 1
        names = self.subject.parameters(method)
        with self.picker.timed():
            before = self._copied(method, names, args)
        if before is None:
            return function(*args)
        if len(args) == len(names):
            result, emitter = function(*args), None
        else:
            emitter = Collector(self.op, self.subject.gives)
            failures: list[Exception] = []
            result = function(*args[:-1], self._both(emitter, args, failures))
            if failures:
                raise failures[0]
        with self.picker.timed(), quiet():
            self._check(before, dict(zip(names, args, strict=False)), emitter, result)
        return result

    def _copied(self, method: str, names: Sequence[str], args: Sequence[Any]) -> Call | None:
        """A call with copies of its arguments. What cannot be copied cannot be given twice."""
        try:
            return Call(method, dict(zip(names, copied(args[: len(names)]), strict=True)))
        except UsageError:
            self.left[method] = 0
            return None

    def _both(self, emitter: Collector, args: Sequence[Any], failures: list[Exception]) -> Callable[..., None]:
        """An ``emit`` that keeps what is emitted, too. ``failures``: of calls that emit nothing, because of their arguments; the
        author's code may catch such an error."""
        emit, keep = args[-1], emitter.pair
        if isinstance(self.op, OpKeyedOrdered):
            keep = partial(keep, args[1])

        def both(*pair: Any) -> None:
            try:
                emit(*pair)
                if not emitter.whole:
                    return
                try:
                    keep(*copied(pair))
                except (Abandon, UsageError):
                    emitter.whole = False
            except Exception as error:
                failures.append(error)
                raise

        both.__qualname__ = "emit"  # what authors call it, in the messages of Python
        return both

    def _check(self, call: Call, after: dict[str, Any], emitter: Collector | None, result: Any) -> None:
        """What the call gave, and a second call with copies. Raises :class:`LawBroken`, or ``TT224``."""
        subject = self.subject
        if call.method in self.results:
            self.results[call.method].judge_inside(call.method, call.args.get("key", NO_KEY), result)
        if broken := self._not_its_fields(call, emitter):
            raise broken
        try:
            outcome = subject.outcome(call, after, emitter, result)
        except UsageError:
            return
        if broken := changed(subject, call, outcome, PURE):
            raise broken
        if not call.args:
            first = self.constants.setdefault(call.method, outcome)
            if first.differs(outcome):
                raise not_pure(subject, call, first.text, "other calls", outcome.text, PURE)
        if emitter is not None and not emitter.whole:
            return
        try:
            again = subject.invoke(call)
        except (Abandon, UsageError):
            return
        except CodedError as error:
            raise not_pure(subject, call, outcome.text, "the same call", error.message, PURE) from None
        if outcome.differs(again):
            raise not_pure(subject, call, outcome.text, "the same call", again.text, PURE)
        for method in self.dues if "key" in call.args else ():
            if broken := is_pure_alone(subject, Call(method, {"state": again.result, "key": call.args["key"]})):
                raise broken

    def _not_its_fields(self, call: Call, emitter: Collector | None) -> LawBroken | None:
        """Whether an item that came or was emitted is not equal to a copy of it."""
        items: list[tuple[StreamType, Item]] = []
        if emitter is not None:
            items += [(self.subject.gives, item) for item in items_in(emitter.out)]
        if call.method == "on_item":
            items.append((self.subject.takes, Item(call.args["key"], call.args["value"])))
        lines = [("call", str(call))]
        found = (not_its_fields(self.subject, stream, item, lines, TYPED) for stream, item in items)
        return next((broken for broken in found if broken), None)

    def take(self, keys: Iterable[Any], values: Iterable[Any], ends: Iterable[int]) -> None:
        """Keep the first of some items, as many as are looked at. ``ends``: of their blocks."""
        if self.room:
            items = list(islice(zip(keys, values, ends, strict=False), self.room))
            self.room -= len(items)
            self.items.extend(items)

    def judge(self) -> None:
        """Try the laws of aggregates, and of what the class declares, on the items that were kept. Raises :class:`LawBroken`."""
        for method in self.makes:
            self.left[method] = 1
            try:
                self.call(method, getattr(self.op, method))
            except CodedError:
                raise
            except Exception:
                continue  # the run itself reports what the operator raises
        self.makes = ()
        if not self.equations or len(self.items) < self.due:
            return
        self.declared.largest = largest_of([(key, value) for key, value, _ in self.items])
        with self.picker.timed(), quiet():
            for equation in self.equations:
                for example in self._examples(equation):
                    with suppress(Abandon, UsageError):
                        try:
                            broken = equation.examine(self.declared, example, equation.text)
                        except OperatorFailed as error:
                            if error.code == "TT314":
                                raise
                            continue  # the run itself reports what the operator raises
                        if broken:
                            raise broken
        whole = len(self.items) >= self.whole or not self.first
        self.first = self.first and not whole
        self.due = 1 if whole else 2 * len(self.items)
        if whole:
            self.items.clear()

    def _examples(self, equation: Equation) -> Iterator[Any]:
        """What an equation is tried on: the items as a stream, or those of each key as bags, three by three."""
        if equation.of != "three bags":
            yield self._stream()
            return
        by_key: dict[Any, list[Item]] = {}
        for key, value, _ in self.items:
            by_key.setdefault(key, []).append(Item(key, value))
        some = [items[at : at + 4] for items in by_key.values() for at in range(0, len(items), 4)]
        some.sort(key=len, reverse=True)
        for four in some[:TRIPLES]:
            yield tuple(bag for bag in (tuple(four[:1]), tuple(four[1:2]), tuple(four[2:])) if bag)

    def _stream(self) -> Elements:
        """The items by block, a marker behind each, and two blocks without items."""
        blocks: dict[int, list[Element]] = {}
        for key, value, end in self.items:
            blocks.setdefault(end, []).append(Item(key, value))
        ends = sorted(blocks)
        period = self.picker.period or min((end - start for start, end in pairwise(ends)), default=1_000_000)
        silence = (Marker(ends[-1] + period), Marker(ends[-1] + 2 * period))
        return (*(one for end in ends for one in (*blocks[end], Marker(end))), *silence)


@final
class _Twice:
    """An operator of which some calls are made twice."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch

    def __getattr__(self, name: str) -> Any:
        function = getattr(self.watch.op, name)
        return partial(self.watch.call, name, function) if name in _METHODS else function


def _has_times_of_its_own(op: Operator) -> bool:
    """Whether an operator takes times from a function, as those of the library do: these may be others than those of the markers,
    and then nothing follows for the silence behind them."""
    if isinstance(op, OpStateless) or not type(op).__module__.startswith("tracetypes."):
        return False
    return not isinstance(op.linger(), int)


def _asks(op: Operator) -> bool:
    """Does an operator, or a function that it holds, ask a table outside the dataflow? Such a table is not asked twice."""
    pending: list[Any] = [*fields_of(op).values(), *(getattr(type(op), name, None) for name in _METHODS)]
    seen: set[int] = set()
    while pending:
        one = pending.pop()
        if isinstance(one, LookupTable):
            return True
        if id(one) in seen:
            continue
        seen.add(id(one))
        match one:
            case MethodType():
                pending += (one.__func__, one.__self__)
            case partial():
                pending += (one.func, *one.args, *one.keywords.values())
            case FunctionType():
                cells = (cell.cell_contents for cell in one.__closure__ or () if _is_full(cell))
                named = (one.__globals__.get(name) for name in one.__code__.co_names)
                pending += (*cells, *(thing for thing in named if isinstance(thing, LookupTable | FunctionType)))
            case list() | tuple():
                pending += one
            case _:
                pending += fields_of(one).values() if isinstance(one, SelfDescribing) else ()
    return False


def _is_full(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:  # not filled yet
        return False
    return True
