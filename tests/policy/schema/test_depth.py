"""Arguments as deep as ordinary APIs need them, and the cost of their check."""

from __future__ import annotations

import json
from typing import Any

import pytest

from graph_agent.models.llm import FunctionCall, ToolDeclaration
from graph_agent.models.record import CallDisposition
from graph_agent.models.tools import ToolTraits
from graph_agent.policy.compiled import compile_policy
from graph_agent.policy.constitution import Constitution
from graph_agent.policy.schema.check import (
    MAX_ARGUMENT_BYTES,
    MAX_ARGUMENT_DEPTH,
    ArgumentCheck,
    CheckTooExpensiveError,
)
from graph_agent.policy.schema.keywords import SchemaRefusedError
from tests.judging import judge_batch


def verdict(schema: dict[str, Any], arguments: dict[str, Any]) -> CallDisposition:
    constitution = Constitution.parse("## Available Tools\n- act: Act (without confirmation)\n")
    declared = [ToolDeclaration(name="act", description="x", parameters=schema)]
    policy = compile_policy(constitution, declared, {"act": ToolTraits()})
    (judged,) = judge_batch(
        [FunctionCall("act", arguments)], policy=policy, user_id="ann", decision_id="d", max_calls_per_turn=1
    )
    return judged.disposition


def an_object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def a_list(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


TEXT = {"type": "string"}
MAIL = an_object(
    body=an_object(
        Message=an_object(
            subject=TEXT,
            body=an_object(contentType=TEXT, content=TEXT),
            toRecipients=a_list(an_object(emailAddress=an_object(address=TEXT, name=TEXT))),
        )
    )
)
BLOCKS = {
    **an_object(block_id=TEXT, children=a_list({"$ref": "#/$defs/block"})),
    "$defs": {
        "block": an_object(
            type=TEXT,
            paragraph=an_object(
                rich_text=a_list(an_object(text=an_object(content=TEXT, link=an_object(url=TEXT)))),
                children=a_list({"$ref": "#/$defs/block"}),
            ),
        )
    },
}


def mail(content: str) -> dict[str, Any]:
    recipients = [{"emailAddress": {"address": "ann@example.org", "name": "Ann"}}]
    message = {"subject": "a", "body": {"contentType": "text", "content": content}, "toRecipients": recipients}
    return {"body": {"Message": message}}


def paragraph(levels: int, **more: Any) -> dict[str, Any]:
    words = [{"text": {"content": "hello", "link": {"url": "https://a.example"}, **more}}]
    below = {"children": [paragraph(levels - 1, **more)]} if levels else {}
    return {"type": "paragraph", "paragraph": {"rich_text": words, **below}}


@pytest.mark.parametrize("words", [10, 15_000])
def test_a_mail_of_microsoft_graph_can_be_written(words: int) -> None:
    assert verdict(MAIL, mail("x" * words)) is CallDisposition.EXECUTED


@pytest.mark.parametrize("levels", [0, 1, 2])
def test_a_paragraph_of_notion_can_be_written_with_blocks_below_it(levels: int) -> None:
    assert verdict(BLOCKS, {"block_id": "7", "children": [paragraph(levels)]}) is CallDisposition.EXECUTED
    assert verdict(BLOCKS, {"block_id": "7", "children": [paragraph(levels, user_id="bob")]}) is CallDisposition.REFUSED
    assert verdict(BLOCKS, {"block_id": "7", "children": [paragraph(levels, color="red")]}) is CallDisposition.REFUSED


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {"a": 1}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


def test_arguments_have_at_most_so_many_levels() -> None:
    anything = {"type": "object", "additionalProperties": True}
    assert verdict(anything, nested(MAX_ARGUMENT_DEPTH)) is CallDisposition.EXECUTED
    assert verdict(anything, nested(MAX_ARGUMENT_DEPTH + 1)) is CallDisposition.REFUSED
    assert verdict(anything, nested(500)) is CallDisposition.REFUSED


def test_the_check_of_deep_arguments_is_refused_where_it_could_take_too_long() -> None:
    """Each level of this schema has three alternatives, so that the cost grows threefold with it."""
    tree = {"type": "object", "properties": {"a": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}, {"$ref": "#"}]}}}
    check = ArgumentCheck(json.dumps(tree))
    assert check.first_issue(nested(4)) is not None
    with pytest.raises(CheckTooExpensiveError):
        check.first_issue({**nested(MAX_ARGUMENT_DEPTH), "b": "x" * (MAX_ARGUMENT_BYTES // 2)})


def test_a_long_chain_of_references_is_refused_and_ends_nothing_else() -> None:
    chain = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(3_000)}
    with pytest.raises(SchemaRefusedError, match="too often"):
        ArgumentCheck(json.dumps({"type": "object", "$ref": "#/$defs/d0", "$defs": {**chain, "d3000": {}}}))
