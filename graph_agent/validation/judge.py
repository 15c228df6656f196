"""The comparison of a played case with its expectations."""

from __future__ import annotations

from typing import Any

from graph_agent.validation.fixtures import Fixture, FixtureTask, FixtureTurn
from graph_agent.validation.runner import PlayedFixture, PlayedTurn


def judge(fixture: Fixture, played: PlayedFixture) -> list[str]:
    """Return a sentence for each expectation of `fixture` that is not met; an empty list if it passes."""
    failures = []
    for number, (expected, turn) in enumerate(zip(fixture.turns, played.turns, strict=True), start=1):
        where = f"turn {number}: " if len(fixture.turns) > 1 else ""
        failures += [f"{where}{failure}" for failure in _unmet_expectations(expected, turn)]
    if fixture.expected_tasks is not None and fixture.expected_tasks != played.tasks:
        failures.append(f"expected the tasks {_task_list(fixture.expected_tasks)}, got {_task_list(played.tasks)}")
    return failures


def outcome_of(turn: PlayedTurn) -> str:
    """Return the outcome of a turn, also of one that was refused before it had a record."""
    if turn.record is None:
        return str(turn.refused)
    return str(turn.record.decision.outcome_category)


def _unmet_expectations(expected: FixtureTurn, turn: PlayedTurn) -> list[str]:
    decision = None if turn.record is None else turn.record.decision
    called = [] if turn.record is None else [invocation.tool_name for invocation in turn.record.invocations]
    intent = None if decision is None or decision.intent is None else decision.intent.intent_type
    kind = None if decision is None else decision.decision_type
    outcome = outcome_of(turn)
    reply = None if decision is None else decision.reply
    folded = (reply or "").casefold()
    contained, lacking = ([text in folded for text in _folded(t)] for t in (expected.reply_contains, expected.reply_lacks))
    in_order = _in_order(expected.reply_lines or [], (reply or "").splitlines())
    # One row for each field of FixtureTurn: label, actual value, and whether the expectation is met.
    checks: dict[str, tuple[str, Any, bool]] = {
        "expected_intent": ("intent", intent, expected.expected_intent == intent),
        "expected_tool": ("tool", called or None, _tool_fits(expected.expected_tool, called, turn.lookups)),
        "expected_outcome": ("outcome", outcome, outcome.startswith(expected.expected_outcome or "")),
        "expected_decision": ("decision", kind, decision is not None and kind == expected.expected_decision),
        "reply_contains": ("a reply with", reply, all(contained)),
        "reply_equals": ("the reply", reply, expected.reply_equals == reply),
        "reply_lacks": ("a reply without", reply, reply is not None and not any(lacking)),
        "reply_lines": ("the lines in this order", reply, in_order),
    }
    return [
        f"expected {label} {_text(getattr(expected, name))}, got {_text(actual)}"
        for name, (label, actual, is_met) in checks.items()
        if name in expected.expectations and not is_met
    ]


def _folded(texts: str | list[str] | None) -> list[str]:
    return [text.casefold() for text in ([texts] if isinstance(texts, str) else texts or [])]


def _in_order(wanted: list[str], lines: list[str]) -> bool:
    """True if all of `wanted` are among `lines`, in the same order."""
    rest = iter(lines)
    return all(line in rest for line in wanted)


def _tool_fits(expected: str | list[str] | None, called: list[str], lookups: frozenset[str]) -> bool:
    if expected is None:
        return not called
    if isinstance(expected, list):
        return called == expected
    return expected in called and all(name == expected or name in lookups for name in called)


def _text(value: Any) -> str:
    return "nothing" if value is None else ", ".join(value) if isinstance(value, list) else f"{value}"


def _task_list(tasks: list[FixtureTask]) -> str:
    return "[" + ", ".join(f"{task.description} ({task.status})" for task in tasks) + "]"
