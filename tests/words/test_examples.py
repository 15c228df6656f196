"""The example of a sentence that `constitution check` prints."""

from __future__ import annotations

from typing import Any

import pytest

from graph_agent.models.llm import ToolDeclaration
from graph_agent.models.tools import ToolTraits
from graph_agent.policy.compiled import compile_policy
from graph_agent.policy.constitution import Constitution
from graph_agent.words.examples import example_of

LOAN = {"type": "object", "properties": {"loan": {"type": "integer"}}, "required": ["loan"]}


def example(sentence: str, *, preview: bool = False, **properties: Any) -> str:
    text = (
        f'## Available Tools\n- find_loan: Find (reads)\n- act: "{sentence}" (requires confirmation)\n'
        "\n## Facts\n- loan_record: find_loan(loan = arguments.loan)\n"
    )
    declared = {"loan": {"type": "integer"}, **properties}
    schema = {"type": "object", "properties": declared, "required": [*declared]}
    tools = [ToolDeclaration("find_loan", "", LOAN), ToolDeclaration("act", "", schema)]
    return example_of(compile_policy(Constitution.parse(text), tools, {"act": ToolTraits(preview=preview)}).rules["act"])


TEXT = {"type": "string"}
DECIMAL = {"anyOf": [{"type": "number"}, {"type": "string", "pattern": r"^\d+(\.\d+)?$"}]}


@pytest.mark.parametrize(
    ("sentence", "properties", "said"),
    [
        ("Extend {loan_record.item or loan} until {due}", {"due": {"type": "string", "format": "date"}},
         "Extend 'item' until 15 January 2027"),
        ("Charge {amount as EUR}", {"amount": DECIMAL}, "Charge €60.00"),
        ("Charge {amount as EUR/100}", {"amount": {"type": "integer", "examples": [250]}}, "Charge €2.50"),
        ("Charge {amount as EUR}", {"amount": {"type": "string", "pattern": "^[0-9.]+$"}}, "Charge €60.00"),
        ("Send {way} to {mail}", {"way": {"enum": ["letter", "parcel"]}, "mail": {"type": "string", "format": "email"}},
         "Send letter to ann@example.com"),
        ("Note {text}[: {note_text}]", {"text": TEXT, "note_text": {**TEXT, "default": "none yet"}},
         "Note 'text': 'none yet'"),
        ("Move to {address.city}", {"address": {"type": "object", "properties": {"city": TEXT}, "required": ["city"]}},
         "Move to 'city'"),
        ("Add {tags} and {open}", {"tags": {"type": "array", "items": TEXT}, "open": {"type": "boolean"}},
         "Add 'tags' and yes"),
        ("Return it (was {{open}})", {}, ""),
    ],
)  # fmt: skip
def test_an_example_is_said_as_a_call_is(sentence: str, properties: dict[str, Any], said: str) -> None:
    assert example(sentence, **properties) == said


def test_the_description_of_an_object_stands_for_what_its_server_says() -> None:
    assert example("Delete {preview or loan}", preview=True) == "Delete 'what its server describes'"
