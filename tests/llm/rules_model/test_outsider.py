"""The set of a tester who had not seen the grammar (docs/embedded_model_test.md), with today's figures as lower bounds."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.llm.rules_model.environment import Environment, Turn

FOLDER = Path(__file__).parent / "unseen" / "outsider"
TASKS = (
    "buy milk", "call mom", "pay rent", "book dentist appointment", "water the plants", "finish the quarterly report",
    "renew passport", "wash the car", "pick up dry cleaning", "email Sarah about the party", "fix the kitchen tap",
    "return library books", "walk the dog", "laundry", "clean the garage", "five mile run", "grocery shopping",
    "take out the trash",
)  # fmt: skip
FILLINGS = 21
"""The number of sentences from each template."""


def lines(name: str) -> list[str]:
    return (FOLDER / name).read_text(encoding="utf-8").splitlines()


def environment_of(tasks: list[str]) -> Environment:
    """A list with these tasks, the first one newest; "x " marks a completed one."""
    return Environment.of(
        *(task.removeprefix("x ") for task in tasks), completed=tuple(task[2:] for task in tasks if task.startswith("x "))
    )


def _right(kind: str, environment: Environment, turn: Turn, wanted: list[str]) -> bool:
    added = Counter(environment.open) - Counter(TASKS)
    match kind:
        case "add":
            texts = [text.casefold() for text in added.elements()]
            return len(texts) == 1 and texts[0] in [text.casefold() for text in wanted] and not environment.done
        case "show":
            return turn.called == ["list_tasks"]
        case "delete":
            return turn.kind == "confirm" and f"'{wanted[0]}'" in turn.text and not environment.done and not added
        case _:
            return environment.done == wanted and not added


@pytest.mark.parametrize(("kind", "least"), [("add", 74), ("show", 75), ("delete", 71), ("complete", 77)])
async def test_sentences_of_a_class_are_carried_out(kind: str, least: int) -> None:
    failures, sentences = [], lines(f"{kind}.txt")
    for line in sentences:
        said, _, wanted = line.partition(" => ")
        environment = Environment.of(*TASKS)
        turn = await environment.says(said)
        if not _right(kind, environment, turn, wanted.split(" || ")):
            failures.append((said, turn.text))
    assert len(sentences) - len(failures) >= least, failures


def _ends(end: dict[str, Any], before: list[list[str]], after: Environment, text: str) -> bool:
    """True if the lists and the text are as `end` says; `before` are the open and the completed tasks, which else stay."""
    done = end.get("done", [])
    lists = [(after.open, end.get("open", [task for task in before[0] if task not in done])), (after.done, [*before[1], *done])]
    return (
        all(sorted(map(str.casefold, found)) == sorted(map(str.casefold, wanted)) for found, wanted in lists)
        and ("?" in text or not end.get("ask"))
        and all(re.search(pattern, text, re.IGNORECASE | re.DOTALL) for pattern in end.get("says", []))
        and not any(re.search(pattern, text, re.IGNORECASE | re.DOTALL) for pattern in end.get("never", []))
    )


async def test_requests_end_as_the_user_wants() -> None:
    failures, requests = [], [json.loads(line) for line in lines("requests.jsonl")]
    for request in requests:
        environment = environment_of(request["tasks"])
        before = [environment.open, environment.done]
        turns = [await environment.says(request["say"])]
        for _ in range(request.get("yes", 0)):
            if turns[-1].kind == "confirm":
                turns.append(await environment.says("yes"))
        text = "\n".join(turn.text for turn in turns)
        if not any(_ends(end, before, environment, text) for end in request["ends"]):
            failures.append((request["say"], text))
    assert len(requests) == 60
    assert len(requests) - len(failures) >= 59, failures


async def test_dialogues_end_as_the_user_wants() -> None:
    failures, dialogues = {}, [json.loads(line) for line in lines("dialogues.jsonl")]
    for dialogue in dialogues:
        environment = environment_of(dialogue["tasks"])
        for turn in dialogue["turns"]:
            before = [environment.open, environment.done]
            said = await environment.says(turn["say"])
            if "end" in turn and not _ends(turn["end"], before, environment, said.text):
                failures.setdefault(dialogue["name"], (turn["say"], said.text))
    assert len(dialogues) == 10
    assert len(dialogues) - len(failures) >= 9, failures


async def test_a_quarter_of_the_unrelated_sentences_changes_nothing_and_hardly_ever_calls_a_tool() -> None:
    sentences = sorted(set(unrelated()))[::4]
    turns = {said: await Environment.of("buy milk", "call mom", "pay rent").says(said) for said in sentences}
    assert [said for said, turn in turns.items() if turn.mutated] == []
    called = [said for said, turn in turns.items() if turn.called]
    assert len(called) <= 0.003 * len(sentences), called


def unrelated() -> Iterator[str]:
    """Yield the templates, each filled and framed in `FILLINGS` ways that are spread evenly over all of them."""
    words = {
        name: values.split(" | ") for line in lines("unrelated.txt") if " = " in line for name, values in [line.split(" = ")]
    }
    templates = [line for line in lines("unrelated.txt") if " = " not in line and not line.startswith("#")]
    for row, template in enumerate(templates):
        slots = re.findall(r"{(\w+?)2?}", template)
        fillings = [filling for filling in product(*(words[slot] for slot in slots)) if len(set(filling)) == len(filling)]
        for number in range(FILLINGS):
            filling = iter(fillings[(number * 7919) % len(fillings)])
            text = re.sub(r"{\w+}", lambda _, filling=filling: next(filling), template)
            frame = "{}" if number == 0 else words["frames"][(row + number * 4) % len(words["frames"])]
            yield frame.format(text)
