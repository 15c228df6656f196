"""Eight sets of testers who had not seen the cues (docs/embedded_model_test.md), with today's figures as lower bounds.

The sets were used to improve the cues after they had been measured: the figures are on seen data.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.llm.rules_model.environment import Environment, Turn

UNSEEN = Path(__file__).parent / "unseen"


def _right(kind: str, before: list[str], environment: Environment, turn: Turn, expect: dict[str, Any]) -> bool:
    match kind:
        case "add":
            wanted = expect["added_any"]
            added = [text.casefold() for text in environment.open if text not in before]
            return len(added) == len(wanted) and all(any(text.casefold() in added for text in texts) for texts in wanted)
        case "show" if "reply" in expect:
            return environment.open == before and expect["reply"] in turn.text
        case "show":
            shown = [text for text in before if expect.get("filter", "").lower() in text.lower()]
            return environment.open == before and [text for text in before if text in turn.text] == shown
        case "delete":
            return turn.kind == "confirm" and expect["asks_to_delete"] in turn.text
        case _:
            return environment.done == [expect["completed"]]


@pytest.mark.parametrize(
    ("folder", "kind", "least"),
    [
        ("independent_3", "add", 99),
        ("independent_3", "show", 98),
        ("independent_3", "delete", 98),
        ("independent_3", "complete", 99),
        ("independent_4", "add", 94),
        ("independent_4", "show", 96),
        ("independent_4", "delete", 94),
        ("independent_4", "complete", 91),
        ("independent_5", "add", 93),
        ("independent_5", "show", 97),
        ("independent_5", "delete", 97),
        ("independent_5", "complete", 98),
        ("independent_6", "add", 94),
        ("independent_6", "show", 98),
        ("independent_6", "delete", 99),
        ("independent_6", "complete", 96),
        ("independent_7", "add", 97),
        ("independent_7", "show", 97),
        ("independent_7", "delete", 97),
        ("independent_7", "complete", 96),
        ("independent_8", "add", 95),
        ("independent_8", "show", 96),
        ("independent_9", "add", 99),
        ("independent_9", "show", 99),
        ("independent_9", "delete", 100),
        ("independent_9", "complete", 95),
        ("independent_10", "add", 96),
        ("independent_10", "show", 99),
        ("independent_10", "delete", 100),
        ("independent_10", "complete", 97),
    ],
)
async def test_sentences_of_a_class_are_carried_out(folder: str, kind: str, least: int) -> None:
    failures = []
    cases = [json.loads(line) for line in (UNSEEN / folder / f"{kind}.jsonl").read_text(encoding="utf-8").splitlines()]
    for case in cases:
        environment = Environment.of(*case["tasks"])
        turn = await environment.says(case["text"])
        if not _right(kind, case["tasks"], environment, turn, case["expect"]):
            failures.append((case["text"], turn.text))
    assert len(cases) - len(failures) >= least, failures


@pytest.mark.parametrize(
    ("folder", "most"),
    [
        ("independent_3", 0),
        ("independent_4", 1),
        ("independent_5", 13),
        ("independent_6", 24),
        ("independent_7", 10),
        ("independent_9", 0),
        ("independent_10", 1),
    ],
)
async def test_unrelated_sentences_change_nothing(folder: str, most: int) -> None:
    """A few may look a task up: "no harm done" is read as a report of something that is not on the list."""
    called, changed = [], []
    for sentence in (UNSEEN / folder / "unrelated.txt").read_text(encoding="utf-8").splitlines():
        turn = await Environment.of("buy milk", "call mom", "finish the report", "book flights").says(sentence)
        called += [sentence] if turn.called else []
        changed += [sentence] if turn.mutated else []
    assert changed == []
    assert len(called) <= most, called
