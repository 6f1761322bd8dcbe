"""The interface of an input, as Spark takes it."""

from __future__ import annotations

from abc import ABC, abstractmethod

from pyspark.sql import DataFrame

from tracetypes.compiler.connectors.endpoint_identity import EndpointIdentity
from tracetypes.compiler.spark.scan import End, Scan
from tracetypes.compiler.store.input_files import InputFiles
from tracetypes.compiler.store.places import Place

__all__ = ["Input"]


class Input(ABC):
    """The input of a source, opened for Spark."""

    warning: str | None = None
    """What a run says once about it: nothing."""

    @property
    @abstractmethod
    def identity(self) -> EndpointIdentity:
        """The identity, by which a run notices another input."""

    @property
    def at_once(self) -> bool:
        """Whether one micro-batch takes all rows."""
        return True

    @property
    def waiting(self) -> tuple[int | None, set[str]] | None:
        """If Spark lists files: how many a micro-batch takes at most, and which; otherwise None."""
        return None

    def files(self, checkpoint: Place, label: str, *, tasks: int, appended: bool, follows: bool) -> InputFiles | None:
        """The files of a reading that the driver lists; None if there are none. Options are those of
        :class:`InputFiles`."""
        return None

    @abstractmethod
    def scanned(self, end: End, files: InputFiles | None) -> tuple[DataFrame, Scan]:
        """The rows that Spark finds, and how workers read them."""
