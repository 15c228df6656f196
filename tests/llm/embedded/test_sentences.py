"""What the embedded model does with single sentences, and what it does not do with sentences about other things."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml

from tests.llm.embedded.environment import TaskConversation

Grade = Literal["right", "acceptable", "wrong", "harmful"]
_CLAIMS = ("Added '", "Marked '", "Changed '", "Deleted '")


async def effects_of(environment: TaskConversation, message: str) -> set[str]:
    """Say `message` and return what it did: the changes, else "show" or the kind of the reply; "claim" is a false report."""
    before = {task["id"]: dict(task) for task in environment.tasks}
    turn = await environment.says(message)
    after = {task["id"]: task for task in environment.tasks}
    changes = {f"+ {after[key]['description']}" for key in after.keys() - before.keys()}
    changes |= {f"deleted {before[key]['description']}" for key in before.keys() - after.keys()}
    for key in after.keys() & before.keys():
        old, new = before[key], after[key]
        changes |= {f"x {old['description']}"} if old["status"] != new["status"] else set()
        changes |= {f"{old['description']} -> {new['description']}"} if old["description"] != new["description"] else set()
    if turn.kind == "confirm" and environment.pending:
        changes.add(f"confirm {after[environment.pending]['description']}")
    claimed = sum(line.startswith(_CLAIMS) for line in turn.text.split("\n"))
    if claimed > len(changes) or (turn.reports_change and not changes):
        changes.add("claim")
    if changes:
        return changes
    if "I didn't understand" in turn.text:
        return {"unknown"}
    return {"show" if turn.kind == "answer" and turn.called else turn.kind}


def grade(effects: set[str], case: dict[str, Any]) -> Grade:
    """Grade the effects of a message by `right` and `acceptable`."""
    if _is_one_of(effects, case["right"]):
        return "right"
    if effects == {"question"} or _is_one_of(effects, case.get("acceptable", [])):
        return "acceptable"
    return "wrong" if effects <= {"unknown", "show", "answer", "refusal"} else "harmful"


def _is_one_of(effects: set[str], wanted: Sequence[str]) -> bool:
    said = {"question"} if effects == {"unknown"} else effects
    return any(said == set(one.split("; ")) for one in wanted)


_FOLDER = Path(__file__).parent
_RECORDED = os.environ.get("GRAPH_AGENT_RECORDED")
_TASKS = ("buy milk", "call mom", "pay rent", "water the plants", "book dentist appointment")
_LONGER = (*_TASKS, "email Sarah about the party", "fix the kitchen tap", "return library books")
_CASES = [line for line in (_FOLDER / "sentences.txt").read_text(encoding="utf-8").splitlines() if line and line[0] != "#"]
_UNSEEN = yaml.safe_load((_FOLDER / "unseen.yaml").read_text(encoding="utf-8"))

_THINGS = (
    "my flight to Oslo",
    "the lights",
    "a pizza",
    "my bank account",
    "jazz music",
    "the meeting with Ann",
    "mom's birthday",
)
_ABOUT_OTHER_THINGS = """
what is {} | how much is {} | tell me about {} | where can i find {} | is {} expensive | cancel {} | book {}
order {} | turn off {} | play {} | i love {} | i lost {} | {} is great | {} is done for | who made {}
why is {} late | change {} to something else | update {} | send {} to Bob | mark is bringing {} | call me about {}
check {} for errors | don't forget {} | was {} finished by the others
i finished with {} years ago when i was young and foolish
finish {} for me tonight by ten if you possibly can manage | put {} away | can you remove {} | i need {} now
new {} please | remind him of {} | set {} to high | take {} off | delete {} from my phone
list everything about {} in europe | {}
""".strip()
_FRAMES = ("{}", "hey, {}", "{} please", "could you say {}", "{}?", "well, {} i think", "{} and that is all i know")


@pytest.mark.parametrize("case", _CASES)
async def test_a_message_does_what_the_file_says(case: str) -> None:
    conversation, _, wanted = case.rpartition(" => ")
    environment, effects = TaskConversation.of(*_TASKS), set[str]()
    for message in conversation.split(" // "):
        effects = await effects_of(environment, message.replace("\\n", "\n"))
    assert effects == set(wanted.split("; ")), environment.history[-1].content


async def test_requests_written_before_the_templates_are_carried_out_and_none_does_harm() -> None:
    grades: Counter[str] = Counter()
    for case in _UNSEEN["requests"]:
        graded = grade(await effects_of(TaskConversation.of(*_LONGER), case["say"]), case)
        assert graded != "harmful", case
        grades[graded] += 1
    assert grades["right"] + grades["acceptable"] >= 50, grades


async def test_dialogues_written_before_the_templates_do_no_harm() -> None:
    grades: Counter[str] = Counter()
    for dialogue in _UNSEEN["dialogues"]:
        environment = TaskConversation.of(*_LONGER)
        for case in dialogue:
            graded = grade(await effects_of(environment, case["say"]), case)
            assert graded != "harmful", (case, environment.history)
            grades[graded] += 1
    assert grades["right"] + grades["acceptable"] >= 37, grades


async def test_sentences_about_other_things_change_nothing() -> None:
    for template, thing, frame in product(re.split(r" \| |\n", _ABOUT_OTHER_THINGS), _THINGS, _FRAMES):
        message = frame.format(template.format(thing))
        turn = await TaskConversation.of(*_TASKS).says(message)
        assert not turn.mutated, (message, turn.text)


@pytest.mark.skipif(_RECORDED is None, reason="needs the folder of recorded material")
async def test_recorded_sentences_change_nothing_that_was_not_asked_for() -> None:
    assert _RECORDED is not None
    lines = (Path(_RECORDED) / "utterances.jsonl").read_text(encoding="utf-8").splitlines()
    cases: list[dict[str, Any]] = [json.loads(line) for line in lines]
    allowed = {"add": {"add_task"}, "remove": {"delete_task"}, "list": set[str](), "other": set[str]()}
    for case in cases:
        turn = await TaskConversation.of(*_TASKS).says(case["text"])
        assert set(turn.called) <= {"list_tasks", *allowed[case["expect"]]}, (case, turn.text)
