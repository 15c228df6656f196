"""The commands against a provider on the loopback: real adapters, real HTTP."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from graph_agent.llm import probe
from graph_agent.llm.families import DEFAULT_MODEL
from graph_agent.reply.fixed import FAILURE_REPLY, RATE_LIMIT_REPLY
from tests.cli.conftest import Cli
from tests.llm.wire_server import Reply, drips, half, hangs, resets, says, sends
from tests.llm.wire_speakers import SIGNATURE, SPEAKERS, Call, Speaker
from tests.provider import KEY, Provider, providing_apart

speaking = pytest.mark.parametrize("speaker", SPEAKERS, ids=lambda speaker: speaker.name)
MODEL = {"gemini": DEFAULT_MODEL, "openai": "some-model"}


def access(provider: Provider) -> dict[str, str]:
    """The environment that leads to `provider`."""
    kind = provider.speaker.name.upper()
    return {f"{kind}_API_KEY": KEY, f"{kind}_BASE_URL": provider.url, f"{kind}_MODEL": MODEL[provider.speaker.name]}


def led_to(provider: Provider, monkeypatch: pytest.MonkeyPatch, **more: str) -> str:
    """Lead this process to `provider`; gives the name for `--model`."""
    for name, value in {**access(provider), **more}.items():
        monkeypatch.setenv(name, value)
    return provider.speaker.name


@speaking
def test_a_whole_turn_of_a_real_process_is_request_call_result_and_reply(speaker: Speaker, home: Path) -> None:
    call = Call("add_task", {"description": "call mom"}, id="call-17", signature=SIGNATURE)
    with providing_apart(
        speaker, speaker.answer(calls=[call], finish="calls"), speaker.answer(text="I've added it.")
    ) as provider:
        arguments = ["ask", "add a task to call mom", "--model", speaker.name, "--json"]
        ended = subprocess.run(
            [sys.executable, "-c", "from graph_agent.cli.main import main; main()", *arguments],
            env={**os.environ, **access(provider)},
            capture_output=True,
            text=True,
            check=False,
        )
    told = json.loads(ended.stdout)
    assert (ended.returncode, told["reply"]) == (0, "I've added it.")
    assert told["decision"]["outcome_category"] == "SUCCESS:TASK_COMPLETED"
    assert told["decision"]["effects"] == ["added 'call mom'"]
    assert told["states"] == [
        "BUILD_REQUEST", "INVOKE_LLM", "CHECK_RESPONSE", "EXECUTE_TOOLS", "APPEND_RESULTS", "CHECK_ITERATIONS",
        "INVOKE_LLM", "CHECK_RESPONSE", "BUILD_DECISION",
    ]  # fmt: skip
    assert ended.stderr.splitlines()[0] == f"model: {speaker.name} ({MODEL[speaker.name]}): chosen on the command line"
    assert KEY not in ended.stdout + ended.stderr
    assert (home / "log.db").exists()
    assert provider.disorder == []
    assert [provider.spoken(n)[-1] for n in (0, 1)] == [("user", "add a task to call mom")] * 2
    (result,) = provider.results()
    assert (result.id, result.response["success"]) == ("call-17", True)


def failures(speaker: Speaker) -> dict[str, tuple[Reply, str, str]]:
    """On the wire -> reply and outcome."""
    body = json.dumps(speaker.answer(text="Yes.")).encode()
    failed = (FAILURE_REPLY, "ERROR:RESPONSE_GENERATION")
    return {
        "limit": (says(speaker.error(429), 429), RATE_LIMIT_REPLY, "REFUSAL:RATE_LIMITED"),
        "bad key": (says(speaker.error(401), 401), *failed),
        "failure": (sends(b"<html>", 502, "text/html"), *failed),
        "nothing": (says({}), *failed),
        "no JSON": (sends(b"Welcome!"), *failed),
        "filter": (says(speaker.wrap({}, "blocked")), *failed),
        "half": (half(body), *failed),
        "reset": (resets(), *failed),
    }


@speaking
@pytest.mark.parametrize("kind", failures(SPEAKERS[0]))
def test_a_failure_on_the_wire_ends_with_1_and_the_sentence(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, speaker: Speaker, kind: str
) -> None:
    reply, sentence, outcome = failures(speaker)[kind]
    with providing_apart(speaker, reply) as provider:
        ended = cli("ask", "add a task to call mom", "--json", "--model", led_to(provider, monkeypatch))
    assert (ended.code, ended.json()["reply"], ended.json()["decision"]["outcome_category"]) == (1, sentence, outcome)
    assert [line for line in ended.err.splitlines() if not line.startswith(("model: ", "conversation: "))] == []
    assert KEY not in ended.out + ended.err
    rows = cli("log", "list").out.splitlines()
    assert len(rows) == 1
    assert outcome in rows[0]


@speaking
@pytest.mark.parametrize("by", ["option", "environment"])
def test_a_limit_of_five_seconds_holds_against_a_drip(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, speaker: Speaker, by: str
) -> None:
    """The turn's own time, as the record has it. Without the limit it would be thirty seconds, or the minutes of the drip."""
    with providing_apart(speaker, drips(json.dumps(speaker.answer(text="Yes.")).encode(), 1)) as provider:
        limit = {"GRAPH_AGENT_TIMEOUT_SECONDS": "5"} if by == "environment" else {}
        model = led_to(provider, monkeypatch, **limit)
        ended = cli("ask", "hi", "--json", "--model", model, *(("--timeout", "5") if by == "option" else ()))
    decision = ended.json()
    assert (ended.code, decision["reply"]) == (1, FAILURE_REPLY)
    shown = cli("log", "show", decision["decision_id"], "--json").json()
    assert shown["duration_ms"] < 25_000


