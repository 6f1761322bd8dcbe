"""The input of a source, as Spark takes it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

from pyspark.sql import DataFrame

from tracetypes.compiler.connectors.identity import Identity
from tracetypes.compiler.spark.scan import End, Scan
from tracetypes.compiler.store.inputs import InputFiles

__all__ = ["Input"]


class Input(ABC):
    """The input of a source, opened for Spark."""

    @property
    @abstractmethod
    def identity(self) -> Identity:
        """What it is, so that another one is known as such."""

    @property
    def at_once(self) -> bool:
        """Does one micro-batch take all that there is?"""
        return True

    @property
    def waiting(self) -> tuple[int | None, set[str]] | None:
        """Files that Spark lists itself: how many a micro-batch takes at most, and which; None for none of these."""
        return None

    def files(self, checkpoint: Path, label: str, *, tasks: int, appended: bool, follows: bool) -> InputFiles | None:
        """The files of a reading that the driver lists; None where there are none. Options are those of :class:`InputFiles`."""
        return None

    @abstractmethod
    def scanned(self, end: End, files: InputFiles | None) -> tuple[DataFrame, Scan]:
        """What Spark finds, a row each, and how workers read these."""
