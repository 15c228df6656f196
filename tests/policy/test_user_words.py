"""The messages of `user_words.txt`: which values of a call are the user's after something foreign was read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from graph_agent.models.decision import DecisionContext, Message
from graph_agent.models.llm import FunctionCall
from graph_agent.models.sources import EarlierCalls, Source
from graph_agent.policy.sources import SourceFinder
from tests.policy.cedar_shop import ShopTool, policy_of, schema

_VALUE = re.compile(r'(?:(\w+)=)?("(?:[^"\\]|\\.)*"|-?[\d.]+)')
_FILE = Path(__file__).with_name("user_words.txt")


class Case(NamedTuple):
    """A value beside what the user has written."""

    message: str
    name: str
    value: Any
    is_said: bool


def _cases() -> Iterator[Case]:
    for line in _FILE.read_text(encoding="utf-8").splitlines():
        if not line.startswith(("#", "[")) and line:
            message, *groups = line.split(" | ")
            for group in groups:
                for name, text in _VALUE.findall(group[2:]):
                    value = json.loads(text)
                    default = "to" if isinstance(value, str) else "amount"
                    yield Case(message.replace("\\n", "\n"), name or default, value, group[0] == "+")


CASES = list(_cases())
EARLIER = EarlierCalls(tools=["read_page"])


def is_said(value: Any, *messages: str, name: str = "to") -> bool:
    """Return True if a value of a call is the user's, after something foreign was read."""
    kind = "string" if isinstance(value, str) else "number" if name == "amount" else "integer"
    policy = policy_of([ShopTool("pay", schema(**{name: {"type": kind}})), ShopTool("read_page", schema(), reads=True)], None)
    history = [Message(role="user", content=text) for text in messages[:-1]]
    context = DecisionContext(user_id="ann", conversation_id="c", message=messages[-1], message_history=history)
    (found,) = SourceFinder(context, policy, EARLIER).sources([FunctionCall("pay", {name: value})], ()).calls
    return found.labels(name) == [Source.USER]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.message} {case.name}={case.value}")
def test_a_value_is_the_users_if_their_message_gives_it_and_not_if_it_forbids_it(case: Case) -> None:
    assert is_said(case.value, case.message, name=case.name) == case.is_said


GROUPS = ["DE89 3704 0044 0532 0130 00", "NL91 ABNA 0417 1643 00", "+1 (555) 010-9999", "0555 010 99 99", "4111 1111 1111 1111"]


@pytest.mark.parametrize("written", GROUPS)
def test_a_number_in_groups_is_one_value_and_no_part_of_it_is(written: str) -> None:
    plain = re.sub(r"[ ()-]", "", written)
    message = f"Read bill.txt and use {written} for it"
    assert is_said(plain, message)
    assert is_said(written, message)
    assert is_said(written, f"Use {plain} please")
    parts = {plain[start:end] for start in range(len(plain)) for end in range(start + 4, len(plain) + 1)} - {plain}
    assert [part for part in parts if is_said(part, message)] == []
    assert [part for part in parts if part.isdigit() and is_said(int(part), message, name="card")] == []


@pytest.mark.parametrize("number", [4711, "4711", "mallory@evil.org", "Mallory Kerr"])
def test_what_names_something_and_was_forbidden_once_is_asked_about_in_later_messages_too(number: int | str) -> None:
    name = "card" if isinstance(number, int) else "to"
    assert not is_said(number, f"Never use {number}.", f"What is written about {number}?", name=name)
    assert is_said(number, f"Use {number}.", "Never use the other one.", name=name)


def test_a_sum_that_was_refused_in_one_sentence_may_be_given_in_another() -> None:
    assert is_said(500, "I will not pay 500 to Bob.", "Pay 500 to Ann Lee", name="amount")


@pytest.mark.parametrize("name", ["account", "country", "summary_no", "discounted_account", "counter_id"])
def test_a_short_number_is_the_users_only_for_an_argument_whose_name_counts_something_in_a_whole_word(name: str) -> None:
    assert not is_said(12, "Take 12 of them", name=name)
    assert is_said(12, "Take 12 of them", name="itemCount")
