"""The bodies of requests and answers. They are the OpenAPI description, too."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = ["Answer", "DryRunAnswer", "ErrorAnswer", "FlowAnswer", "OutputAnswer", "SubmitBody", "TokenBody"]

Name = Annotated[str, Field(min_length=1, max_length=60, pattern=r"^[A-Za-z0-9_-]+$")]
Seconds = Annotated[float, Field(gt=0, le=600)]


class Body(BaseModel):
    """No field is ignored."""

    model_config = ConfigDict(extra="forbid")


class TaskBody(Body):
    """A task of a dataflow."""

    id: Name
    type: Annotated[str, Field(min_length=1, max_length=60)]
    config: dict[str, Any] = {}


class GraphBody(Body):
    """A dataflow: tasks, and the streams between them as pairs of ids."""

    tasks: Annotated[list[dict[str, Any]], Field(min_length=1)]
    streams: list[list[str]] = []


class SubmitBody(Body):
    """A dataflow in JSON, with its inputs and outputs in the configs of its sources and sinks; or a ``target`` MODULE:NAME of an
    allowed package, with ``inputs`` by source and ``outputs`` by sink."""

    flow: GraphBody | None = None
    target: Annotated[str, Field(max_length=200, pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")] | None = None
    inputs: dict[str, Name] = {}
    outputs: dict[str, Annotated[str, Field(max_length=200)]] = {}
    start: Annotated[str, Field(max_length=40)] = "now"
    share: Literal["states", "exact"] = "states"
    backfill: bool = False

    @model_validator(mode="after")
    def _one_of_two(self) -> SubmitBody:
        if (self.flow is None) == (self.target is None):
            raise ValueError("give either flow or target")
        if self.flow is not None and (self.inputs or self.outputs):
            raise ValueError("inputs and outputs of a flow in JSON are in the configs of its sources and sinks")
        return self


class NamedSubmitBody(SubmitBody):
    """A submit with the name of the flow."""

    name: Name


class ReplaceBody(SubmitBody):
    """What takes the place of a flow, and how long it may take until then."""

    seconds: Seconds = 60


class TokenBody(Body):
    """A token to make."""

    owner: Name
    role: Literal["owner", "reader", "administrator"] = "owner"
    days: Annotated[float, Field(gt=0, le=3660)] = 90


class Answer(BaseModel):
    """Something that the service says."""


class ProblemAnswer(Answer):
    """One of several problems of a request."""

    code: str
    task: str
    found: str
    expected: str
    fix: str


class ErrorAnswer(Answer):
    """Why a request was not done. ``code``: a section of docs/errors.md."""

    code: str
    message: str
    fix: str
    problems: list[ProblemAnswer] = []


class FlowAnswer(Answer):
    """A flow. ``shared``: how many of its operators other flows need too; ``begins``: the marker behind which it answers;
    ``brings``: operators with states from before that; ``seconds``: of a processor, with its part of what it shares; ``saved``:
    what it would cost more alone."""

    owner: str
    name: str
    kind: Literal["json", "python"]
    state: Literal["pending", "starting", "running", "failed", "held", "over", "draining", "stopped", "unknown"]
    error: str | None
    operators: int
    shared: int
    begins: str | None
    brings: list[str]
    rows: int
    late: int
    rejects: int
    seconds: float
    saved: float
    notes: list[str]
    outputs: dict[str, str]
    submitted: float


class SharedAnswer(Answer):
    """An operator that runs already, and flows that need it."""

    operator: str
    flows: list[str]


class DryRunAnswer(Answer):
    """What a submit would do, as if only one's own flows ran, and those of owners who let others see them. ``segments``: the
    cost: how many operators would get a channel and a place among the threads."""

    start: list[str]
    shared: list[SharedAnswer]
    segments: int
    brings: list[str]


class FileAnswer(Answer):
    """A file of an output."""

    name: str
    bytes: int


class OutputAnswer(Answer):
    """An output of a flow."""

    sink: str
    place: str
    files: list[FileAnswer]


class CatalogAnswer(Answer):
    """What a dataflow in JSON may name."""

    types: list[str]
    inputs: list[str]


class TokenAnswer(Answer):
    """A token, without its secret."""

    id: str
    owner: str
    role: str
    created: float
    expires: float
    revoked: float | None


class NewTokenAnswer(Answer):
    """A token that was made. Its text is shown once."""

    token: str
    id: str
    owner: str
    role: str
    expires: float
