"""A schema registry: the schemas of keys and values of topics, by their ids and by the subjects of a topic.

The client is that of confluent-kafka. A schema never changes under its id, so a process asks for each id once that the registry
has. An id that it lacks may be registered later, so it is asked for again. A registry that does not answer is asked again for
:data:`.kafka.PATIENCE`; then the run stops, and reads the records again when it is resumed.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar, final

import attrs

from tracetypes.compiler.connectors import kafka
from tracetypes.compiler.connectors.kafka import Address
from tracetypes.errors import RunError, UsageError
from tracetypes.redaction import conceal

__all__ = ["RegisteredSchema", "Registry", "registry_of"]

T = TypeVar("T")

PAUSE: Final = 0.5
"""Seconds before a registry that has not answered is asked again."""

UNKNOWN: Final = 2.0
"""Seconds for which an id may be unknown: a copy of the registry may know it a moment after the producer."""

AGAIN: Final = 10.0
"""Seconds before an id is asked for again that stayed unknown. Until then no other unknown one is waited for: many records that
are none of the registry have as many ids."""

_SUBJECT_UNKNOWN: Final = (40401, 40402)
_ID_UNKNOWN: Final = 40403
_NUMBERS: Final = ("timeout", "cache.capacity", "max.retries", "retries.wait.ms", "retries.max.wait.ms")
_BUSY: Final = (408, 429, 500, 502, 503, 504)


@attrs.frozen
class RegisteredSchema:
    """``kind``: ``AVRO``, ``PROTOBUF`` or ``JSON``. ``text``: of Protobuf the description of the file in base64. ``references``:
    the schemas that it refers to, by the names that it uses, each before those that refer to it. ``version``: in its subject,
    if it was asked for by that."""

    id: int
    kind: str
    text: str
    references: tuple[tuple[str, str], ...] = ()
    version: int | None = None


def _require_client() -> None:
    """Raises :class:`UsageError` ``TT401`` if what the client needs is not installed."""
    if importlib.util.find_spec("authlib") is None or importlib.util.find_spec("fastavro") is None:
        raise UsageError(
            "TT401", "the client of the schema registry is not installed", fix="pip install 'tracetypes[registry]'"
        )


@final
class Registry:
    """The registry of an address. Threads share it."""

    def __init__(self, address: Address) -> None:
        from confluent_kafka.schema_registry import SchemaRegistryClient

        self.address, self.url = address, str(address.registry)
        self._lock = threading.Lock()
        self._known: dict[int, RegisteredSchema] = {}
        self._unknown: dict[int, float] = {}
        """When an id was asked for in vain."""
        self._waited = -math.inf
        """Until when one was waited for in vain."""
        settings = {"timeout": 10, "max.retries": 0, **_settings(address), "url": self.url}
        try:
            self.client: Any = SchemaRegistryClient(settings)
        except (TypeError, ValueError, OSError) as error:
            raise UsageError(
                "TT402",
                f"{address.config or self.url}: {error}",
                fix="give settings of the registry's client, schema.registry.NAME=VALUE a line",
            ) from error

    def schema(self, number: int) -> RegisteredSchema | None:
        """The schema with an id, or None if the registry has no such id now. Raises :class:`RunError` ``TT208``."""
        with self._lock:
            if number not in self._known and time.monotonic() - self._unknown.get(number, -math.inf) >= AGAIN:
                found = self._patiently(lambda: self._by_id(number))
                if found is None:
                    self._unknown[number] = time.monotonic()
                else:
                    self._known[number] = found
            return self._known.get(number)

    def _by_id(self, number: int) -> RegisteredSchema | None:
        now = time.monotonic()
        until = now + (UNKNOWN if now - self._waited >= AGAIN else 0.0)
        while True:
            found = self._unless(lambda: self.client.get_schema(number), (_ID_UNKNOWN,))
            if found is not None:
                if found.schema_type == "PROTOBUF":
                    self.client.clear_caches()  # it would give the text again
                    found = self.client.get_schema(number, fmt="serialized")
                return self._with_references(number, found)
            if time.monotonic() >= until:
                if until > now:
                    self._waited = until
                return None
            time.sleep(PAUSE)

    def latest(self, subject: str) -> RegisteredSchema | None:
        """The latest schema of a subject, or None if there is no such subject. Raises :class:`RunError` ``TT208``."""

        def ask() -> RegisteredSchema | None:
            self.client.clear_latest_caches()  # another run of this process may have asked before
            found = self._unless(lambda: self.client.get_latest_version(subject), _SUBJECT_UNKNOWN)
            if found is None:
                return None
            schema = found.schema
            if schema.schema_type == "PROTOBUF":
                self.client.clear_caches()
                schema = self.client.get_version(subject, found.version, fmt="serialized").schema
            return attrs.evolve(self._with_references(found.schema_id, schema), version=found.version)

        return self._patiently(ask)

    def register(self, subject: str, kind: str, text: str) -> int:
        """The id of a schema, which is registered if it was not. Raises :class:`RunError` ``TT209``."""
        from confluent_kafka.schema_registry import Schema

        schema = Schema(text, kind)

        def ask() -> int:
            # Whoever may only read a registry can write with what is registered.
            known = self._unless(lambda: self.client.lookup_schema(subject, schema), (*_SUBJECT_UNKNOWN, _ID_UNKNOWN))
            return int(self.client.register_schema(subject, schema) if known is None else known.schema_id)

        return self._patiently(ask, writing=True)

    def _with_references(self, number: int, schema: Any) -> RegisteredSchema:
        known: dict[str, str] = {}

        def follow(one: Any, form: str | None) -> None:
            for reference in one.references or ():
                if reference.name not in known:
                    inner = self.client.get_version(reference.subject, reference.version, fmt=form).schema
                    follow(inner, form)
                    known[reference.name] = inner.schema_str

        kind = schema.schema_type or "AVRO"
        follow(schema, "serialized" if kind == "PROTOBUF" else None)
        return RegisteredSchema(number, kind, schema.schema_str, tuple(known.items()))

    def _unless(self, ask: Callable[[], T], unknown: tuple[int, ...]) -> T | None:
        """The answer, or None if the registry knows nothing of it."""
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        try:
            return ask()
        except SchemaRegistryError as error:
            if error.error_code in unknown:
                return None
            raise

    def _patiently(self, ask: Callable[[], T], *, writing: bool = False) -> T:
        """The answer of the registry, which is asked again if it does not answer. Raises :class:`RunError` ``TT208`` or
        ``TT209``."""
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        until = time.monotonic() + kafka.PATIENCE
        while True:
            try:
                return ask()
            except SchemaRegistryError as error:
                failure, again = error, error.http_status_code in _BUSY
            except Exception as error:  # of the HTTP client, whose name depends on the version of the registry's client
                failure, again = error, type(error).__module__.split(".")[0] in ("httpx", "httpx2", "httpcore", "httpcore2")
                if not again:
                    raise
            if not again or time.monotonic() > until:
                raise self._error(failure, writing=writing) from failure
            time.sleep(PAUSE)

    def _error(self, why: Exception, *, writing: bool) -> RunError:
        code, verb = ("TT209", "written") if writing else ("TT208", "read")
        return RunError(
            code,
            f"{self.address.text} cannot be {verb}: the schema registry {self.url} says: {why or type(why).__name__}",
            fix="see whether the registry runs and lets you in, then run again",
        )


_REGISTRIES: Final[dict[str, Registry]] = {}
_MAKING: Final = threading.Lock()


def registry_of(address: Address) -> Registry:
    """The registry of an address, which this process keeps. Raises :class:`UsageError` ``TT401`` and ``TT402``."""
    _require_client()
    if address.registry is None:
        raise UsageError(
            "TT402",
            f"{address.text} names a format whose schemas are in a registry, and no registry",
            fix="write registry=http://HOST:PORT behind its ?, or set SCHEMA_REGISTRY_URL",
        )
    key = json.dumps([address.registry, _settings(address)], sort_keys=True)
    with _MAKING:
        if key not in _REGISTRIES:
            _REGISTRIES[key] = Registry(address)
        return _REGISTRIES[key]


def _settings(address: Address) -> Mapping[str, Any]:
    """The settings of the client, from the file of the address and the environment."""
    return dict(_pairs(address))


def _pairs(address: Address) -> Iterator[tuple[str, Any]]:
    if (login := os.environ.get("SCHEMA_REGISTRY_BASIC_AUTH_USER_INFO")) is not None:
        conceal(login.partition(":")[2], secret=True)
        yield "basic.auth.user.info", login
    for name, value in address.registry_settings().items():
        if any(word in name for word in ("auth", "password", "token", "secret")):
            conceal(value.partition(":")[2] or value, secret=True)
        if name != "url" and not name.endswith("auth.credentials.source"):
            yield name, int(value) if name in _NUMBERS and value.isdigit() else value
        elif name == "bearer.auth.credentials.source":
            yield name, value
