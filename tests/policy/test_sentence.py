"""The grammar of sentences, and their check against the tool when a constitution is loaded."""

from __future__ import annotations

from typing import Any

import pytest

from graph_agent.errors import ConstitutionError, ToolGrantError
from graph_agent.models.llm import ToolDeclaration
from graph_agent.models.tools import ToolTraits, Transport
from graph_agent.policy.compiled import CompiledPolicy, compile_policy
from graph_agent.policy.constitution import Constitution, grant_line
from graph_agent.words.said import in_line, say

FACTS = """
## Facts
- loan_record: find_loan(loan = arguments.loan)
- newest: last find_loan
- items: list_loans() $.loans[*].item
"""
SCHEMA = {
    "type": "object",
    "properties": {
        "loan": {"type": "integer"},
        "due": {"type": "string", "format": "date"},
        "amount": {"anyOf": [{"type": "number"}, {"type": "string", "pattern": "^[0-9.]+$"}]},
        "why": {"type": "string"},
        "condition": {"type": "string", "default": "used"},
        "address": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
    "required": ["loan", "due", "amount", "address"],
}
LOAN = {"type": "object", "properties": {"loan": {"type": "integer"}}, "required": ["loan"]}


def policy(sentence: str, markers: str = "(requires confirmation)", **traits: Any) -> CompiledPolicy:
    text = (
        f'## Available Tools\n- find_loan: Find (reads)\n- list_loans: List (reads)\n- extend: "{sentence}" {markers}\n{FACTS}'
    )
    tools = [
        ToolDeclaration(name=name, description="", parameters=schema)
        for name, schema in (("find_loan", LOAN), ("list_loans", {"type": "object"}), ("extend", SCHEMA))
    ]
    return compile_policy(Constitution.parse(text), tools, {"extend": ToolTraits(**traits)})


@pytest.mark.parametrize(
    "sentence",
    [
        "Extend {loan_record.item or loan} until {due}[ (was {loan_record.due})]",
        "Charge {amount as EUR} for loan {arguments.loan}[: {why}]",
        "Charge {amount as EUR/100} in {address.city}, {condition}",
        "Say {{braces}} and [[brackets]] of {due}",
    ],
)
def test_a_sentence_may_say_what_every_call_has_and_in_brackets_what_it_may_have(sentence: str) -> None:
    assert policy(sentence).rules["extend"].grant.sentence is not None


@pytest.mark.parametrize(
    ("sentence", "problem"),
    [
        ("Extend {lone}", "the sentence of the tool 'extend' says {lone}, and the call has no such argument"),
        ("Go to {address.street}", "says {address.street}, which a call may leave out: put it in [...], or add ` or ARGUMENT`"),
        ("Charge it: {why}", "says {why}, which a call may leave out: put it in [...], or add ` or ARGUMENT`"),
        ("Extend {loan_record.item}", "says {loan_record.item}, which may not be known: put it in [...]"),
        ("Extend {loan_record.item or why}", "says 'why' where another value is not known, and a call may leave that out too"),
        ("Extend {loan_record.item or lone}", "names 'lone', and that is no argument of the call"),
        ("Charge {condition as EUR}", "says {condition} as EUR, and that is no number"),
        ("Delete[ {preview}]", "says {preview}, and the server of the tool describes no object"),
    ],
)
def test_a_sentence_that_does_not_fit_the_tool_is_refused_with_its_line(sentence: str, problem: str) -> None:
    with pytest.raises(ToolGrantError) as refused:
        policy(sentence)
    assert str(refused.value).startswith("constitution, line 4: the sentence of the tool 'extend' ")
    assert problem in str(refused.value)


def test_an_application_may_bind_a_tool_of_other_arguments_which_the_brackets_then_leave_out() -> None:
    line = '## Available Tools\n- add_task: "Add task[ {description}]"\n'
    tool = ToolDeclaration(name="add_task", description="", parameters={"properties": {"title": {"type": "string"}}})
    rules = compile_policy(Constitution.parse(line), [tool], {}).rules
    assert in_line(say(rules["add_task"], {"title": "call mom"})) == "Add task (title 'call mom')"
    of_server = {"add_task": ToolTraits(transport=Transport.STDIO)}
    with pytest.raises(ToolGrantError, match=r"says \{description\}, and the call has no such argument"):
        compile_policy(Constitution.parse(line), [tool], of_server)


@pytest.mark.parametrize(
    ("sentence", "problem"),
    [
        ("List {all items}", "'{all items}' is no value of a call"),
        ("Ask {}", "'{}' is no value of a call"),
        ("List [all] items", "'[all]' has no value: write [[ and ]] for brackets"),
        ("Close } it", "'}' closes or opens nothing: write '}}' for the character itself"),
        ("Open [ it {due}", "'[' is not closed"),
        ("Nest [ {due} [ {due} ] ]", "'[' closes or opens nothing"),
        ("Extend[ {newest.item}]", "the sentence names 'newest', and that is not what one read of a call finds"),
        ("Extend[ {items}]", "a sentence says one value, and '{items}' is none"),
        ("Extend[ {loan_record}]", "'{loan_record}' is a whole object: say a part of it, {loan_record.NAME}"),
        ("Extend {arguments}", "names no argument: write {arguments.NAME}"),
    ],
)
def test_braces_and_brackets_that_are_no_value_fail_loudly(sentence: str, problem: str) -> None:
    with pytest.raises(ConstitutionError) as refused:
        policy(sentence)
    assert refused.value.line == 4
    assert problem in str(refused.value)


def test_a_read_for_a_sentence_is_one_of_a_tool_that_only_reads_and_is_trusted() -> None:
    text = (
        "## Available Tools\n- find_loan: Find (without confirmation)\n"
        '- extend: "Extend[ {record.item}]" (requires confirmation)\n'
        "\n## Facts\n- record: find_loan(loan = arguments.loan)\n"
    )
    tools = [ToolDeclaration(name=name, description="", parameters=LOAN) for name in ("find_loan", "extend")]
    with pytest.raises(ToolGrantError, match="which may change something: its line needs"):
        compile_policy(Constitution.parse(text), tools, {"find_loan": ToolTraits()})
    text = text.replace("(without confirmation)", "(reads)")
    servers = {"find_loan": "theirs", "extend": "ours"}
    with pytest.raises(ToolGrantError, match="whose server is another one and not trusted"):
        compile_policy(Constitution.parse(text), tools, {"find_loan": ToolTraits(untrusted=True)}, servers=servers)
    assert "record" in compile_policy(Constitution.parse(text), tools, {}).rules["extend"].grant.facts


def test_a_name_that_is_an_argument_and_a_fact_is_refused() -> None:
    lines = '- find_loan: Find (reads)\n- extend: "Extend[ {loan.item}]"\n'
    text = f"## Available Tools\n{lines}\n## Facts\n- loan: find_loan(loan = arguments.loan)\n"
    tools = [ToolDeclaration(name=name, description="", parameters=LOAN) for name in ("find_loan", "extend")]
    with pytest.raises(ToolGrantError, match=r"'loan' is an argument too: write \{arguments.loan\}, or rename the fact"):
        compile_policy(Constitution.parse(text), tools, {})


def test_a_line_that_is_drafted_from_a_servers_words_says_its_braces() -> None:
    line = grant_line("greet", "Say {hello} to [all]")
    (grant,) = Constitution.parse(f"## Available Tools\n{line}\n").grants
    assert grant.title == "Say {hello} to [all]"


def test_the_title_of_a_sentence_is_its_words() -> None:
    (_, _, grant) = policy("Extend {loan_record.item or loan} until {due}[ (was {loan_record.due})]").constitution.grants
    assert grant.title == "Extend … until …"
