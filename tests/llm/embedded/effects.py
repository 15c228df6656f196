"""What a turn did, in the notation of the YAML files here, and how it is graded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

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
