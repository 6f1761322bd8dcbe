"""Topics of Kafka: their addresses, and the settings and errors of all clients."""

from __future__ import annotations

import importlib.util
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

import attrs

from tracetypes.compiler.connectors.endpoint_identity import parts_of_address
from tracetypes.errors import RunError, UsageError
from tracetypes.fencing import another_driver, another_one
from tracetypes.formats import REGISTERED
from tracetypes.redaction import conceal

__all__ = ["PARTING", "PATIENCE", "PAUSE", "SCHEME", "Address", "patiently", "require_client", "why_of"]

SCHEME = "kafka://"

OF_REGISTRY = "schema.registry."
"""How the settings of the registry's client begin in a file of settings, as in those of Java's clients."""

PATIENCE = 60.0
"""Seconds without an answer after which a broker counts as gone."""

PARTING = 10.0
"""Seconds that a broker has to abort a transaction that failed. The next start aborts it anyhow."""

PAUSE = 0.1
"""Seconds before a topic without new records is asked again, at most."""

C = TypeVar("C")
T = TypeVar("T")


def require_client() -> None:
    """Raises :class:`UsageError` ``TT401`` if the client is not installed."""
    if importlib.util.find_spec("confluent_kafka") is None:
        raise UsageError("TT401", "confluent_kafka is not installed", fix="pip install 'tracetypes[kafka]'")


