"""One streaming query of Spark: started, watched, begun again, drained and stopped."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any, Final

import attrs
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from tracetypes.compiler.backend.control import Control
from tracetypes.compiler.backend.open_segment import OpenSegment
from tracetypes.compiler.backend.running_segment import RunningSegment
from tracetypes.compiler.plan.in_python import in_python
from tracetypes.compiler.plan.one_by_one import decided_one_by_one
from tracetypes.compiler.plan.plan import Plan, SourceLink, links
from tracetypes.compiler.runtime.messages import NOWHERE, Difference, Message, Report, RetryEpoch
from tracetypes.compiler.spark.batches import MicroBatches, tell
from tracetypes.compiler.spark.channel_ends import ChannelEnds
from tracetypes.compiler.spark.channels import ChannelReader
from tracetypes.compiler.spark.clock_files import ClockFiles
from tracetypes.compiler.spark.failures import translated
from tracetypes.compiler.spark.log import SparkLog
from tracetypes.compiler.spark.lowering import lower
from tracetypes.compiler.spark.pools import fair_pool
from tracetypes.compiler.spark.session import configure
from tracetypes.compiler.spark.wire import ShippedPlan
from tracetypes.compiler.store.metrics import Batch
from tracetypes.compiler.store.places import spark_address
from tracetypes.compiler.store.run_store import RunStore
from tracetypes.compiler.wire.messages import encode
from tracetypes.errors import RunError

__all__ = ["SLOW", "Query", "RunningQuery", "run_query"]


@attrs.define(eq=False)
class Query:
    """The parts of one streaming query."""

    opened: OpenSegment
    log: SparkLog
    handler: MicroBatches
    plan: Plan = attrs.field(init=False)
    parcel: ShippedPlan = attrs.field(init=False)
    rest: float = attrs.field(init=False, default=0.0)
    """Until when nobody looks for files again."""
    passed: Mapping[str, int] = attrs.field(init=False, factory=dict)
    """What the clocks of the sources have decided last."""
    ends: ChannelEnds | None = None
    """Where its channels end, if they may end for it alone."""
    left: bool = attrs.field(init=False, default=False)
    """Whether they have been ended."""

    def __attrs_post_init__(self) -> None:
        self.plan = self.opened.plan if self.opened.verify else attrs.evolve(self.opened.plan, verify_every=0)
        self.trust({one.operator for one in self.store.differences})

    @property
    def store(self) -> RunStore:
        """Its earlier progress and its output."""
        return self.opened.store

    @property
    def channels(self) -> dict[str, ChannelReader]:
        """The readers of its channels, by name."""
        return {name: one.reader for name, one in self.opened.receives.items()} if self.ends is None else self.ends.readers

    @property
    def goes_on(self) -> list[str]:
        """The channels that end with their senders."""
        ends = {} if self.ends is None else self.ends.places
        return [name for name in self.opened.receives if name not in ends]

    def leave(self, wait: Callable[[], bool]) -> None:
        """End the channels whose senders go on. No query runs meanwhile. ``wait``: as of :meth:`ChannelEnds.write`."""
        self.left = True
        if self.ends is not None and not self.ends.places:
            self.ends.write({leaf.name: leaf.silence for leaf in self.plan.channels}, wait)

    def trust(self, all_but: Collection[str]) -> None:
        """Run some operators in Python, and the others as traced."""
        self.plan = self.handler.plan = in_python(self.plan, all_but)
        self.parcel = ShippedPlan(self.plan)

    def decide(self, labels: Collection[str]) -> None:
        """Let a clock decide the rows of some readings, one after the other, as long as the query runs."""
        if labels:
            self.plan = self.handler.plan = decided_one_by_one(self.plan, labels)
            self.parcel.close()
            self.parcel = ShippedPlan(self.plan)

    def differs(self, difference: Difference) -> None:
        """Run an operator in Python from now on, for good."""
        self.opened.reports.on_difference(difference, self.store.differs(difference))
        self.parcel.close()
        self.trust({difference.operator})

    def look(self) -> None:
        """Look for new files, but not so often that it keeps the machine busy."""
        began = time.monotonic()
        if began < self.rest:
            return
        for files in self.store.files.values():
            files.look()
        ended = time.monotonic()
        self.rest = ended + max([4 * (ended - began), *(files.rest for files in self.store.files.values())])

    def pass_time(self, running: StreamingQuery) -> None:
        """Let event time go on with the clock where a source has been without a row for long enough, and no micro-batch runs.
        Spark takes each decision once, as a file."""
        clocks = self.handler.clocks
        if not clocks.clocks or running.status["isDataAvailable"]:
            return
        elapsed = clocks.look(())
        if not elapsed or elapsed == self.passed:
            return
        lines = []
        for link in [link for stage in self.plan.stages for link in links(stage.region) if isinstance(link, SourceLink)]:
            if (moment := elapsed.get(link.leaf.source.name)) is not None:
                report = Report(link=link.number, piece=NOWHERE, elapsed=moment)
                lines.append(f"{link.leaf.label}\t{encode(Message(0, report)).header.decode()}")
        ClockFiles(self.store.path / "clock", self.store.run).add(lines)
        self.passed = elapsed


class RunningQuery(RunningSegment):
    """A running query."""

    def __init__(self, query: Query) -> None:
        super().__init__(query.opened)
        self.query = query
        self._answering = threading.Thread()

    def _run(self) -> None:
        run_query(self.query, self.control, self._answer)

    def _answer(self, running: StreamingQuery) -> None:
        """See who waits for all that is there, and whether it is answered."""
        asked = self._asked
        if asked == self._answered_up_to or self._answering.is_alive():
            return
        query = self.query
        query.rest = 0.0
        query.look()
        begun = query.log.begun

        def body() -> None:
            with suppress(PySparkException, Py4JError, ConnectionError):  # the query is over, and says why
                running.processAllAvailable()
                if running.isActive and not query.handler.failed:
                    self._caught_up(asked)

        self._answering = threading.Thread(target=body, daemon=True)
        self._answering.start()
        if not query.plan.sources:  # a micro-batch takes all entries that are there; where more and more come, that is enough
            while self._answering.is_alive() and not self.control.stop.is_set():
                self._answering.join(0.05)
                if query.log.ended > begun:
                    self._caught_up(asked)
                    return

    @property
    def metrics(self) -> Batch | None:
        """The metrics of the last micro-batch."""
        return self.query.handler.last


SLOW = "Python worker failed to connect back"
"""What Spark says of a Python process that was not up in ten seconds, as may be where many queries start on few cores. It has
no setting for that; a query that begins anew has done nothing yet."""


PAUSE: Final = 200
"""Milliseconds between two looks of a query that shares its session with many others. With Spark's 10 an idle query takes a tenth
of a core."""


def run_query(query: Query, control: Control, meanwhile: Callable[[StreamingQuery], None] = lambda _: None) -> None:
    """Run a query until it is done, is stopped or fails. Then remove what was sent to the workers for it. ``meanwhile``: is
    called again and again while the query follows its inputs."""
    try:
        with fair_pool(query.handler.spark):
            _attempts(query, control, meanwhile)
    finally:
        query.parcel.close()


def _attempts(query: Query, control: Control, also: Callable[[StreamingQuery], None]) -> None:
    stop = control.stop
    store, handler = query.store, query.handler
    spark = handler.spark
    handler.output.tidy()
    handler.ending.begin()
    _rescale(query)
    number, newest = store.next
    query.decide([label for label, parts in newest.items() if any(isinstance(one, Mapping) for one in parts)])
    tell(spark, number, newest)
    handler.ending.look()
    pieces: dict[str, Any] = {}
    clocked = frozenset[str]()
    slow = 0
    while not stop.is_set():
        handler.failed = False
        running = _start(query)

        def exhausted(running: StreamingQuery = running) -> None:
            for one in [query.opened.receives[name] for name in query.goes_on]:
                while running.isActive and not stop.is_set() and not one.complete.wait(0.1):
                    pass
            running.processAllAvailable()

        try:
            if query.opened.follow:

                def meanwhile(running: StreamingQuery = running) -> None:
                    query.look()
                    query.pass_time(running)
                    also(running)

                _wait(running, stop, until=None, meanwhile=meanwhile, enough=control.drain)
                if not control.drain.is_set():
                    return
                if not query.left and query.ends is not None:
                    running.stop()
                    query.leave(lambda: stop.wait(0.05))
                    following, newest = store.next
                    number, pieces = following, pieces if following == number else {}
                    tell(spark, number, newest, pieces)
                    continue
                query.rest = 0.0
                query.look()
            _wait(running, stop, until=exhausted)
            _see_that_it_lives(running, handler)
            if (query.opened.drain or control.drain.is_set()) and not stop.is_set():
                if query.plan.sources:
                    if not store.drained:
                        store.drain()
                    _wait(running, stop, until=running.processAllAvailable)
                    _see_that_it_lives(running, handler)
                if not stop.is_set():
                    _check_answered(store)
                    store.finish()
            return
        except (PySparkException, Py4JError, ConnectionError) as error:
            if handler.error is not None:
                raise handler.error from error
            if store.visible() is None and any([f.drop() for f in store.files.values()]):
                continue
            again = RetryEpoch.from_text(str(error))
            failed, newest = store.next
            difference = Difference.from_text(str(error))
            if difference is not None:
                query.differs(difference)
                number, pieces, slow = failed, pieces if failed == number else {}, 0
                tell(spark, number, newest, pieces)
                continue
            before, slow = (pieces, slow) if failed == number else ({}, 0)
            if again is None and SLOW in str(error) and slow < 3:
                number, pieces, slow = failed, before, slow + 1
                tell(spark, number, newest, pieces)
                continue
            news = again is not None and (again.one_by_one - clocked or not again.before.items() <= before.items())
            if again is None or not news:
                raise translated(error) from error
            query.decide(again.one_by_one - clocked)
            clocked |= again.one_by_one
            number, pieces = failed, {**before, **again.before}  # each stage asks for its own sources
            tell(spark, number, newest, pieces)
        finally:
            with suppress(Py4JError, ConnectionError):  # there may be no JVM any more
                running.stop()


def _see_that_it_lives(running: StreamingQuery, handler: MicroBatches) -> None:
    """Raise what a query died of: Spark's ``processAllAvailable`` may return when it has just died."""
    if handler.failed or not running.isActive:
        running.awaitTermination()