def endpoint(out: str) -> tuple[str, str]:
    """Verdict and words of the doctor on the endpoint."""
    line = next(line for line in out.splitlines() if line.startswith("endpoint"))
    _, verdict, told = line.split(maxsplit=2)
    return verdict, told


@pytest.mark.parametrize(
    ("status", "verdict", "gemini", "openai"),
    [
        (200, "ok", "answers", "answers"),
        (405, "ok", "answers", "answers"),
        (501, "ok", "answers", "answers"),
        (401, "broken", "the provider refused the API key", "the provider refused the API key"),
        (403, "broken", "the provider refused the API key", "the provider refused the API key"),
        (429, "broken", "the provider's rate limit is reached", "the provider's rate limit is reached"),
        (503, "broken", "the provider has a failure", "the provider has a failure"),
        (
            404,
            "broken",
            f"the provider does not have the model nobody-1; the default is {DEFAULT_MODEL}",
            "the model's endpoint answers, but not as an OpenAI-compatible one: check the base URL",
        ),
    ],
)
def test_the_doctor_says_which_model_why_and_whether_it_answers(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, status: int, verdict: str, gemini: str, openai: str
) -> None:
    monkeypatch.setattr(probe, "PROBE_SECONDS", 60)
    for speaker, told in zip(SPEAKERS, (gemini, openai), strict=True):
        with providing_apart(speaker, says({}, status)) as provider:
            provider.checked = False
            kind = led_to(provider, monkeypatch, **{f"{speaker.name.upper()}_MODEL": "nobody-1"})
            ended = cli("doctor", "--model", kind)
        assert ended.out.splitlines()[0].split(maxsplit=2) == ["model", "ok", f"{kind} (nobody-1): chosen on the command line"]
        assert endpoint(ended.out) == (verdict, told)
        assert ended.code == (0 if verdict == "ok" else 1)
        assert KEY not in ended.out + ended.err


def test_the_doctor_says_that_a_key_in_the_environment_chose_gemini(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "PROBE_SECONDS", 60)
    with providing_apart(SPEAKERS[0], says({})) as provider:
        provider.checked = False
        led_to(provider, monkeypatch)
        ended = cli("doctor")
    assert f"gemini ({DEFAULT_MODEL}): GEMINI_API_KEY is set" in ended.out.splitlines()[0]
    assert provider.wire.requests[0].path == f"/some/where/v1beta/models/{DEFAULT_MODEL}"
    assert endpoint(ended.out) == ("ok", "answers")


def test_a_retired_model_is_named_with_its_successor(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "PROBE_SECONDS", 60)
    gone = f"the model gemini-2.0-flash was shut down: use {DEFAULT_MODEL}"
    with providing_apart(SPEAKERS[0], says({}, 404)) as provider:
        provider.checked = False
        led_to(provider, monkeypatch, GEMINI_MODEL="gemini-2.0-flash")
        seen = cli("doctor")
        asked = cli("ask", "hi")
    assert (seen.code, endpoint(seen.out)) == (1, ("broken", gone))
    assert (asked.code, asked.out) == (1, f"{FAILURE_REPLY}\n")
    assert asked.err.splitlines()[0] == f"model: gemini (gemini-2.0-flash): GEMINI_API_KEY is set; {gone}"


@speaking
@pytest.mark.parametrize("kind", ["hangs", "drips"])
def test_the_doctor_waits_less_than_a_second_for_an_endpoint(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, speaker: Speaker, kind: str
) -> None:
    """A drip that would go on for a minute and more is given up as well."""
    replies: dict[str, Reply] = {"hangs": hangs(), "drips": drips(b" " * 200, 0.5)}
    with providing_apart(speaker, replies[kind]) as provider:
        provider.checked = False
        name = led_to(provider, monkeypatch)
        ended = cli("doctor", "--model", name)
    assert probe.PROBE_SECONDS < 1
    assert (ended.code, endpoint(ended.out)) == (1, ("broken", "the model did not answer in time"))
    assert KEY not in ended.out + ended.err


@pytest.mark.parametrize("tail", ["", "/", "/v1beta", "/v1beta/"])
def test_an_address_with_its_version_is_the_same_address(cli: Cli, monkeypatch: pytest.MonkeyPatch, tail: str) -> None:
    with providing_apart(SPEAKERS[0], SPEAKERS[0].answer(text="Hello!")) as provider:
        led_to(provider, monkeypatch, GEMINI_BASE_URL=provider.url + tail)
        ended = cli("ask", "hi")
    assert (ended.code, ended.out, provider.disorder) == (0, "Hello!\n", [])
