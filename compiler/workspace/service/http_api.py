"""The service over HTTP. Everything that is decided is decided in :mod:`.service`; here are paths, bodies and status codes.

Annotations are no texts here: FastAPI reads those of local names.
"""

import json
from collections.abc import AsyncIterator, Mapping
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Header, Path, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from sse_starlette import EventSourceResponse
from starlette.exceptions import HTTPException

from tracetypes.compiler.workspace.service.accounts import Token
from tracetypes.compiler.workspace.service.errors import Refused, refused_of
from tracetypes.compiler.workspace.service.metrics import metrics_text
from tracetypes.compiler.workspace.service.page import add_page
from tracetypes.compiler.workspace.service.request_limits import BodyLimit, Rates
from tracetypes.compiler.workspace.service.requests import (
    CatalogAnswer,
    DryRunAnswer,
    ErrorAnswer,
    FlowAnswer,
    NamedSubmitBody,
    NewTokenAnswer,
    OutputAnswer,
    ReplaceBody,
    SubmitBody,
    TokenAnswer,
    TokenBody,
)
from tracetypes.compiler.workspace.service.service import Service
from tracetypes.version import VERSION

__all__ = ["application"]

REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorAnswer} for status in (400, 401, 403, 404, 405, 409, 413, 422, 429, 500, 503, 504, 507)
}

Key = Annotated[str | None, Header(alias="Idempotency-Key", max_length=100, pattern=r"^[\x21-\x7e]+$")]
Name = Annotated[str, Path(max_length=60, pattern=r"^[A-Za-z0-9_-]+$")]
OwnerOf = Annotated[str | None, Query(alias="owner", max_length=60, pattern=r"^[A-Za-z0-9_-]+$")]
EVENTS = 1.0
"""Seconds between two looks for what has changed."""


def application(service: Service, *, is_secure: bool = False) -> FastAPI:
    """The application of a service. ``is_secure``: whether it is reached by TLS."""
    limits, rates = service.registry.limits, Rates()
    app = FastAPI(title="tracetypes workspace", version=VERSION, docs_url=None, redoc_url=None, responses=REFUSALS)
    app.add_middleware(BodyLimit, body=limits.body, depth=limits.depth)
    _add_errors(app)

    def token_of(request: Request, authorization: Annotated[str, Header(max_length=300)] = "") -> Token:
        """Who asks."""
        kind, _, text = authorization.partition(" ")
        token = service.accounts.token_of(text) if kind.lower() == "bearer" else None
        if token is None:
            host = "" if request.client is None else request.client.host
            rates.take(host, "requests without a token", limits.requests)
            raise Refused(401, "TT415", "there is no token, or it has expired or was revoked", "ask the administrator for one")
        rates.take(token.id, "requests", limits.requests)
        if request.method not in ("GET", "HEAD"):
            rates.take(token.id, "changes", limits.changes)
        return token

    Who = Annotated[Token, Depends(token_of)]

    @app.get("/healthz", tags=["service"])
    def health() -> dict[str, str]:
        """Whether the service answers."""
        return {"status": "ok"}

    @app.get("/readyz", tags=["service"])
    def readiness() -> JSONResponse:
        """Whether the workers answer: 200 or 503."""
        ready = all(one.is_ready for one in service.workers.all.values())
        return JSONResponse({"status": "ready" if ready else "starting"}, 200 if ready else 503)

    @app.get("/metrics", tags=["service"], response_class=PlainTextResponse)
    def metrics(token: Who) -> str:
        """The flows that the token may see, as Prometheus reads them."""
        workers = service.workers.all if token.is_administrator else {}
        return metrics_text(service.flows(token), {name: one.is_ready for name, one in workers.items()})

    @app.get("/v1/flows", response_model=list[FlowAnswer], tags=["flows"])
    def list_flows(token: Who) -> Any:
        """The flows of the token's owner; all flows, for an administrator."""
        return service.flows(token)

    @app.post("/v1/flows", response_model=FlowAnswer, status_code=201, tags=["flows"])
    def submit_flow(token: Who, body: NamedSubmitBody, key: Key = None) -> Any:
        """Start a flow. With an idempotency key it is safe to send this again."""
        plain = body.model_dump()
        return service.submit(token, plain.pop("name"), plain, key)

    @app.post("/v1/dry-run", response_model=DryRunAnswer, tags=["flows"])
    def dry_run_flow(token: Who, body: NamedSubmitBody) -> Any:
        """What a submit would start and share. Of the flows of others it says nothing, unless they let others see them."""
        plain = body.model_dump()
        return service.dry_run(token, plain.pop("name"), plain)

    @app.get("/v1/flows/{name}", response_model=FlowAnswer, tags=["flows"])
    def show_flow(token: Who, name: Name, owner: OwnerOf = None) -> Any:
        """One flow. ``owner``: for an administrator."""
        return service.show(token, owner or token.owner, name)

    @app.put("/v1/flows/{name}", response_model=FlowAnswer, tags=["flows"])
    def replace_flow(token: Who, name: Name, body: ReplaceBody, key: Key = None) -> Any:
        """Let another flow take the place of one, when it has answered what is there."""
        plain = body.model_dump()
        return service.replace(token, name, _without_seconds(body), plain["seconds"], key)

    @app.delete("/v1/flows/{name}", tags=["flows"])
    def remove_flow(
        token: Who,
        name: Name,
        drain: bool = False,
        purge: bool = False,
        seconds: Annotated[float, Query(gt=0, le=600)] = 60,
        key: Key = None,
    ) -> dict[str, str]:
        """Stop a flow. ``drain``: answer its open blocks first; ``purge``: delete its outputs."""
        return service.remove(token, name, {"drain": drain, "purge": purge, "seconds": seconds}, key)

    @app.get("/v1/flows/{name}/outputs", response_model=list[OutputAnswer], tags=["flows"])
    def list_outputs(token: Who, name: Name, owner: OwnerOf = None) -> Any:
        """The files of the outputs of a flow."""
        return service.outputs(token, owner or token.owner, name)

    @app.get("/v1/flows/{name}/outputs/{sink}/{file}", tags=["flows"], response_class=FileResponse)
    def read_output(
        token: Who, name: Name, sink: Name, file: Annotated[str, Path(max_length=255)], owner: OwnerOf = None
    ) -> FileResponse:
        """A file of an output."""
        path = service.output_file(token, owner or token.owner, name, sink, file)
        return FileResponse(path, media_type="application/octet-stream")

    @app.get("/v1/catalog", response_model=CatalogAnswer, tags=["flows"])
    def catalog(token: Who) -> Any:
        """The types and inputs that a dataflow in JSON may name."""
        return service.catalog(token)

    @app.get("/v1/events", tags=["flows"], response_class=EventSourceResponse)
    async def events(token: Who, request: Request) -> EventSourceResponse:
        """Server-sent events: all flows that the token may see, whenever one of them has changed."""

        async def changes() -> AsyncIterator[Mapping[str, str]]:
            from anyio import sleep

            last = ""
            while not await request.is_disconnected():
                now = json.dumps(await run_in_threadpool(service.flows, token))
                if now != last:
                    yield {"event": "flows", "data": now}
                last = now
                await sleep(EVENTS)

        return EventSourceResponse(changes())

    @app.get("/v1/tokens", response_model=list[TokenAnswer], tags=["administration"])
    def list_tokens(token: Who) -> Any:
        """All tokens, for an administrator; else the one of the request."""
        every = service.accounts.tokens() if token.is_administrator else [token]
        return [TokenAnswer.model_validate(one, from_attributes=True) for one in every]

    @app.post("/v1/tokens", response_model=NewTokenAnswer, status_code=201, tags=["administration"])
    def make_token(token: Who, body: TokenBody) -> Any:
        """A new token."""
        return service.make_token(token, body.owner, body.role, body.days)

    @app.delete("/v1/tokens/{id}", tags=["administration"])
    def revoke_token(token: Who, id: Annotated[str, Path(max_length=40, pattern="^[0-9a-f]+$")]) -> dict[str, str]:
        """End a token now."""
        return service.revoke(token, id)

    @app.get("/v1/audit", tags=["administration"])
    def audit(token: Who, most: Annotated[int, Query(ge=1, le=1000)] = 100) -> list[dict[str, Any]]:
        """The last changes, the newest first."""
        if not token.is_administrator:
            raise Refused(403, "TT415", "only an administrator reads the audit log", "ask one")
        return service.accounts.audit(most)

    add_page(app, service, rates, is_secure=is_secure)
    return app


