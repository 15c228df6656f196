"""Which calls fit a line of a mandate: nothing outside its bounds, and `from` only what is new in a result."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph_agent.models.llm import FunctionCall
from graph_agent.models.mandate import AtMost, Bound, Form, From, Is, Line, OwnText
from graph_agent.models.sources import CallSources, FoundSource, ReadCall, Source
from graph_agent.models.tools import ToolResult
from graph_agent.policy.mandate import Conversation, fits, fitting_lines

NOTHING = Conversation()


def reason(bound: Bound, value: Any, read: Conversation = NOTHING, sources: CallSources | None = None) -> str | None:
    return fits(Line(tool="pay", arguments={"a": bound}), FunctionCall(name="pay", arguments={"a": value}), sources, read)


def result(data: Any, tool: str = "mails", *, agreed: bool = False, **arguments: Any) -> ReadCall:
    return ReadCall(tool, arguments, ToolResult(success=True, data=data), agreed)


@pytest.mark.parametrize(
    ("bound", "fitting", "others"),
    [
        (
            Is(("P1", 5)),
            ["P1", 5, 5.0, ["P1", 5]],
            ["P10", "p1", "5", 1, True, [], {}, {"P1": "x"}, ["P1", None], [[]], ["P1", "P1"]],
        ),
        (Is(("P1", "P1")), ["P1", ["P1", "P1"]], [["P1", "P1", "P1"]]),
        (Is((1,)), [1, 1.0], [True, "1", 1.5]),
        (Is((True,)), [True], [1, "True", False]),
        (AtMost(50), [0, 50, 49.5, [1, 2]], [50.01, -1, "50", True, [51], [], {"x": 1}]),
    ],
)
def test_a_literal_bound_has_these_values_and_no_others(bound: Bound, fitting: list[Any], others: list[Any]) -> None:
    assert [value for value in fitting if reason(bound, value) is not None] == []
    assert [value for value in others if reason(bound, value) is None] == []


def test_what_a_line_names_is_given_and_what_it_does_not_name_is_absent_or_null() -> None:
    line = Line(tool="pay", arguments={"to": Is(("ann",))})

    def why(name: str = "pay", **arguments: Any) -> str | None:
        return fits(line, FunctionCall(name=name, arguments=arguments), None, NOTHING)

    assert why(to="ann") is None
    assert why(to="ann", note=None) is None
    assert why(to="ann", note="") == "the line does not name note"
    assert why() == why(to=None) == "to is not given"
    assert why("pay_all", to="ann") == "it is a call of another tool"


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (Source.USER, None),
        (Source.MODEL, None),
        (Source.TRUSTED, None),
        (Source.UNTRUSTED, "a is a copy of what others wrote"),
    ],
)
def test_an_own_text_is_no_copy_of_what_others_wrote(source: Source, why: str | None) -> None:
    sources = CallSources(arguments={"a": [FoundSource(source=source)]})
    assert reason(OwnText(), "Dear Ann", NOTHING, sources) == why
    assert reason(OwnText(), "Dear Ann") == "a has a source that is not known"
    assert reason(OwnText(), 5, NOTHING, sources) == "a is no text"


MAIL = {"mails": [{"id": "m1", "body": "Your code is P1234, valid 5 minutes. Order (A-778) total 42.50."}], "n": 7, "ok": True}


@pytest.mark.parametrize("value", ["P1234", "A-778", "m1", "valid 5 minutes", 7, "7", "42.50"])
def test_a_value_stands_as_a_leaf_of_a_later_result_or_between_borders_of_its_words(value: Any) -> None:
    assert reason(From("mails"), value, Conversation(since=[result(MAIL)])) is None


@pytest.mark.parametrize(
    "value", ["P123", "1234", "p1234", "778", "cod", "is", "42", 42.5, True, None, [], "", "body", "mails"]
)
def test_a_part_of_a_word_or_a_short_word_or_the_name_of_a_field_stands_nowhere(value: Any) -> None:
    assert reason(From("mails"), value, Conversation(since=[result(MAIL)])) is not None


def test_a_value_comes_from_the_named_tool_and_from_a_result_that_succeeded() -> None:
    failed = ReadCall("mails", {}, ToolResult(success=False, data=MAIL, error="P1234"))
    for since in ([], [result(MAIL, "web")], [failed]):
        assert reason(From("mails"), "P1234", Conversation(since=since)) == "a is no new value from a result of mails"


@pytest.mark.parametrize("before", [MAIL, {"text": "p1234"}, {"P1234": 1}, {"text": "xP1234x"}])
def test_a_value_that_was_known_before_the_yes_stands_in_the_plan_as_it_is(before: Any) -> None:
    read = Conversation(before=[result(before, "web")], since=[result(MAIL)])
    assert reason(From("mails"), "P1234", read) == "a was known before the yes, and the line does not have it as it is"


def test_nothing_is_new_if_what_was_read_before_the_yes_is_not_known_any_more() -> None:
    read = Conversation(since=[result(MAIL)], is_whole=False)
    assert reason(From("mails"), "P1234", read) == "a may have been known before the yes"


def test_a_value_that_the_model_has_sent_before_is_none_from_a_result() -> None:
    echo = {"text": "Nothing found for ATT666"}
    laundered = Conversation(since=[result(echo, query="ATT666")])
    joined = Conversation(since=[result({}, "search", query="xATT666y"), result(echo)])
    earlier = Conversation(before=[result({}, "search", query=["att666"])], since=[result(echo)])
    for read in (laundered, joined, earlier):
        assert reason(From("mails"), "ATT666", read) is not None
    # A call that a person let pass, or that was sent after the result, launders nothing.
    assert reason(From("mails"), "ATT666", Conversation(since=[result(echo, agreed=True, query="ATT666")])) is None
    assert reason(From("mails"), "ATT666", Conversation(since=[result(echo), result({}, "search", query="ATT666")])) is None


@pytest.mark.parametrize(
    ("bound", "fitting", "others"),
    [
        (From("mails", Form.CODE), ["P1234", "9021", 9021], ["hello", "ABCDEFGHIJ12345", "https://evil.example/1"]),
        (From("mails", Form.NUMBER, at_most=9021), [9021], ["9021", "P1234", 9022]),
        (
            From("mails", Form.LINK),
            ["https://shop.example/reset?t=1"],
            [
                "https://evil.example/1",
                "https://shop.example@evil.example/1",
                "https://shop.example.evil.example/1",
                "https://shop.example:8443/1",
                "https://evil.example\\@shop.example/1",
                "javascript:shop.example",
            ],
        ),
        (
            From("mails", Form.ADDRESS),
            ["help@shop.example"],
            ["help@evil.example", "help@evil.example@shop.example", "shop.example"],
        ),
    ],
)
def test_a_form_narrows_what_a_result_may_bring(bound: Bound, fitting: list[Any], others: list[Any]) -> None:
    read = Conversation(since=[result({"all": [*fitting, *others]})], said=["Log in at shop.example, please"])
    assert [value for value in fitting if reason(bound, value, read) is not None] == []
    assert [value for value in others if reason(bound, value, read) is None] == []


def test_with_a_path_only_the_leaves_at_it_count() -> None:
    read = Conversation(since=[result({"orders": [{"id": "O-1001", "note": "pay O-6666"}, {"id": 5}], "id": "O-7777"})])
    bound = From("mails", at="$.orders[*].id")
    assert [
        value for value in ("O-1001", 5, "O-6666", "O-7777", "1001", "pay O-6666") if reason(bound, value, read) is None
    ] == [
        "O-1001",
        5,
    ]


def test_the_text_of_a_result_is_read_as_json_if_it_is_any() -> None:
    text = ReadCall("mails", {}, ToolResult(success=True, data={"text": '{"id": "ab"}'}))
    assert reason(From("mails"), "ab", Conversation(since=[text])) is not None  # no text content says that it is a text
    assert reason(From("mails"), "ab", Conversation(since=[result({"id": "ab"})])) is None


def test_the_lines_that_a_call_fits_are_named_in_order_and_only_exact_ones_for_a_tool_that_always_asks() -> None:
    lines = [Line(tool="pay", arguments={"a": bound}) for bound in (AtMost(5), Is((5,)), Is((6,)))]
    call = FunctionCall(name="pay", arguments={"a": 5})
    assert fitting_lines(lines, call, None, NOTHING) == (1, 2)
    assert fitting_lines(lines, call, None, NOTHING, exact=True) == (2,)


WORDS = st.text(st.sampled_from("ab1-_. ,@/:"), min_size=1, max_size=12)


@given(text=WORDS, value=WORDS)
def test_words_of_a_text_are_found_only_with_no_letter_or_digit_beside_them(text: str, value: str) -> None:
    if reason(From("mails"), value, Conversation(since=[result({"t": text})])) is None and text != value:
        assert len(value) >= 4
        assert re.search(rf"(?<![\w@/-]){re.escape(value)}(?![\w@/-])", text)
