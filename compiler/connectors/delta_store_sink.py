"""Delta tables on an object store as sinks, by delta-rs: the log, whose entries are put on a condition."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property

from tracetypes.compiler.connectors.delta import SCHEME, require_deltalake
from tracetypes.compiler.connectors.delta_sink import TableSink
from tracetypes.compiler.connectors.file_system import FileState
from tracetypes.compiler.connectors.files import state_of
from tracetypes.compiler.connectors.object_writes import object_names
from tracetypes.compiler.connectors.store_address import StoreAddress
from tracetypes.compiler.connectors.store_clients import delta_options, require_client
from tracetypes.compiler.connectors.store_errors import store_error
from tracetypes.errors import RunError, UsageError
from tracetypes.fencing import another_one

__all__ = ["StoredTableSink"]


class StoredTableSink(TableSink):
    """A table on ``s3://``, to which the files of each micro-batch are added once."""

    first: FileState | None = None
    """Its first version, as it was when its id was read."""

    @staticmethod
    def place(address: str) -> str:
        """The address of its directory. Raises :class:`UsageError` ``TT401``, ``TT402``."""
        require_deltalake()
        require_client()
        place = address.removeprefix(SCHEME)
        if StoreAddress.of(place).scheme != "s3":
            fix = "write delta:s3://BUCKET/KEY, or delta:DIRECTORY"
            raise UsageError("TT402", f"{address} is no address of a table", fix=fix)
        return place.rstrip("/")

    @cached_property
    def options(self) -> dict[str, str]:  # type: ignore[override]
        """As the environment says."""
        return delta_options()

    @property
    def is_there(self) -> bool:
        """Whether there is a log."""
        return any(one.endswith(".json") for one in object_names(f"{self.path}/_delta_log"))

    def check_id(self) -> None:
        """By its first version, and by its id where that has changed or is gone."""
        from deltalake import DeltaTable

        first = state_of(f"{self.path}/_delta_log/{0:020d}.json")
        if first is not None and first == self.first:
            return
        known = str(self.table.metadata().id)
        with self.trouble():
            if not self.is_there:
                raise another_one(self.path, "it was removed")
            now = str(DeltaTable(self.path, storage_options=self.options).metadata().id)
        if now != known:
            raise another_one(self.path, "it was removed and made anew")
        self.first = first

    @contextmanager
    def trouble(self) -> Iterator[None]:
        """Errors of the package have the text of the store, which may have secrets."""
        from deltalake.exceptions import CommitFailedError, DeltaError

        failure: OSError | None = None
        try:
            yield
        except CommitFailedError as error:
            if "Concurrent transaction" in str(error):
                raise
            failure = store_error(error)
        except (DeltaError, OSError) as error:
            failure = store_error(error)
        if failure is not None:
            raise RunError(
                "TT209", f"the table {self.path} cannot be written: {failure}", fix="see the cause; run again to go on"
            )
