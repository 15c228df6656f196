"""What an approver is shown: every value of the call, whatever it is, and one that hides something is visible."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from graph_agent.chat.question_view import ApprovalView, view_of
from graph_agent.cli.questions import text_of
from graph_agent.models.approval import ApprovalState
from graph_agent.models.canonical import canonical_json
from graph_agent.models.decision import PendingAction
from graph_agent.policy.approval_signature import signed_text
from graph_agent.question.approvals import StoredRequest
from graph_agent.reply.text import visible
from tests.policy.cedar_shop import policy_of
from tests.policy.test_approval_rules import ROLES, RULES, TOOLS
from tests.policy.test_approval_signature import ACTION, NOW, REQUEST

SHOP = policy_of(TOOLS, RULES, ROLES)
PIECES = ["a", "\n", "\u202e", "\u2066", "\u200b", "é", "\U0001f600", '"', "\\", "Approve: runs", "\r", "\t", "{", "日"]


def value_of(random: Random, depth: int = 0) -> Any:
    kind = random.randrange(6 if depth < 3 else 3)
    if kind == 0:
        return random.choice([0, -1, 2**53, 1.5, True, None])
    if kind in (1, 2):
        return "".join(random.choices(PIECES, k=random.choice([0, 1, 8, 200])))
    if kind == 3:
        return [value_of(random, depth + 1) for _ in range(random.randrange(4))]
    return {f"k{number}\u202e": value_of(random, depth + 1) for number in range(random.randrange(4))}


def view_action(arguments: dict[str, Any]) -> PendingAction:
    return ACTION.replace(arguments=arguments)


def shown(arguments: dict[str, Any]) -> ApprovalView:
    request = REQUEST.replace(action=view_action(arguments))
    stored = StoredRequest(request, ApprovalState.OPEN, (), NOW, True, NOW, None, None)
    return view_of(
        stored,
        SHOP,
        asked=None,
        earlier_messages=0,
        now=None,
        earlier=[],
        yours=None,
        decided_elsewhere="",
    )


def test_aisvs_9_2_2_view_and_signed_text_show_all_of_a_thousand_generated_values_up_to_64_kb() -> None:
    random, sizes = Random(1), []
    for number in range(1_000):
        arguments = {"value": value_of(random), f"n{number}": number}
        if number % 25 == 0:
            size = 22_000 if number == 0 else random.randrange(22_000)
            arguments["long"] = "".join(random.choices(PIECES, k=size)) + "\u202e"
        sizes.append(len(canonical_json(arguments).encode()))
        view = shown(arguments)
        assert json.loads(view.model_dump_json())["arguments"] == arguments
        printed = text_of(view)
        for name, value in arguments.items():
            assert visible(f"  {name} = {canonical_json(value)}") in printed
        # A value adds no line, and nothing in it is hidden or turns the text around.
        assert len(printed.split("\n")) == len(text_of(shown(dict.fromkeys(arguments, "x"))).split("\n"))
        assert visible(printed) == printed
        signed = signed_text(REQUEST.replace(action=view_action(arguments)), approver="bob", approve=True, role="manager")
        (line,) = [line for line in signed.splitlines() if line.startswith("arguments: ")]
        assert json.loads(line.removeprefix("arguments: ").encode().decode("unicode_escape")) == arguments
        assert signed.isascii()
        assert len(signed.splitlines()) == 13
    assert max(sizes) > 60_000


def test_aisvs_9_2_8_two_requests_that_differ_in_any_value_have_different_digests() -> None:
    random, digests = Random(2), set()
    texts = {canonical_json({"value": value_of(random)}) for _ in range(500)}
    for text in texts:
        digests.add(shown(json.loads(text)).digest)
    assert len(digests) == len(texts)
