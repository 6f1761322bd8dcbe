"""A client of the service of a workspace (docs/service.md). It needs ``httpx`` of the extra ``workspace``.

::

    from tracetypes.workspace_client import WorkspaceClient

    with WorkspaceClient("http://127.0.0.1:8765", token) as client:
        client.submit("spent", {"tasks": [...], "streams": [...]})
        print(client.flow("spent").state)
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Literal

import attrs

from tracetypes.errors import TraceTypesError, UsageError, counted

__all__ = ["DryRunReport", "FlowStatus", "NewToken", "OutputFiles", "RequestRefused", "WorkspaceClient"]

ATTEMPTS: Final = 3
"""How often a request is sent if the service cannot be reached. Changes carry a key, so they are done once."""

LOOK: Final = 0.1
"""Seconds between two looks whether a flow has started."""


class RequestRefused(TraceTypesError):
    """The service has refused a request. ``code``, ``message`` and ``fix`` are those of its answer, and so are ``problems``, each
    with ``code``, ``task``, ``found``, ``expected`` and ``fix``. ``status``: of HTTP."""

    def __init__(self, status: int, plain: Mapping[str, Any]) -> None:
        self.status = status
        self.code = str(plain["code"])
        self.message, self.fix = str(plain["message"]), str(plain["fix"])
        self.problems: Sequence[Mapping[str, str]] = plain.get("problems", ())
        lines = [f"{self.code} {self.message}", *map(_problem, self.problems)]
        super().__init__("\n".join(lines + ([f"    fix:      {self.fix}"] if self.fix and not self.problems else [])))


@attrs.frozen(kw_only=True)
class FlowStatus:
    """A flow of the service. ``state``: as of :class:`tracetypes.workspace.FlowView`, or ``"pending"`` and ``"unknown"`` while
    its worker starts. ``outputs``: places below the folder of the owner, by sink. ``seconds``: of a processor, with its part of
    what it shares; ``saved``: what it would cost more alone."""

    owner: str
    name: str
    kind: Literal["json", "python"]
    state: str
    error: str | None
    operators: int
    shared: int
    begins: str | None
    brings: tuple[str, ...] = attrs.field(converter=tuple)
    rows: int
    late: int
    rejects: int
    seconds: float
    saved: float
    notes: tuple[str, ...] = attrs.field(converter=tuple)
    outputs: Mapping[str, str]
    submitted: float

    def __str__(self) -> str:
        shared = f"{self.operators} operators, {self.shared} of them shared"
        lines = [f"{self.name}: {self.state}, {shared}, {counted(self.rows, 'row')}"]
        if self.begins is not None:
            lines.append(f"    begins behind {self.begins}")
        if self.brings:
            lines.append(f"    takes over the state of {', '.join(self.brings)}; --share exact starts its own")
        if self.seconds >= 1:
            lines.append(f"    {self.seconds:,.0f} s of a processor, {self.saved:,.0f} s saved")
        counts = (("late row", self.late), ("rejected row", self.rejects))
        lines += [f"    {counted(count, what)}" for what, count in counts if count]
        return "\n".join([*lines, *(f"    {one}" for one in (self.error, *self.notes) if one)])


@attrs.frozen(kw_only=True)
class DryRunReport:
    """What a submit would do. ``shared``: operators that run already, each with flows that need it."""

    start: tuple[str, ...]
    shared: tuple[tuple[str, tuple[str, ...]], ...]
    segments: int
    brings: tuple[str, ...]

    def __str__(self) -> str:
        count = counted(len(self.start), "operator")
        lines = [f"{count} would start, {self.segments} of them with a channel: {', '.join(self.start)}"]
        lines += [f"    shared with {', '.join(flows)}: {operator}" for operator, flows in self.shared]
        return "\n".join([*lines, *(f"    takes over the state of {one}" for one in self.brings)])


@attrs.frozen(kw_only=True)
class OutputFiles:
    """An output of a flow, and its files by name, with their bytes."""

    sink: str
    place: str
    files: Mapping[str, int]


@attrs.frozen(kw_only=True)
class NewToken:
    """A token that was made. ``token``: its text, which is shown once."""

    token: str = attrs.field(repr=False)
    id: str
    owner: str
    role: str
    expires: float


class WorkspaceClient:
    """Speaks to a service. ``url``: where it listens; ``token``: who asks. ``certificate``: a file with the authority of its
    certificate, if that is not a public one. All calls raise :class:`RequestRefused` with what the service says, and
    :class:`UsageError` ``TT420`` if there is no service."""

    def __init__(self, url: str, token: str, *, certificate: str | None = None, seconds: float = 90.0) -> None:
        try:
            import httpx
        except ModuleNotFoundError as error:
            raise UsageError("TT401", "httpx is not installed", fix="pip install 'tracetypes[workspace]'") from error
        import ssl

        if not token.strip().isprintable() or not token.strip().isascii() or not token.strip():
            raise UsageError("TT415", "the token is no token", fix="give what tracetypes workspace token --new has printed")
        self.url = url
        self._errors: Any = httpx
        verify = True if certificate is None else ssl.create_default_context(cafile=certificate)
        headers = {"Authorization": f"Bearer {token.strip()}"}
        self._http = httpx.Client(base_url=url, headers=headers, timeout=seconds, verify=verify, trust_env=False)

    def __enter__(self) -> WorkspaceClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    # --------------------------------------------------------------------------------------------------- flows

    def submit(
        self,
        name: str,
        flow: Mapping[str, Any] | str,
        *,
        inputs: Mapping[str, str] | None = None,
        outputs: Mapping[str, str] | None = None,
        start: str = "now",
        share: Literal["states", "exact"] = "states",
        backfill: bool = False,
    ) -> FlowStatus:
        """Start a flow. The service answers as soon as it is written down. It is ``"starting"`` then, and starts whatever happens
        (:meth:`wait_until_started`). ``flow``: a dataflow in JSON, or MODULE:NAME of one in an allowed package, with ``inputs``
        and ``outputs`` by source and sink. Other parameters are those of :meth:`tracetypes.workspace.Workspace.submit`."""
        body = _body(flow, inputs, outputs, start, share, backfill)
        return FlowStatus(**self._ask("POST", "/v1/flows", body | {"name": name}, change=True))

    def wait_until_started(self, name: str, seconds: float = 60) -> FlowStatus:
        """A flow of the owner, as soon as it is not ``"starting"`` any more. Raises :class:`TimeoutError`."""
        until = time.monotonic() + seconds
        while (flow := self.flow(name)).state == "starting":
            if time.monotonic() > until:
                raise TimeoutError(f"flow {name!r} has not started in {seconds} seconds")
            time.sleep(LOOK)
        return flow

    def dry_run(
        self,
        name: str,
        flow: Mapping[str, Any] | str,
        *,
        inputs: Mapping[str, str] | None = None,
        outputs: Mapping[str, str] | None = None,
        share: Literal["states", "exact"] = "states",
        backfill: bool = False,
    ) -> DryRunReport:
        """What :meth:`submit` would start, and share with flows that one may see."""
        plain = self._ask("POST", "/v1/dry-run", _body(flow, inputs, outputs, "now", share, backfill) | {"name": name})
        shared = tuple((one["operator"], tuple(one["flows"])) for one in plain["shared"])
        start, brings = tuple(plain["start"]), tuple(plain["brings"])
        return DryRunReport(start=start, shared=shared, segments=plain["segments"], brings=brings)

    def replace(
        self,
        name: str,
        flow: Mapping[str, Any] | str,
        *,
        inputs: Mapping[str, str] | None = None,
        outputs: Mapping[str, str] | None = None,
        start: str = "now",
        share: Literal["states", "exact"] = "states",
        backfill: bool = False,
        seconds: float = 60,
    ) -> FlowStatus:
        """Let another flow, with outputs of its own, take the place of one."""
        body = _body(flow, inputs, outputs, start, share, backfill) | {"seconds": seconds}
        return FlowStatus(**self._ask("PUT", f"/v1/flows/{name}", body, change=True))

    def remove(self, name: str, *, drain: bool = False, purge: bool = False, seconds: float = 60) -> None:
        """Stop a flow. ``drain``: answer its open blocks first; ``purge``: delete its outputs."""
        options = {"drain": drain, "purge": purge, "seconds": seconds}
        self._ask("DELETE", f"/v1/flows/{name}", change=True, **options)

    def flows(self) -> list[FlowStatus]:
        """The flows of the owner; of all owners, for an administrator."""
        return [FlowStatus(**one) for one in self._ask("GET", "/v1/flows")]

    def flow(self, name: str, owner: str | None = None) -> FlowStatus:
        """One flow. ``owner``: for an administrator."""
        return FlowStatus(**self._ask("GET", f"/v1/flows/{name}", owner=owner))

    def outputs(self, name: str, owner: str | None = None) -> list[OutputFiles]:
        """The outputs of a flow."""
        found = self._ask("GET", f"/v1/flows/{name}/outputs", owner=owner)
        return [
            OutputFiles(sink=one["sink"], place=one["place"], files={each["name"]: each["bytes"] for each in one["files"]})
            for one in found
        ]

    def read(self, name: str, sink: str, file: str, owner: str | None = None) -> bytes:
        """The content of a file of an output."""
        content: bytes = self._send("GET", f"/v1/flows/{name}/outputs/{sink}/{file}", owner=owner).content
        return content

    def rows(self, name: str, sink: str, owner: str | None = None) -> Iterator[Any]:
        """The rows of an output of JSON lines."""
        for one in self.outputs(name, owner):
            for file in one.files if one.sink == sink else ():
                yield from map(json.loads, self.read(name, sink, file, owner).splitlines())

    def catalog(self) -> Mapping[str, Sequence[str]]:
        """The ``types`` and ``inputs`` that a dataflow in JSON may name."""
        found: Mapping[str, Sequence[str]] = self._ask("GET", "/v1/catalog")
        return found

    # ------------------------------------------------------------------------------------------- administration

    def make_token(self, owner: str, role: str = "owner", days: float = 90) -> NewToken:
        """A new token, for an administrator."""
        return NewToken(**self._ask("POST", "/v1/tokens", {"owner": owner, "role": role, "days": days}))

    def tokens(self) -> list[Mapping[str, Any]]:
        """What is known of tokens."""
        found: list[Mapping[str, Any]] = self._ask("GET", "/v1/tokens")
        return found

    def revoke(self, id: str) -> None:
        """End a token now."""
        self._ask("DELETE", f"/v1/tokens/{id}")

    def audit(self, most: int = 100) -> list[Mapping[str, Any]]:
        """The last changes, the newest first, for an administrator."""
        found: list[Mapping[str, Any]] = self._ask("GET", "/v1/audit", most=most)
        return found

    def is_ready(self) -> bool:
        """Whether the workers answer."""
        return bool(self._send("GET", "/readyz", refuse=False).status_code == 200)

    def metrics(self) -> str:
        """What flows do, as Prometheus reads it."""
        text: str = self._send("GET", "/metrics").text
        return text

    # --------------------------------------------------------------------------------------------------- inside

    def _ask(self, method: str, path: str, body: Any = None, *, change: bool = False, **query: Any) -> Any:
        return self._send(method, path, body, change=change, **query).json()

    def _send(
        self, method: str, path: str, body: Any = None, *, change: bool = False, refuse: bool = True, **query: Any
    ) -> Any:
        headers = {"Idempotency-Key": secrets.token_hex(16)} if change else {}
        asked = {name: one for name, one in query.items() if one is not None}
        for attempt in range(ATTEMPTS if change or method == "GET" else 1):
            try:
                answer = self._http.request(method, path, json=body, params=asked, headers=headers)
                break
            except self._errors.TransportError as error:
                if attempt == ATTEMPTS - 1 or isinstance(error, self._errors.ConnectError | self._errors.TimeoutException):
                    fix = "start it with tracetypes workspace serve, and give its address"
                    raise UsageError("TT420", f"there is no service at {self.url}: {error}", fix=fix) from error
        if answer.status_code >= 400 and refuse:
            try:
                raise RequestRefused(answer.status_code, answer.json())
            except (ValueError, KeyError, TypeError) as error:
                message = f"what answers at {self.url} is no service of a workspace: status {answer.status_code}"
                raise UsageError("TT420", message, fix="give the address that tracetypes workspace serve prints") from error
        return answer


def _body(
    flow: Mapping[str, Any] | str,
    inputs: Mapping[str, str] | None,
    outputs: Mapping[str, str] | None,
    start: str,
    share: str,
    backfill: bool,
) -> dict[str, Any]:
    what = {"target": flow} if isinstance(flow, str) else {"flow": dict(flow)}
    places = {"inputs": dict(inputs or {}), "outputs": dict(outputs or {})}
    return {**what, **places, "start": start, "share": share, "backfill": backfill}


def _problem(one: Mapping[str, str]) -> str:
    expected = f"\n    expected: {one['expected']}" if one["expected"] else ""
    return f"{one['code']} {one['task'] or 'the flow'}: {one['found']}{expected}\n    fix:      {one['fix']}"
