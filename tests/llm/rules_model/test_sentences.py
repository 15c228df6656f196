"""Single sentences with an empty list, and the shares that must be understood of sentences that are kept for measuring."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.llm.rules_model.environment import Environment, Turn
from tests.llm.rules_model.scoring import UNSEEN, measure, measure_unrelated, read_lines, unrelated_sentences

_DEVELOPMENT = Path(__file__).parent / "development"
_RECORDED = os.environ.get("GRAPH_AGENT_RECORDED")


def _lines(name: str) -> list[str]:
    return read_lines(_DEVELOPMENT / f"{name}.txt")


async def _turn(message: str) -> Turn:
    return await Environment().says(message)


@pytest.mark.parametrize("line", _lines("add"))
async def test_a_request_to_add_adds_one_task_with_the_words_of_the_user(line: str) -> None:
    message, description = line.split(" => ")
    environment = Environment()
    turn = await environment.says(message)
    assert (turn.kind, turn.called, environment.open) == ("answer", ["add_task"], [description])
    assert f"'{description}'" in turn.text
    assert turn.reports_change


@pytest.mark.parametrize("message", _lines("add_nothing"))
async def test_a_request_that_names_nothing_is_asked_what_to_add(message: str) -> None:
    turn = await _turn(message)
    assert (turn.kind, turn.called, turn.text) == ("question", [], "What should I add?")


@pytest.mark.parametrize("message", _lines("show"))
async def test_a_question_about_the_list_reads_it_and_answers(message: str) -> None:
    turn = await _turn(message)
    assert (turn.kind, turn.called, turn.reports_change) == ("answer", ["list_tasks"], False)


@pytest.mark.parametrize("message", _lines("remove"))
async def test_a_request_to_remove_something_unknown_changes_nothing(message: str) -> None:
    turn = await _turn(message)
    assert (turn.called, turn.mutated) == (["list_tasks"], False)


@pytest.mark.parametrize("message", _lines("change"))
async def test_a_request_to_change_something_unknown_asks_which_task_is_meant(message: str) -> None:
    turn = await _turn(message)
    assert (turn.kind, turn.called) == ("question", ["list_tasks"])


@pytest.mark.parametrize("message", _lines("unrelated"))
async def test_an_unrelated_message_calls_no_tool(message: str) -> None:
    turn = await _turn(message)
    assert turn.called == []
    assert turn.text


@pytest.mark.parametrize("name", ["add", "show", "delete", "complete", "update"])
async def test_at_least_95_of_100_commands_are_carried_out(name: str) -> None:
    (score,) = await measure([name], None)
    assert score.share >= 0.95, score.failures


async def test_nine_of_ten_requests_and_dialogues_end_as_the_user_wants() -> None:
    for score in await measure(["requests", "dialogues"], None):
        assert score.share >= 0.9, (score.name, score.failures)


async def test_unrelated_sentences_change_nothing_and_hardly_ever_call_a_tool() -> None:
    written = read_lines(UNSEEN / "unrelated.txt")
    sentences = unrelated_sentences(None)
    changes, calls = await measure_unrelated([*written, *sentences[len(written) :: 5]])
    assert changes.failures == []
    assert calls.share >= 0.997, calls.failures


@pytest.mark.skipif(_RECORDED is None, reason="needs the folder of recorded material")
async def test_recorded_sentences_are_understood() -> None:
    assert _RECORDED is not None
    shares = {score.name: score.share for score in await measure(["recorded"], Path(_RECORDED) / "utterances.jsonl")}
    assert min(shares[f"recorded: {kind}"] for kind in ("add", "list", "remove")) >= 0.95
    assert shares["recorded: other"] >= 0.995
