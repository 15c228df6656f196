"""The analysis of conditions that count approvals: `explain`, `diff` and `prove`. The guard confirms every example."""

from __future__ import annotations

import pytest

from graph_agent.analysis.comparison import compare
from graph_agent.analysis.questions import AnalysisResult, Answer, Change, explain, prove
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.compiled import CompiledPolicy
from tests.policy.cedar_shop import PERMIT, policy_of
from tests.policy.test_approval_rules import ROLES, SHOP, TOOLS

SECONDS = 300.0
NOTE = TOOLS[3:4]


def note(clauses: str = "") -> CompiledPolicy:
    """Return a policy that refuses notes by `clauses`."""
    rule = f'@id("notes") forbid (principal, action == Action::"note", resource) {clauses};' if clauses else ""
    return policy_of(NOTE, PERMIT + rule, ROLES)


def shown(results: list[AnalysisResult]) -> list[tuple[str, str]]:
    assert [str(one.example) for one in results if not one.is_certain] == []
    return [(str(one.answer), str(one.example)) for one in results]


def test_explain_says_what_runs_with_approvals() -> None:
    results = {one.name: one for one in explain(SHOP, SECONDS)}
    assert all(one.is_certain for one in results.values())
    answers = {name: (one.answer, one.with_yes, one.with_approvals) for name, one in results.items()}
    never, sometimes, always = Answer.NEVER, Answer.SOMETIMES, Answer.ALWAYS
    assert answers == {
        "refund": (sometimes, sometimes, sometimes),
        "payout": (never, never, always),
        "discount": (never, sometimes, always),
        "note": (always, always, None),
        "close": (never, never, always),
        "find": (always, always, None),
    }
    assert results["payout"].example is not None
    assert results["payout"].example.guard == "waits"
    assert results["note"].to_json().keys().isdisjoint({"with_approvals"})


MANAGER = "unless { context.approvals.manager >= 1 }"
CALL = 'note(order="", amount=0)'


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        ("", MANAGER, [(Change.NEEDS_APPROVAL, CALL)]),
        (
            "unless { context.confirmed }",
            MANAGER,
            [(Change.WAITS, f"{CALL}  [approvals: manager=1]"), (Change.NEEDS_APPROVAL, CALL)],
        ),
        (MANAGER, "", [(Change.RUNS, CALL)]),
        (MANAGER, "unless { context.confirmed }", [(Change.ASKS, CALL), (Change.NEEDS_YES, f"{CALL}  [approvals: manager=1]")]),
        ("when { true }", MANAGER, [(Change.WAITS, CALL)]),
        (MANAGER, "when { true }", [(Change.REFUSED, CALL)]),
        (
            "unless { context.approvals.manager >= 1 && context.approvals.finance >= 1 }",
            MANAGER,
            [(Change.WAITS, f"{CALL}  [approvals: manager=1]")],
        ),
        (
            MANAGER,
            "unless { context.approvals.manager >= 2 }",
            [(Change.NEEDS_APPROVAL, f"{CALL}  [approvals: manager=1]")],
        ),
        (
            "unless { context.approvals.manager >= 1 && context.confirmed }",
            MANAGER,
            [(Change.WAITS, f"{CALL}  [approvals: manager=1]")],
        ),
        (MANAGER, MANAGER, []),
    ],
)
def test_diff_names_what_approvals_newly_permit(old: str, new: str, changes: list[tuple[Change, str]]) -> None:
    results = compare(note(old), note(new), SECONDS)
    found = shown(results)
    for change, example in changes:
        assert (str(change), example) in found, found
    loosens = any(change.loosens for change, _ in changes)
    assert any(one.may_loosen for one in results) is loosens
    assert bool(found) is bool(changes)


def test_a_promise_holds_for_any_number_of_approvals() -> None:
    promises = ConditionsFile(
        """
@id("no refund over 500 without a manager") forbid (principal, action == Action::"refund", resource)
when { context.arguments.amount > 500 && context.approvals.manager < 1 };
@id("no refund over 500 without finance") forbid (principal, action == Action::"refund", resource)
when { context.arguments.amount > 500 && context.approvals.finance < 1 };
@id("no refund over 5000 by one person") forbid (principal, action == Action::"refund", resource)
when { context.arguments.amount > 5000 && context.approvals.finance + context.approvals.manager < 2 };
""",
        roles=ROLES,
    )
    results = prove(SHOP, promises, SECONDS)
    assert [str(one.answer) for one in results] == ["proved", "fails", "proved"]
    example = results[1].example
    assert example is not None
    assert example.confirmed
    assert str(example) == 'refund(order="", amount=501)  [approvals: manager=1]'