def _without_seconds(body: SubmitBody) -> dict[str, Any]:
    plain = body.model_dump()
    plain.pop("seconds")
    return plain


def _add_errors(app: FastAPI) -> None:
    """All refusals are JSON with a code, a message and a fix."""

    def answer(refused: Refused) -> Response:
        headers = {"WWW-Authenticate": "Bearer"} if refused.status == 401 else None
        return JSONResponse(refused.plain, refused.status, headers)

    @app.exception_handler(Refused)
    def refused(_: Request, error: Refused) -> Response:
        return answer(error)

    @app.exception_handler(RequestValidationError)
    def invalid(_: Request, error: RequestValidationError) -> Response:
        problems = [
            {
                "code": "TT410",
                "task": ".".join(map(str, one["loc"])),
                "found": one["msg"],
                "expected": "",
                "fix": "see /openapi.json",
            }
            for one in error.errors()[:50]
        ]
        first = problems[0] if problems else {"task": "", "found": "it is not understood"}
        message = f"the request is wrong: {first['task']}: {first['found']}"
        return answer(Refused(422, "TT410", message, "see /openapi.json", problems))

    @app.exception_handler(HTTPException)
    def http(_: Request, error: HTTPException) -> Response:
        if error.status_code == 400:  # the body is no text
            problem = {"code": "TT410", "task": "body", "found": str(error.detail), "expected": "", "fix": "see /openapi.json"}
            return answer(Refused(422, "TT410", "the request is wrong: its body cannot be read", "see /openapi.json", [problem]))
        plain = Refused(error.status_code, "TT402", str(error.detail), "see /openapi.json").plain
        return JSONResponse(plain, error.status_code, error.headers)

    @app.exception_handler(Exception)
    def failed(_: Request, error: Exception) -> Response:
        found = refused_of(error)
        return answer(Refused(500, "TT000", "the service failed", "tell the administrator") if found.status == 422 else found)
