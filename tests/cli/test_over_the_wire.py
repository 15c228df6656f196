"""The commands with real adapters and real HTTP, against a provider on the loopback."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from graph_agent.llm.families import DEFAULT_MODEL
from graph_agent.models.llm import LLMErrorCause
from graph_agent.reply.causes import CAUSES
from graph_agent.reply.fixed import FAILURE_REPLY, RATE_LIMIT_REPLY
from tests import fork_server
from tests.cli.conftest import Cli, Ended
from tests.llm.wire_apis import API, APIS, SIGNATURE, Call
from tests.llm.wire_server import Reply, drips, half, hangs, resets, says, sends
from tests.provider import KEY, Answer, Provider, providing_in_thread

each_api = pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
FORM = Call("answer", {"text": "Hello!", "reports_change": False}, id="call-1")
MODEL = {"gemini": DEFAULT_MODEL, "openai": "some-model"}


def access(provider: Provider) -> dict[str, str]:
    """Return the environment variables for `provider`."""
    kind = provider.api.name.upper()
    return {f"{kind}_API_KEY": KEY, f"{kind}_BASE_URL": provider.url, f"{kind}_MODEL": MODEL[provider.api.name]}


def use_provider(provider: Provider, monkeypatch: pytest.MonkeyPatch, **more: str) -> str:
    """Configure this process for `provider` and return the name for `--model`."""
    for name, value in {**access(provider), **more}.items():
        monkeypatch.setenv(name, value)
    return provider.api.name


@each_api
def test_a_whole_turn_of_a_real_process_is_request_call_result_and_reply(api: API, home: Path) -> None:
    call = Call("add_task", {"description": "call mom"}, id="call-17", signature=SIGNATURE)
    with providing_in_thread(api, api.answer(calls=[call], finish="calls"), api.answer(text="I've added it.")) as provider:
        arguments = ["ask", "add a task to call mom", "--model", api.name, "--json"]
        ended = subprocess.run(
            [fork_server.graph_agent(), *arguments],
            env={**os.environ, **access(provider)},
            capture_output=True,
            text=True,
            check=False,
        )
    answer = json.loads(ended.stdout)
    assert (ended.returncode, answer["reply"]) == (0, "I've added it.")
    assert answer["decision"]["outcome_category"] == "SUCCESS:TASK_COMPLETED"
    assert answer["decision"]["effects"] == ["Add task 'call mom'"]
    assert answer["states"] == [
        "BUILD_REQUEST", "INVOKE_LLM", "CHECK_RESPONSE", "EXECUTE_TOOLS", "APPEND_RESULTS", "CHECK_ITERATIONS",
        "INVOKE_LLM", "CHECK_RESPONSE", "BUILD_DECISION",
    ]  # fmt: skip
    assert ended.stderr.splitlines()[0] == f"model: {api.name} ({MODEL[api.name]}): chosen on the command line"
    assert KEY not in ended.stdout + ended.stderr
    assert (home / "graph_agent.db").exists()
    assert provider.violations == []
    assert [provider.spoken(n)[-1] for n in (0, 1)] == [("user", "add a task to call mom")] * 2
    (result,) = provider.results()
    assert (result.id, result.response["success"]) == ("call-17", True)


def failures(api: API) -> dict[str, tuple[Reply, str, str]]:
    """Return the replies of the server by name, each with the reply to the user and the outcome."""
    body = json.dumps(api.answer(text="Yes.")).encode()
    failed = (FAILURE_REPLY, "ERROR:RESPONSE_GENERATION")
    return {
        "limit": (says(api.error(429), 429), RATE_LIMIT_REPLY, "REFUSAL:RATE_LIMITED"),
        "bad key": (says(api.error(401), 401), *failed),
        "failure": (sends(b"<html>", 502, "text/html"), *failed),
        "nothing": (says({}), *failed),
        "no JSON": (sends(b"Welcome!"), *failed),
        "filter": (says(api.wrap({}, "blocked")), *failed),
        "half": (half(body), *failed),
        "reset": (resets(), *failed),
    }


@each_api
@pytest.mark.parametrize("kind", failures(APIS[0]))
def test_a_failure_on_the_wire_exits_with_1_and_the_fixed_reply(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, api: API, kind: str
) -> None:
    reply, sentence, outcome = failures(api)[kind]
    with providing_in_thread(api, reply) as provider:
        ended = cli("ask", "add a task to call mom", "--json", "--model", use_provider(provider, monkeypatch))
    assert (ended.code, ended.json()["reply"], ended.json()["decision"]["outcome_category"]) == (1, sentence, outcome)
    assert [line.partition(": ")[0] for line in ended.err.splitlines()] == ["model", "conversation", "the cause", "the reason"]
    assert KEY not in ended.out + ended.err
    rows = cli("log", "list").out.splitlines()
    assert len(rows) == 1
    assert outcome in rows[0]


@each_api
@pytest.mark.parametrize("by", ["option", "environment"])
def test_a_limit_of_one_second_ends_a_slow_response(cli: Cli, monkeypatch: pytest.MonkeyPatch, api: API, by: str) -> None:
    """The recorded duration counts. Without the limit it would be thirty seconds, or the minutes that the response takes."""
    with providing_in_thread(api, drips(json.dumps(api.answer(text="Yes.")).encode(), 1)) as provider:
        limit = {"GRAPH_AGENT_TIMEOUT_SECONDS": "1"} if by == "environment" else {}
        model = use_provider(provider, monkeypatch, **limit)
        ended = cli("ask", "hi", "--json", "--model", model, *(("--timeout", "1") if by == "option" else ()))
    decision = ended.json()
    assert (ended.code, decision["reply"]) == (1, FAILURE_REPLY)
    shown = cli("log", "show", decision["decision_id"], "--json").json()
    assert shown["duration_ms"] < 25_000


def endpoint(ended: Ended) -> tuple[str, str]:
    """Return the verdict of the doctor on the endpoint, and its text."""
    _, verdict, details = ended.line("endpoint").split(maxsplit=2)
    return verdict, details


WRONG_ENDPOINTS: dict[LLMErrorCause, Callable[[API], Reply]] = {
    LLMErrorCause.KEY_REFUSED: lambda api: says(api.error(401), 401),
    LLMErrorCause.MODEL_NOT_FOUND: lambda api: says(api.error(404), 404),
    LLMErrorCause.TOOLS_NOT_SUPPORTED: lambda api: says(api.error(400, message=f"{KEY} gemma does not support tools"), 400),
    LLMErrorCause.QUOTA_EXHAUSTED: lambda api: says(api.error(429, message="You exceeded your current quota"), 429),
    LLMErrorCause.SERVER_ERROR: lambda api: says(api.error(500), 500),
    LLMErrorCause.UNREACHABLE: lambda _: resets(),
    LLMErrorCause.NOT_JSON: lambda _: sends(b"<html>Welcome!</html>", 200, "text/html"),
    LLMErrorCause.TIMEOUT: lambda _: hangs(),
}


@each_api
@pytest.mark.parametrize("code", WRONG_ENDPOINTS)
def test_the_doctor_ask_and_the_log_name_the_same_cause_and_remedy(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, api: API, code: LLMErrorCause
) -> None:
    cause = str(CAUSES[code])
    with providing_in_thread(api, WRONG_ENDPOINTS[code](api)) as provider:
        provider.checked = False
        # Only the server that hangs makes the commands wait for the limit.
        limit = {"GRAPH_AGENT_TIMEOUT_SECONDS": "1"} if code is LLMErrorCause.TIMEOUT else {}
        model = use_provider(provider, monkeypatch, **limit)
        checked = cli("doctor", "--model", model)
        # The limit of the model's call ends before that of the turn, unless the machine stops this process between the two.
        for _ in range(5):
            asked = cli("ask", "add a task to call mom", "--model", model)
            if code is not LLMErrorCause.TIMEOUT or "\nthe cause: " in asked.err:
                break
    shown = cli("log", "show", "last")
    assert checked.code == 1
    assert endpoint(checked)[0] == "broken"
    assert endpoint(checked)[1].startswith(cause)
    assert (asked.code, asked.err.splitlines()[-2:]) == (1, [f"the cause: {cause}", "the reason: graph-agent log show last"])
    assert f"{code.value}, {cause}" in shown.out
    assert KEY not in checked.out + asked.out + asked.err + shown.out
    if code is LLMErrorCause.TOOLS_NOT_SUPPORTED:
        assert endpoint(checked)[1].endswith("(the server says: *** gemma does not support tools)")


def test_every_wrong_endpoint_has_a_sentence_of_its_own() -> None:
    assert CAUSES.keys() == set(LLMErrorCause)
    assert len({cause.sentence for cause in CAUSES.values()}) == len({cause.remedy for cause in CAUSES.values()}) == len(CAUSES)


@each_api
@pytest.mark.parametrize(
    ("replies", "code", "found"),
    [
        (lambda s: [s.answer(calls=[FORM], finish="calls")], 0, "works: calls come back as calls"),
        (lambda s: [s.answer(text="Hello!"), s.answer(calls=[FORM], finish="calls")], 0, "works, but the server ignores the"),
        (lambda s: [says(s.error(400), 400), s.answer(calls=[FORM], finish="calls")], 0, "works, but the server refuses the"),
        (lambda s: [s.answer(text="Hello!")], 1, "cannot work: the model was asked to call list_tasks and answered with text"),
    ],
    ids=["obeys", "ignores", "refuses", "no calls"],
)
def test_the_doctor_reports_whether_the_model_can_call_tools(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, api: API, replies: Callable[[API], list[Answer]], code: int, found: str
) -> None:
    with providing_in_thread(api, *replies(api)) as provider:
        provider.checked = False
        ended = cli("doctor", "--model", use_provider(provider, monkeypatch))
    assert (ended.code, endpoint(ended)[0]) == (code, "broken" if code else "ok")
    assert endpoint(ended)[1].startswith(found)
    assert api.requires_call(provider.bodies[0])
    assert KEY not in ended.out + ended.err


def test_the_doctor_reports_that_a_key_in_the_environment_chose_gemini(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    with providing_in_thread(APIS[0], APIS[0].answer(calls=[FORM], finish="calls")) as provider:
        provider.checked = False
        use_provider(provider, monkeypatch)
        ended = cli("doctor")
    assert f"gemini ({DEFAULT_MODEL}): GEMINI_API_KEY is set" in ended.line("model")
    assert provider.wire.requests[0].path == f"/some/where/v1beta/models/{DEFAULT_MODEL}:generateContent"
    assert endpoint(ended) == ("ok", "works: calls come back as calls")


def test_a_retired_model_is_named_with_its_successor(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = f"{CAUSES[LLMErrorCause.MODEL_NOT_FOUND]} (gemini-2.0-flash is retired, and its successor is {DEFAULT_MODEL})"
    with providing_in_thread(APIS[0], says({}, 404)) as provider:
        provider.checked = False
        use_provider(provider, monkeypatch, GEMINI_MODEL="gemini-2.0-flash")
        seen = cli("doctor")
        asked = cli("ask", "hi")
    assert (seen.code, endpoint(seen)) == (1, ("broken", gone))
    assert (asked.code, asked.out) == (1, f"{FAILURE_REPLY}\n")
    successor = f"its successor is {DEFAULT_MODEL}"
    assert asked.err.splitlines()[0] == f"model: gemini (gemini-2.0-flash): GEMINI_API_KEY is set; {successor}"
    assert successor in seen.line("model")


def test_a_model_with_a_successor_is_used_as_long_as_it_is_served(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    with providing_in_thread(APIS[0], APIS[0].answer(calls=[FORM], finish="calls")) as provider:
        provider.checked = False
        use_provider(provider, monkeypatch, GEMINI_MODEL="gemini-2.5-flash")
        ended = cli("doctor")
    assert f"gemini (gemini-2.5-flash): GEMINI_API_KEY is set; its successor is {DEFAULT_MODEL}" in " ".join(ended.out.split())
    assert endpoint(ended)[0] == "ok"


@pytest.mark.parametrize("tail", ["", "/", "/v1beta", "/v1beta/"])
def test_a_base_url_may_include_the_version(cli: Cli, monkeypatch: pytest.MonkeyPatch, tail: str) -> None:
    with providing_in_thread(APIS[0], APIS[0].answer(text="Hello!")) as provider:
        use_provider(provider, monkeypatch, GEMINI_BASE_URL=provider.url + tail)
        ended = cli("ask", "hi")
    assert (ended.code, ended.out, provider.violations) == (0, "Hello!\n", [])
