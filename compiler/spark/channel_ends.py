"""Where channels end for a query that leaves them while their senders go on, as a file that Spark reads beside them.

::

    CHECKPOINT/ends/00000000    a line for each channel: its name and, behind a tab, its last entry, sealed as a manifest is

The entry has the place behind the last epoch of the sender that counts. Workers leave out what was sent from there on. They know
the place before the query starts: it stops, the file is written, and it starts again. So no micro-batch has an end for some of
its tasks and none for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tracetypes.compiler.backend.channel_retention import ChannelRetention
from tracetypes.compiler.spark.channels import ChannelReader, FileReader
from tracetypes.compiler.spark.files import literal
from tracetypes.compiler.spark.log import SparkLog
from tracetypes.compiler.store.file_channel import manifest_lines, manifest_number
from tracetypes.compiler.store.places import Place, spark_address
from tracetypes.compiler.store.small_files import write_lines
from tracetypes.silence import Need

__all__ = ["ChannelEnds", "EndingReader"]

FILE: Final = "00000000"


class EndingReader(ChannelReader):
    """Reads a channel of files that may end for one query. ``folder``: of its ends. ``until``: the place at which it ends."""

    def __init__(self, name: str, reader: FileReader, folder: Place, until: int | None) -> None:
        self.name, self.reader, self.folder, self.until = name, reader, folder, until
        self.channel = reader.channel

    def lines(self, spark: SparkSession, tasks: int) -> DataFrame:
        """The lines of the channel, and its last one."""
        ends = spark.readStream.format("text").option("maxFileAge", "36500d").load(literal(spark_address(self.folder)))
        mine = ends.where(F.substring_index("value", "\t", 1) == self.name)
        return self.reader.lines(spark, tasks).unionAll(mine.select(F.substring_index("value", "\t", -1).alias("value")))

    def places(self, log: SparkLog) -> list[int]:
        """As of the channel."""
        return self.reader.places(log)


@final
class ChannelEnds:
    """The ends of the channels of one query, in a directory. ``channels``: those that it reads, by name."""

    def __init__(self, path: Place, channels: Mapping[str, ChannelRetention], log: SparkLog) -> None:
        self.path, self.channels, self.log = path, channels, log
        self.places: dict[str, int] = {}
        """Where each channel ends that does."""

    def begin(self) -> None:
        """Make the directory, or see what is there. Ends that Spark has not taken are forgotten: the channels go on. Raises
        :class:`RunError` ``TT225``."""
        self.path.mkdir(exist_ok=True)
        if self.path.absolute() not in {file.parent for file in self.log.listed}:
            (self.path / FILE).unlink(missing_ok=True)
        self._look()

    @property
    def readers(self) -> dict[str, ChannelReader]:
        """The readers of the channels, by name."""
        return {
            name: EndingReader(name, one.reader, self.path, self.places.get(name)) for name, one in self.channels.items()
        }

    def write(self, needs: Mapping[str, Need], wait: Callable[[], bool]) -> None:
        """End all channels whose senders go on, behind what Spark may have taken of them. No query runs meanwhile. ``needs``: the
        silence that the query needs behind each. ``wait``: returns after a moment, and says whether to give up."""
        lines = list[str]()
        for name, channel in self.channels.items():
            manifests = channel.reader.channel.manifests.absolute()
            taken = max((manifest_number(file.name) + 1 for file in self.log.listed if file.parent == manifests), default=0)
            while not channel.complete.is_set():
                place, sent = channel.sent
                if place >= taken:
                    last = {**sent.ending(needs[name]), "end": place}
                    (line,) = manifest_lines([last], channel.reader.channel.contents.run)
                    lines.append(f"{name}\t{line}")
                    break
                if wait():
                    return
        if lines:
            write_lines(self.path / FILE, lines)
            self._look()

    def _look(self) -> None:
        file = self.path / FILE
        lines = [line.split("\t", 1) for line in file.read_text().splitlines()] if file.exists() else []
        self.places = {name: self.channels[name].reader.channel.contents.entry(entry)["end"] for name, entry in lines}