@attrs.frozen
class Address:
    """``kafka://host:port,host:port/topic``. ``config``: a file of settings for librdkafka, one ``name=value`` per
    line, which every worker must have. ``records``: the largest number in a micro-batch. ``idle``: seconds without a
    record after which a partition is idle; None: never. ``key``, ``value``: their formats, if their schemas are in the
    registry ``registry``; None: the source or sink says it."""

    text: str
    servers: str
    topic: str
    config: str | None = None
    records: int | None = None
    idle: float | None = None
    key: str | None = None
    value: str | None = None
    registry: str | None = None

    @classmethod
    def of(cls, text: str) -> Address:
        """An address from text. Raises :class:`UsageError` ``TT402``, and ``TT401`` if the client is not installed."""
        parts = parts_of_address(text)
        topic, options = unquote(parts.path.strip("/")), dict(parse_qsl(parts.query, keep_blank_values=True))
        config, records, idle = (options.pop(name, None) for name in ("config", "records", "idle"))
        key, value, registry = (options.pop(name, None) for name in ("key", "value", "registry"))
        wrong = (records and not _is_count(records)) or (idle is not None and not _is_span(idle))
        wrong = wrong or not {key, value} <= {None, *REGISTERED}
        if not parts.netloc or not topic or "/" in topic or options or wrong:
            raise UsageError(
                "TT402",
                f"{text} is no address of a topic",
                fix="write kafka://HOST:PORT/TOPIC, with ?config=FILE, ?records=N, ?idle=SECONDS, ?value=FORMAT, ?key=FORMAT "
                f"({', '.join(REGISTERED)}) or ?registry=URL behind it if need be",
            )
        require_client()
        if registry is not None:
            _check_registry(registry)
        count, span = int(records) if records else None, float(idle) if idle else None
        return cls(text, parts.netloc, topic, config, count, span, key, value, registry)

    def with_registry(self) -> Address:
        """The address with its registry, which the file of settings or the environment may name."""
        url = self.registry or self.registry_settings().get("url") or os.environ.get("SCHEMA_REGISTRY_URL")
        if url is not None and url != self.registry:
            _check_registry(url)
        return attrs.evolve(self, registry=url)

    def settings(self) -> dict[str, Any]:
        """The settings of every client. Raises :class:`UsageError` ``TT402`` if the file of settings cannot be read."""
        # A client that bootstraps again when all brokers are away gives up the broker of its transaction, and waits for it for
        # ever: librdkafka 2.11 to 2.16. Without that it goes on when the broker is back.
        settings: dict[str, Any] = {
            "bootstrap.servers": self.servers,
            "log_level": 0,
            "metadata.recovery.strategy": "none",
            "socket.nagle.disable": True,  # a micro-batch has several short requests, one behind the other
            "retry.backoff.ms": 5,  # at first: a transaction may begin a few milliseconds after the one before, not at once
        }
        return settings | {name: value for name, value in self._lines().items() if not name.startswith(OF_REGISTRY)}

    def registry_settings(self) -> dict[str, str]:
        """The settings of the client of the schema registry. Raises :class:`UsageError` ``TT402``."""
        lines = self._lines().items()
        return {name.removeprefix(OF_REGISTRY): value for name, value in lines if name.startswith(OF_REGISTRY)}

    def _lines(self) -> dict[str, str]:
        if self.config is None:
            return {}
        try:
            lines = Path(self.config).read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise UsageError(
                "TT402", f"{self.config}: {error.strerror}", fix="give a file of settings that can be read"
            ) from error
        pairs = [line.partition("=") for line in lines if line.strip() and not line.lstrip().startswith("#")]
        for name, _, value in pairs:
            conceal(f"{name.strip()}={value.strip()}")
        return {name.strip(): value.strip() for name, _, value in pairs}

    def client(self, kind: Callable[[dict[str, Any]], C], more: Mapping[str, Any]) -> C:
        """A client of a kind, with ``more`` settings. Raises :class:`UsageError` ``TT402``, which names a setting that
        it does not accept."""
        from confluent_kafka import KafkaException

        try:
            return kind({**self.settings(), **more})
        except (KafkaException, TypeError, ValueError) as error:
            raise UsageError(
                "TT402",
                f"{self.config or self.text}: {why_of(error)}",
                fix="give settings of librdkafka, name=value a line",
            ) from error

    @contextmanager
    def trouble(self, *, writing: bool = False) -> Iterator[None]:
        """A context that turns exceptions of the client into errors of tracetypes."""
        from confluent_kafka import KafkaError, KafkaException

        try:
            yield
        except KafkaException as error:
            shut_out = (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
            if writing and isinstance(error.args[0], KafkaError) and error.args[0].code() in shut_out:
                raise another_driver(self.text, "it has started since, and has shut this one out") from error
            raise (self.unwritable if writing else self.unreadable)(why_of(error)) from error

    def unreadable(self, why: str) -> RunError:
        """The error for a topic that cannot be read."""
        return RunError(
            "TT208",
            f"{self.text} cannot be read: {why}",
            fix="see whether the broker runs and has the topic, then run again",
        )

    def unwritable(self, why: str) -> RunError:
        """The error for a topic that cannot be written."""
        return RunError("TT209", f"{self.text} cannot be written: {why}", fix="see the cause; run again to go on")

    def changed(self, why: str) -> RunError:
        """The error for a topic that is not the one that the run began with."""
        return another_one(self.text, why)


def why_of(error: Exception) -> str:
    """The client's reason."""
    cause = error.args[0] if error.args else error
    return cause.str() if hasattr(cause, "str") else str(cause)


def _check_registry(url: str) -> None:
    """Raises :class:`UsageError` ``TT402`` if this is no address of a registry, or has a password, which the checkpoint would
    hold."""
    for one in url.split(","):
        parts = urlsplit(one.strip())
        if "@" in parts.netloc:
            raise UsageError(
                "TT402",
                "the address of the schema registry has a user's name in it",
                fix="set SCHEMA_REGISTRY_BASIC_AUTH_USER_INFO=USER:PASSWORD, or write "
                "schema.registry.basic.auth.user.info=USER:PASSWORD in the file of ?config=FILE",
            )
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise UsageError("TT402", f"{one} is no address of a schema registry", fix="write http://HOST:PORT or https://HOST")


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and int(text) > 0


def _is_span(text: str) -> bool:
    try:
        return 0 < float(text) < math.inf
    except ValueError:
        return False


def patiently(call: Callable[[float], T]) -> T:
    """The result of a call, which gets the seconds that are left of :data:`PATIENCE`. It is repeated while the broker
    is busy with itself, for example at its first transaction, or with a new topic."""
    from confluent_kafka import KafkaError, KafkaException

    busy = (
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.CONCURRENT_TRANSACTIONS,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    )
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return call(max(PAUSE, until - time.monotonic()))
        except KafkaException as error:
            cause = error.args[0] if error.args else None
            again = isinstance(cause, KafkaError) and (cause.retriable() or cause.code() in busy)
            if not again or time.monotonic() > until:
                raise
            time.sleep(PAUSE)
