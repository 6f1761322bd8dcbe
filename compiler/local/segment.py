"""A segment that runs in this process: one epoch after the other, until its inputs end or somebody ends it.

An epoch takes what is there: the next listing of files, the records of a topic up to now, the entries of a channel. Its record
says so before anything that was read is used, so an epoch that runs again takes the same. (Some splits may be read before the
record is written: :mod:`.split_source`.) Then, in this order: its rows are written, the run store commits it, and the log gets
its states. A crash between any two of these repeats the epoch from the states before it, and an output takes each epoch once.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import attrs

from tracetypes.compiler.backend.closing_clocks import ClosingClocks
from tracetypes.compiler.backend.epochs import epoch_result
from tracetypes.compiler.backend.open_segment import OpenSegment
from tracetypes.compiler.backend.running_segment import RunningSegment
from tracetypes.compiler.backend.supervisor import unexpected
from tracetypes.compiler.columns.text_codes import RECENT_TEXTS
from tracetypes.compiler.connectors.closing import ClockSplit
from tracetypes.compiler.local.channels import LocalChannelReader
from tracetypes.compiler.local.data_frames import LocalFrameSplits
from tracetypes.compiler.local.driver import EpochWork
from tracetypes.compiler.local.epoch_size import EpochSize
from tracetypes.compiler.local.folder_watch import FOLDERS
from tracetypes.compiler.local.heap import KEPT_MEMORY, FreedMemory
from tracetypes.compiler.local.input_interface import LocalInput
from tracetypes.compiler.local.inputs import FileSplits
from tracetypes.compiler.local.log import LocalLog, Takes
from tracetypes.compiler.local.options import LocalOptions
from tracetypes.compiler.local.settled import SETTLED, Settling
from tracetypes.compiler.local.shards import adopt_shards, shards_of
from tracetypes.compiler.local.streams import StreamSplits
from tracetypes.compiler.local.wakeup import Wakeup
from tracetypes.compiler.local.worker_process import WorkerDied
from tracetypes.compiler.local.workers import Workers
from tracetypes.compiler.plan.facts import is_straight
from tracetypes.compiler.plan.in_python import in_python
from tracetypes.compiler.runtime.emissions import RunStopped
from tracetypes.compiler.runtime.messages import Difference, Message
from tracetypes.compiler.store.file_channel import FileChannel
from tracetypes.compiler.store.metrics import Batch
from tracetypes.compiler.store.places import on_disk
from tracetypes.compiler.store.staging import unwritable
from tracetypes.connectors import Splits
from tracetypes.errors import CodedError, RunError

__all__ = ["LocalSegment"]

NO_TAKES: Final = Takes({}, [], False)
"""Before the first epoch."""

LAG: Final = 20.0
"""Seconds until what was sent to a broker can be read at the latest."""

DEATHS: Final = 3
"""The run ends when worker processes die this many times in one epoch."""


class LocalSegment(RunningSegment):
    """A segment that runs in this process."""

    def __init__(self, opened: OpenSegment, log: LocalLog, options: LocalOptions) -> None:
        super().__init__(opened)
        self.log, self.options = log, options
        self.plan = opened.plan if opened.verify else attrs.evolve(opened.plan, verify_every=0)
        self.inputs: Mapping[str, LocalInput] = opened.inputs
        self._last: Batch | None = None
        self._rest, self._is_over = 0.0, False
        self._skipped = 0.0
        """In how many seconds to look for files again, if it was too soon."""
        self._wakeup = Wakeup(self.news)
        self._ended: float | None = None
        """When it was seen first that all senders are over."""

    @property
    def metrics(self) -> Batch | None:
        """The metrics of the last epoch."""
        return self._last

    def _run(self) -> None:
        with SETTLED, KEPT_MEMORY, RECENT_TEXTS:
            self._epochs()

    def _close(self) -> None:
        for leaf in self.plan.sources:
            with self._failing():
                self.inputs[leaf.source.name].leave(self._place(leaf.label), finished=self.store.finished)
        FOLDERS.leave(self.news)
        for channel in self.opened.receives.values():
            channel.bells.discard(self.news)
        with self._failing():
            self.log.close()

    def _failure(self, error: BaseException) -> BaseException:
        match error:
            case CodedError():
                return error
            case OSError():
                return unwritable(error)
            case _:
                return unexpected(error)

    def _place(self, label: str) -> Path:
        """What the rows of a reading are kept in, if they cannot be read again."""
        return on_disk(self.store.path) / "local" / "arrived" / label

    def _epochs(self) -> None:
        """One epoch after the other, until no more comes."""
        store = self.store
        store.output.tidy()
        readers: dict[str, LocalChannelReader] = {name: one.reader for name, one in self.opened.receives.items()}
        self.sources = {
            leaf.label: self.inputs[leaf.source.name].splits(store.files.get(leaf.label), self._place(leaf.label))
            for leaf in self.plan.sources
        }
        self.streams = {label: one for label, one in self.sources.items() if isinstance(one, StreamSplits)}
        self.channels = {name: (reader.channel.directory, reader.splits()) for name, reader in readers.items()}
        self.clocks = ClosingClocks(self.plan, store, (self.log.takes(self.log.ended) or NO_TAKES).elapsed)
        in_plain = {one.operator for one in store.differences}
        plan = in_python(self.plan, in_plain)
        shards = shards_of(plan, self.options.tasks(self.plan.width))
        adopt_shards(self.log, self.plan, shards)
        stopping = self.control.stop.is_set
        delivery, states, sections = store.output.delivery, self.log.states, self.log.sections
        workers = Workers(plan, self.options, self.inputs, readers, delivery, states, shards, stopping, sections)
        settling, freed, epoch_size = Settling(), FreedMemory(), EpochSize()
        try:
            number = self.log.ended + 1
            if self.log.begun >= number and store.committed(number) is None and store.visible() is None:
                takes = self.log.takes(number)
                if takes is None or not any(one.keeps(*takes.sources[label]) for label, one in self.streams.items()):
                    self.log.forget(number)
            last = [takes for takes in map(self.log.takes, (number - 1, number)) if takes is not None]
            for label, one in self.streams.items():
                one.arrivals.alarm(self.news)
                one.resume([takes.sources[label][1] for takes in last if label in takes.sources])
            self._listen()
            if not store.drained:
                self._look(at_once=True)
            while True:
                self._wakeup.look()  # first, so that a request to stop that comes from here on ends the next pause
                self.processor_seconds = time.thread_time()
                if self.control.stop.is_set():
                    return
                freed.look()
                number = self.log.ended + 1
                takes = self.log.takes(number)
                if takes is None:
                    asked = self._asked
                    takes = self._next(at_once=asked > self._answered_up_to)
                    if takes is None:
                        self._caught_up(asked)
                        if self._is_over:
                            return
                        settling.look()
                        self._pause()
                        continue
                    for label, one in self.streams.items():
                        one.keep(*takes.sources[label])
                    self.log.begin(number, takes)
                began = time.monotonic()
                self._epoch(workers, number, takes)
                self._sized(epoch_size, takes, time.monotonic() - began)
                freed.used()
                settling.worked()
                self._wakeup.worked()
        except RunStopped:  # nothing of this epoch is visible, and the next start does it again
            return
        finally:
            workers.close()

    def _listen(self) -> None:
        """Let everything that may be new wake the segment, where it can."""
        for files in self.store.files.values() if self.opened.follow else ():
            FOLDERS.watch(files.path, self.news)
        for channel in self.opened.receives.values():
            channel.bells.add(self.news)
        ringing = (FileSplits, StreamSplits, LocalFrameSplits)
        rings = [isinstance(one, ringing) for one in self.sources.values()]
        rings += [isinstance(channel.reader.channel, FileChannel) for channel in self.opened.receives.values()]
        self._is_woken = all(rings) and not self.clocks.clocks

    def _pause(self) -> None:
        """Wait for news, no longer than until it is time to look for files."""
        self._wakeup.wait(is_woken=self._is_woken and FOLDERS.hears(self.news), rest=self._skipped)

    def _look(self, *, at_once: bool = False) -> None:
        """Look for new files, but not so often that it keeps the machine busy."""
        began = time.monotonic()
        self._skipped = max(0.0, self._rest - began)
        if self._skipped and not at_once:
            return
        self._skipped = 0.0
        for files in self.store.files.values():
            files.look()
        ended = time.monotonic()
        self._rest = ended + max([4 * (ended - began), *(files.rest for files in self.store.files.values())])

    def _next(self, *, at_once: bool = False) -> Takes | None:
        """What the next epoch takes; None if nothing is new, and then it is known whether all is over. Where no more comes, the
        sources end with the last rows.

        The request to drain, and whether a source is over, are looked at once: both may come at any moment, and between two looks
        the sources would end without an epoch that answers it. ``at_once``: look for files even if that was done just now.
        """
        log, store = self.log, self.store
        senders_over = all(one.complete.is_set() for one in self.opened.receives.values())  # before the look at their channels
        drained = self.control.drain.is_set()
        follows = self.opened.follow and not drained
        last = log.takes(log.ended) or NO_TAKES
        ended = log.took_from(store.control, log.ended)
        if not ended and (follows or drained):
            self._look(at_once=at_once or not follows)
        sources: dict[str, tuple[Any, Any]] = {}
        more = False
        for label, splits in self.sources.items():
            since = last.sources[label][1] if label in last.sources else splits.begin()
            until = since if ended else splits.end(since)
            sources[label] = since, until
            more = more or (not ended and not follows and until != since and splits.end(until) != until)
        untils = {name: until for name, _, until in last.channels}
        channels: dict[str, tuple[Any, Any]] = {}
        leaves = self.opened.leaves and drained
        for name, (directory, splits) in self.channels.items():
            since = untils.get(directory) or splits.begin()
            channels[directory] = since, self._leave(name, splits, since) if leaves else splits.end(since)
        if leaves:
            untils_of = {name: channels[directory][1] for name, (directory, _) in self.channels.items()}
            senders_over = all(one.complete.is_set() or "end" in untils_of[name] for name, one in self.opened.receives.items())
        more = more or not (drained or all(one.is_over(sources[label][1]) for label, one in self.streams.items()))
        drains = self.opened.drain or drained
        drain = bool(self.plan.sources) and drains and not follows and not ended and not more
        new = {label for label, (since, until) in sources.items() if since != until}
        elapsed = self.clocks.look(new) if follows and not ended else {}
        passed = any(last.elapsed.get(name) != time for name, time in elapsed.items())
        moved = passed or bool(new) or any(since != until for since, until in channels.values())
        if not moved and not drain:
            self._is_over = not follows and senders_over and (ended or not more) and not (drains and self._is_behind())
            if self._is_over and drains:
                self._finish()
            return None
        if drain and not store.drained:
            store.drain()
        places = [self.channels[leaf.name][0] for leaf in self.plan.channels]
        return Takes(sources, [(place, *channels[place]) for place in places], drain, elapsed)

    def _leave(self, name: str, splits: Splits, since: Any) -> Any:
        """How far to read a channel that is left: to its end, or behind what its sender has committed, where that goes on."""
        channel = self.opened.receives[name]
        if "end" in since or channel.complete.is_set():
            return splits.end(since)
        place, sent = channel.sent
        until = splits.end(since)
        if until != since or since["next"] > place:  # the rest comes with the next epoch
            return until
        need = next(leaf.silence for leaf in self.plan.channels if leaf.name == name)
        return {"next": place, "end": sent.ending(need)}

    def _is_behind(self) -> bool:
        """Whether the end that the senders have sent may still come. A broker shows the end of a transaction some time after it
        has answered that the transaction is committed."""
        if self._answered or not self.opened.receives:
            return False
        self._ended = self._ended or time.monotonic()
        return time.monotonic() < self._ended + LAG

    @property
    def _answered(self) -> bool:
        """Whether the last stage has seen the end of the sources."""
        number, _ = self.store.next
        return bool(self.store.before(number).get("complete"))

    def _finish(self) -> None:
        """Mark the run as finished. Raises :class:`RunError` ``TT214`` if the last stage has not seen the end of the sources."""
        if not self._answered:
            raise RunError(
                "TT214", "the end of the sources was not answered", fix="run again to go on; if it happens again, report it"
            )
        self.store.finish()

    # --------------------------------------------------------------------------------------------------- epochs

    def _epoch(self, workers: Workers, number: int, takes: Takes) -> None:
        """Do an epoch, and commit it."""
        store, started = self.store, time.monotonic()
        record = store.committed(number)
        if record is None or not is_straight(workers.plan):
            messages = self._messages(workers, number, takes)
            if record is None:
                result = epoch_result(workers.plan, messages, number, store)
                record = result.written(store.output, number)
                store.commit(number, record)
                self._last = result.batch(number, time.monotonic() - started, self.opened.shown, store.output)
            else:
                store.output.tidy()
        else:
            workers.states.parts = {}
        self.log.end(number, workers.parts)
        if self.opened.sends is not None:
            self.opened.sends.ring()
        for label, files in store.files.items():
            files.committed(record["files"][label])
        for label, stream in self.streams.items():
            stream.commit(takes.sources[label][1])
        for retention in self.opened.receives.values():
            retention.clean()
        self.clocks.came(record)
        if self._last is not None and self._last.number == number:
            self.opened.reports.on_epoch(self._last)

    def _sized(self, epoch_size: EpochSize, takes: Takes, seconds: float) -> None:
        """An epoch is over: the next one takes more files, or fewer. In serial order the cut of an input must not depend on the
        time."""
        if self.options.serial:
            return
        sources = {label: one for label, one in self.sources.items() if isinstance(one, FileSplits)}
        taken = [one.size(*takes.sources[label]) for label, one in sources.items()]
        epoch_size.took(max(taken, default=0), seconds)
        for one in sources.values():
            one.bytes = epoch_size.bytes

    def _messages(self, workers: Workers, number: int, takes: Takes) -> list[Message]:
        """The messages of an epoch, which is done again as often as need be."""
        store, deaths = self.store, 0
        _, newest = store.next
        while True:
            splits = {label: self.sources[label].splits(since, until) for label, (since, until) in takes.sources.items()}
            for leaf in self.plan.sources:
                if leaf.source.name in takes.elapsed:
                    clock: tuple[Any, ...] = (ClockSplit(takes.elapsed[leaf.source.name]),)
                    splits[leaf.label] = [*splits[leaf.label], *clock]
            entries = {place: _of(self.channels, place).splits(since, until) for place, since, until in takes.channels}
            of_names = {name: entries.get(place, ()) for name, (place, _) in self.channels.items()}
            try:
                return workers.run(EpochWork(splits, of_names, newest, takes.drain, partial(self._ahead, takes)))
            except Difference as difference:
                self.opened.reports.on_difference(difference, store.differs(difference))
                workers.begin(in_python(workers.plan, {difference.operator}))
            except WorkerDied as died:
                deaths += 1
                if deaths == DEATHS:
                    raise _dead_workers(died, number) from died
                workers.begin(workers.plan)
            except Exception:
                if store.visible() is not None or not any([files.drop() for files in store.files.values()]):
                    raise
                workers.begin(workers.plan)

    def _ahead(self, takes: Takes) -> dict[str, Sequence[Any]]:
        """The splits of files that the next epoch will take, if they are listed already."""
        ahead: dict[str, Sequence[Any]] = {}
        for label in self.store.files:
            splits, (_, since) = self.sources[label], takes.sources[label]
            ahead[label] = splits.splits(since, splits.end(since))
        return ahead


def _dead_workers(died: WorkerDied, number: int) -> RunError:
    """The error for an epoch that worker processes do not survive."""
    return RunError(
        "TT223",
        f"{died}, the {DEATHS}rd time in micro-batch {number}",
        fix="see why it ends: if it had no memory left, give a smaller --parallelism; --processes never runs operators in the "
        "process of the run",
    )


def _of(channels: Mapping[str, tuple[str, Splits]], place: str) -> Splits:
    """The splits of the channel in a directory."""
    return next(splits for directory, splits in channels.values() if directory == place)
