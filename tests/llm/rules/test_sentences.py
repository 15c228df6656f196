"""What single sentences lead to in an empty world."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from tests.llm.rules import sentences
from tests.llm.rules.world import Turn, World


def _asks_what_to_add(turn: Turn) -> bool:
    return turn.kind == "ask" and not turn.called and "add" in turn.text.lower()


def _asks_which_to_remove(turn: Turn) -> bool:
    return turn.kind in {"ask", "decline"} and not turn.mutated


@pytest.mark.parametrize(("message", "description"), sentences.ADD.items())
async def test_a_request_to_add_adds_one_task_in_the_users_words(message: str, description: str) -> None:
    world = World()
    turn = await world.says(message)
    assert (turn.kind, turn.called, world.open) == ("answer", ["add_task"], [description])
    assert f"'{description}'" in turn.text


@pytest.mark.parametrize("message", sentences.ASK_ADD)
async def test_a_request_that_names_nothing_is_asked_what_to_add(message: str) -> None:
    turn = await World().says(message)
    assert (turn.kind, turn.called, turn.text) == ("ask", [], "What should I add?")


@pytest.mark.parametrize("message", sentences.SHOW)
async def test_a_question_about_the_list_reads_it_and_answers(message: str) -> None:
    turn = await World().says(message)
    assert (turn.kind, turn.called) == ("answer", ["list_tasks"])


@pytest.mark.parametrize("message", sentences.REMOVE)
async def test_a_request_to_remove_what_is_not_there_asks_which_one(message: str) -> None:
    turn = await World().says(message)
    assert (turn.kind, turn.called) == ("ask", ["list_tasks"])
    assert "Which task should I delete" in turn.text


@pytest.mark.parametrize("message", sentences.ACT)
async def test_a_request_to_complete_or_change_what_is_not_there_asks_which_one(message: str) -> None:
    turn = await World().says(message)
    assert turn.kind == "ask"
    assert turn.called in ([], ["list_tasks"])
    assert "Which task should I mark as done" in turn.text or "Which task should I change" in turn.text


@pytest.mark.parametrize("message", [*sentences.OTHER, *sentences.MORE_OTHER])
async def test_anything_else_calls_no_tool(message: str) -> None:
    turn = await World().says(message)
    assert turn.called == []
    assert turn.text


async def test_odder_words_mean_the_same() -> None:
    wrong: list[str] = []
    for message in sentences.MORE_TO_ADD:
        turn = await World().says(message)
        wrong += [message] if "add_task" not in turn.called and not _asks_what_to_add(turn) else []
    for message in sentences.MORE_TO_SHOW:
        turn = await World().says(message)
        wrong += [message] if (turn.kind, turn.called) != ("answer", ["list_tasks"]) else []
    for message in sentences.MORE_TO_REMOVE:
        turn = await World().says(message)
        wrong += [message] if not _asks_which_to_remove(turn) else []
    assert wrong == []


@pytest.mark.skipif("GRAPH_AGENT_RECORDED" not in os.environ, reason="needs the folder of recorded material")
async def test_recorded_sentences_are_understood() -> None:
    rows = Path(os.environ["GRAPH_AGENT_RECORDED"]).joinpath("utterances.jsonl").read_text(encoding="utf-8").splitlines()
    total: Counter[str] = Counter()
    right: Counter[str] = Counter()
    for row in map(json.loads, rows):
        turn = await World().says(row["text"])
        kind = row["expect"]
        total[kind] += 1
        right[kind] += {
            "list": (turn.kind, turn.called) == ("answer", ["list_tasks"]),
            "add": "add_task" in turn.called or _asks_what_to_add(turn),
            "remove": _asks_which_to_remove(turn),
            "other": not turn.called,
        }[kind]
        assert kind != "other" or not turn.mutated
    shares = {kind: right[kind] / total[kind] for kind in total}
    assert min(shares["list"], shares["add"], shares["remove"]) >= 0.92
    assert shares["other"] >= 0.995
