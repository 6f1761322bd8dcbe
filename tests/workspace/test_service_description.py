"""Requests that the description of the service allows, and such as it does not: none makes the service fail, and each answer is
one that the description has. Schemathesis draws them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.workspace.test_service import OPERATORS, REGISTRY, Served, start, until

schemathesis = pytest.importorskip("schemathesis")
response_schema_conformance = pytest.importorskip("schemathesis.specs.openapi.checks").response_schema_conformance

BUSY = ("TT419",)
"""The worker does not answer, on a machine that is very busy."""

ENDLESS = "/v1/events"
"""It sends for as long as somebody listens."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder: Path = tmp_path_factory.mktemp("description")
    (folder / "hostile.py").write_text(OPERATORS)
    (folder / "registry.toml").write_text(REGISTRY)
    (folder / "clicks").mkdir()
    (folder / "clicks" / "1.jsonl").write_text(json.dumps({"user": "u", "ts": 10, "cents": 5}) + "\n")
    served = start(folder)
    with served.administrator() as client:
        until(client.is_ready)
    yield served
    served.stop()


def operations(served: Served) -> dict[str, Any]:
    schema = schemathesis.openapi.from_url(f"{served.url}/openapi.json")
    found = (one.ok() for one in schema.get_all_operations())
    return {f"{one.method.upper()} {one.path}": one for one in found if one.path != ENDLESS}


@pytest.mark.parametrize("role", ["owner", "administrator", "nobody"])
def test_no_request_makes_the_service_fail(role: str, served: Served) -> None:
    if role == "administrator":
        token = (served.folder / "private" / "administrator.token").read_text().strip()
    else:
        with served.of("drawn") as client:
            token = client._http.headers["Authorization"].removeprefix("Bearer ") if role == "owner" else "tt_none_none"
    found = operations(served)
    assert "POST /v1/flows" in found
    for operation in found.values():
        ask(operation, token)


def ask(operation: Any, token: str) -> None:
    """Send some requests of an operation."""

    @settings(
        derandomize=True,
        max_examples=4,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy())
    def one(case: Any) -> None:
        answer = case.call(headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code < 500 or answer.json()["code"] in BUSY, (operation.path, answer.status_code, answer.text)
        case.validate_response(answer, checks=(response_schema_conformance,))

    one()