def _rescale(query: Query) -> None:
    """Let the state have as many parts as the plan has tasks. Key groups are what moves, whole."""
    store, log, spark, width = query.store, query.log, query.handler.spark, query.plan.width
    if log.tasks in (None, width):
        return
    if log.begun > log.ended:  # the batch that was under way ends as it began
        number, newest = store.next
        tell(spark, number, newest)
        try:
            _start(query, once=True).awaitTermination()
        except (PySparkException, Py4JError) as error:
            if RetryEpoch.from_text(str(error)) is not None:
                return  # it is taken again by the run, with as many tasks as before
            raise query.handler.error or translated(error) from error
    store.rescales()
    try:
        log.repartition(spark, width)
    except (PySparkException, Py4JError) as error:
        raise RunError(
            "TT216",
            f"the state in {store.path} cannot go from {log.tasks} tasks to {width}: "
            f"{str(error).splitlines()[0]}",
            fix=f"go on with --parallelism {log.tasks}",
        ) from error


def _check_answered(store: RunStore) -> None:
    """Make sure that the sources' end has reached the last stage, and all files before it, before anybody is told that the run is
    finished."""
    number, _ = store.next
    record = store.before(number)
    for label, files in store.files.items():
        taken = record["files"][label]["listing"] if record else 0
        left = [split.path for at in files.listings.numbers(taken) for split in files.listings.splits(at)]
        if record.get("complete") and left:
            raise RunError(
                "TT214",
                f"source {label!r} ended before Spark took {left[0]}" + (f" and {len(left) - 1} more" if left[1:] else ""),
                fix="start anew with another --checkpoint and output; if it happens again, report it",
            )
    if not record.get("complete"):
        raise RunError(
            "TT214",
            f"the end of the sources was not answered: Spark took no file from {store.control}",
            fix="run again to go on; if it happens again, report it",
        )


