"""`make live` against a stand-in for the model's server."""

from __future__ import annotations

import pytest

from tests.acceptance import live
from tests.llm.wire_apis import APIS, Call
from tests.llm.wire_server import hangs, says
from tests.provider import KEY, Answer, Provider, providing_in_thread
from tests.variables import unset_variables

OPENAI = APIS[1]
HELLO = Call("answer", {"text": "Hello!", "reports_change": False}, id="call-1")
ADD = Call("add_task", {"description": "buy oat milk and rye bread"}, id="call-2")
DROP = Call("drop_tasks", {}, id="call-3")


def run_against(provider: Provider, monkeypatch: pytest.MonkeyPatch, **variables: str) -> int:
    unset_variables(monkeypatch)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("OPENAI_BASE_URL", provider.url)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_MODEL", "some-model")
    return live.main(["--first", "1"])


def answering(*answers: Answer) -> list[Answer]:
    """Return a greeting, with which the first case of the suite fails, and then `answers` for the first request."""
    return [OPENAI.answer(calls=[HELLO], finish="calls"), *answers]


def test_the_report_has_the_criteria_the_model_the_tokens_and_what_was_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    replies = answering(
        OPENAI.answer(calls=[ADD, DROP], finish="calls", usage=OPENAI.counted(100, 10, 110)),
        OPENAI.answer(text="I added oat milk and rye bread."),
    )
    with providing_in_thread(OPENAI, *replies) as provider:
        code = run_against(provider, monkeypatch)
    out = capsys.readouterr().out
    assert provider.violations == []
    assert code == 0
    assert "shipped suite: 0 of 1 cases pass" in out
    assert "SC-001, the user's requests that succeed: 1 of 1 (100%), met" in out
    assert "SC-002, turns within 3 s: 2 of 2 (100%), met" in out
    assert "model calls answered by: 3 x " in out
    assert "tokens: 100 in (0 cached), 10 out" in out
    assert "refused tool calls: 1 x drop_tasks (TOOL_NOT_FOUND)" in out
    assert "failed model calls: none" in out
    assert KEY not in out


def test_a_criterion_that_is_not_met_fails_and_a_failure_has_its_cause(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with providing_in_thread(OPENAI, *answering(says(OPENAI.error(401), 401))) as provider:
        code = run_against(provider, monkeypatch)
    out = capsys.readouterr().out
    assert code == 1
    assert "SC-001, the user's requests that succeed: 0 of 1 (0%), NOT met" in out
    assert "failed model calls: 1 x the provider refused the API key" in out
    # The failed turn was fast, but it is no answer.
    assert "SC-002, turns within 3 s: 1 of 2 (50%), NOT met" in out


def test_a_turn_has_the_time_of_the_settings(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with providing_in_thread(OPENAI, *answering(hangs())) as provider:
        code = run_against(provider, monkeypatch, GRAPH_AGENT_TIMEOUT_SECONDS="1")
    assert code == 1
    assert "failed model calls: " in capsys.readouterr().out


def test_without_a_key_it_says_what_is_needed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    unset_variables(monkeypatch)
    assert live.main([]) == 2
    assert "set GEMINI_API_KEY" in capsys.readouterr().err


def test_nine_of_ten_meet_a_criterion_and_nothing_meets_none() -> None:
    assert [live.criterion("c", met, total)[0] for met, total in ((9, 10), (8, 10), (0, 0))] == [True, False, False]
