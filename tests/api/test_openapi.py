"""Generated requests: every response conforms to the OpenAPI document."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import CHECKS

from tests.api.live_server import LiveServer, live_server
from tests.fork_server import quick_processes

POSITIVE, NEGATIVE = schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE

FILTERED = {"/api/decisions", "/api/metrics", "/api/metrics/timeline", "/agui"}
FILTERED |= {"/api/replay", "/api/replay/flows", "/api/rules", "/api/rules/diff", "/api/rules/row", "/api/stops"}
FILTERED |= {"/api/decisions/{decision_id}/proof", "/api/questions", "/api/mandates"}
FILTERED |= {"/api/decisions/{decision_id}/mandate"}
"""Check responses only: a schema cannot express which filters exclude each other, what a policy or a plan is, how
long two texts may be together, where a page ends, which stop has a name, or what AG-UI permits."""

ALTERNATIVES = {"/api/chat", "/api/chat/stream"}
"""What does not fit one of the alternatives of their body may fit another: `test_bad_requests` refuses what fits none."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, template: Path) -> Iterator[LiveServer]:
    folder = tmp_path_factory.mktemp("live")
    with quick_processes(), live_server(folder, template, lambda environment: environment.runtime()) as server:
        yield server


@pytest.mark.parametrize(
    ("mode", "requests"),
    [
        (POSITIVE, 1),
        pytest.param(NEGATIVE, 1, marks=pytest.mark.slow),
        *(pytest.param(mode, 10, marks=pytest.mark.nightly) for mode in (POSITIVE, NEGATIVE)),
    ],
    ids=["valid", "invalid", "valid, ten", "invalid, ten"],
)
def test_every_response_is_declared_in_the_openapi_document(
    server: LiveServer, mode: schemathesis.GenerationMode, requests: int
) -> None:
    document = schemathesis.openapi.from_url(f"{server.url}/openapi.json", timeout=60)
    operations = [found.ok() for found in document.get_all_operations()]  # type: ignore[union-attr]  # an error fails the test
    for operation in operations:
        if mode is POSITIVE or list(operation.iter_parameters()):
            _ask(operation, mode, requests)


def test_the_openapi_document_lists_every_route_and_every_error_of_a_turn(server: LiveServer) -> None:
    paths = server.get("/openapi.json").json()["paths"]
    documented = set(paths["/api/chat"]["post"]["responses"])
    assert documented == {"200", "400", "401", "403", "404", "409", "413", "415", "422", "429", "500", "503", "504"}
    expected = {"/api/chat", "/api/conversations", "/api/conversations/{conversation_id}", "/api/decisions/{decision_id}"}
    assert expected | {"/healthz", "/readyz"} <= set(paths)


def test_a_generated_client_gets_short_and_unique_names(server: LiveServer) -> None:
    document = server.get("/openapi.json").json()
    operations = [operation for methods in document["paths"].values() for operation in methods.values()]
    names = [operation["operationId"] for operation in operations]
    assert {"chat", "conversation", "decision", "run_agent", "sign_out"} <= set(names)
    assert len(names) == len(set(names))
    assert {"ChatRequest", "AnswerRequest", "ReplayRequest"} <= set(document["components"]["schemas"])
    assert all(name.isidentifier() for name in (*names, *document["components"]["schemas"]))


def _ask(operation: schemathesis.APIOperation[Any, Any, Any, Any], mode: schemathesis.GenerationMode, requests: int) -> None:
    judges_requests = ("positive_data_acceptance", "negative_data_rejection")
    unchecked = [CHECKS.get_one(name) for name in judges_requests] if operation.path in FILTERED else []
    if operation.path in ALTERNATIVES:
        unchecked.append(CHECKS.get_one("negative_data_rejection"))

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(max_examples=requests, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    def answered_as_documented(case: schemathesis.Case[Any]) -> None:
        if mode is POSITIVE and "Idempotency-Key" in case.headers:
            # One used before would rightly be refused.
            case.headers["Idempotency-Key"] = str(uuid.uuid4())
        if mode is POSITIVE and isinstance(case.body, dict):
            # A schema cannot say which names are time zones here.
            case.body.pop("time_zone", None)
        case.call_and_validate(excluded_checks=unchecked, timeout=120)  # type: ignore[arg-type]  # what the registry returns

    answered_as_documented()