_STARTS: Final = threading.Lock()
"""A query takes the settings that its session has when it starts; each has a width of its own."""


def _start(query: Query, *, once: bool = False) -> StreamingQuery:
    """``once``: one micro-batch only, that which was begun."""
    plan, store, handler = query.plan, query.store, query.handler
    query.log.forget()
    spark = handler.spark
    try:
        control, clock, delivery = spark_address(store.control), spark_address(store.path / "clock"), handler.output.delivery
        inputs, channels = query.opened.inputs, query.channels
        messages = lower(spark, query.parcel, inputs, store.files, channels, control, delivery, clock)
        writer = messages.writeStream.outputMode("append").queryName(f"{plan.name}-{uuid.uuid4().hex[:6]}")
        writer = writer.trigger(once=True) if once else writer
        writer = writer.option("checkpointLocation", spark_address(query.log.path)).foreachBatch(handler)
        with _STARTS:
            configure(spark, plan.width, 10 if query.ends is None else PAUSE)
            return writer.start()
    except (PySparkException, Py4JError) as error:
        raise translated(error) from error


def _wait(
    query: StreamingQuery,
    stop: threading.Event,
    until: Callable[[], None] | None,
    meanwhile: Callable[[], None] = lambda: None,
    enough: threading.Event | None = None,
) -> None:
    """Wait until ``until`` returns, the query fails, or somebody asks to stop, or sets ``enough``. ``meanwhile``: is called again
    and again."""
    failed: list[BaseException] = []

    def body() -> None:
        try:
            if until is not None:
                until()
            else:
                query.awaitTermination()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    while thread.is_alive() and not stop.is_set() and not (enough is not None and enough.is_set()):
        thread.join(0.05)
        meanwhile()
    if failed and not stop.is_set():
        raise failed[0]
