"""The reply classifier: the labelled file as a whole, the cases that must never be wrong one by one."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.reply_kinds import Judged, accuracy, judge
from graph_agent.reply.phrases import MOVES, english, further_latin, further_scripts, germanic, romance, slavic
from graph_agent.reply.plain_text import ReplyKind, classify_reply
from tests.growth import grows_with_length

ANSWER = ReplyKind("answer")
REFUSAL = ReplyKind("refusal")


def asks(reason: str) -> ReplyKind:
    return ReplyKind("clarification", reason)  # type: ignore[arg-type]  # a test's own literal


@pytest.fixture(scope="module")
def judged() -> list[Judged]:
    return judge()


def test_at_least_95_percent_of_the_labelled_replies_have_the_right_kind(judged: list[Judged]) -> None:
    assert len(judged) >= 400
    assert accuracy(judged) >= 0.95, [reply.text for reply in judged if not reply.right]


@pytest.mark.parametrize("kind", ["answer", "clarification", "refusal"])
@pytest.mark.parametrize("part", ["rules", "held_out"])
def test_every_kind_is_right_95_times_in_100_in_both_parts(judged: list[Judged], kind: str, part: str) -> None:
    group = [reply for reply in judged if reply.kind == kind and reply.part == part]
    assert len(group) >= 50
    assert accuracy(group) >= 0.95


def test_four_in_five_clarifications_have_the_right_reason(judged: list[Judged]) -> None:
    asked = [reply for reply in judged if reply.kind == "clarification" and reply.right]
    assert sum(reply.right_reason for reply in asked) / len(asked) >= 0.8


def test_the_labelled_file_is_well_formed(judged: list[Judged]) -> None:
    assert Counter(reply.text for reply in judged).most_common(1)[0][1] == 1
    assert {(reply.kind == "clarification") == (reply.reason is not None) for reply in judged} == {True}
    held_out = [reply for reply in judged if reply.part == "held_out"]
    assert len(held_out) * 3 >= len(judged)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Hello! How can I help you today?", ANSWER),
        ("Done! Anything else?", ANSWER),
        ("Here are your tasks:\n1. buy milk\n2. call mom\nWant me to mark any as done?", ANSWER),
        ("I couldn't find that task.", ANSWER),
        ("I couldn't delete it because it no longer exists.", ANSWER),
        ("Added 'ask bob: what time?'", ANSWER),
        ("Which one did you mean: 1. buy milk 2. buy oat milk?", asks("multiple_matches")),
        ("What should the task say?", asks("missing_context")),
        ("I can't find a task called X. Which task did you mean?", asks("missing_context")),
        ("Do you want to add it or find it?", asks("unclear_intent")),
        ("I'm sorry, I can only help with task management. Would you like to add a task?", REFUSAL),
    ],
)
def test_the_cases_everything_else_is_measured_by(text: str, kind: ReplyKind) -> None:
    assert classify_reply(text) == kind


@pytest.mark.parametrize(
    "text",
    [
        "**Which task did you mean?**",
        '"Which task did you mean?"',
        "> Which task did you mean?",
        "## Which task did you mean?",
        "Which task did you mean? 🤔",
        "Which task did you mean?!",
        "Which task did you mean\uff1f",
        "WHICH TASK DID YOU MEAN?",
        "  \n\nWhich task did you mean?\n\n  ",
    ],
)
def test_decoration_does_not_hide_a_question(text: str) -> None:
    assert classify_reply(text).kind == "clarification"


@pytest.mark.parametrize("opening", ['"', "“", "«", "`", "'", "**"])
def test_a_question_inside_a_task_is_nobodys_question(opening: str) -> None:
    closing = {"“": "”", "«": "»"}.get(opening, opening)
    assert classify_reply(f"I've added {opening}Which task did you mean?{closing} to your list.") == ANSWER


def test_typographic_apostrophes_read_like_plain_ones() -> None:
    assert classify_reply("I’m sorry, I can’t help with that.") == REFUSAL


def test_something_done_outweighs_a_limit() -> None:
    assert classify_reply("I can't set an alarm, but I've added 'wake up' to your list.") == ANSWER


def test_the_question_at_the_end_of_a_very_long_reply_is_still_read() -> None:
    filling = "Here is one more thought about the garden and the weather. " * 2_000
    assert classify_reply(f"{filling}\nWhich task did you mean?").kind == "clarification"


@pytest.mark.parametrize("text", ["", " ", "\n", "?", "...", "👍", "¿", "```", "- ", "**"])
def test_nothing_said_is_no_question_and_no_refusal(text: str) -> None:
    assert classify_reply(text).kind != "refusal"


def test_every_phrase_belongs_to_a_move_that_is_explained() -> None:
    families = (english, germanic, romance, slavic, further_latin, further_scripts)
    used = {move for family in families for moves in family.PHRASES.values() for move in moves}
    assert used == set(MOVES)


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=300))
def test_any_text_has_a_kind(text: str) -> None:
    found = classify_reply(text)
    assert (found.reason is not None) == (found.kind == "clarification")


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.sampled_from(["I can't ", "which ", "task", "? ", "! ", "\n- ", "'", '"', "**", "`", "Done", " or ", "1. "]))
)
def test_any_shuffle_of_what_the_rules_look_for_has_a_kind(parts: list[str]) -> None:
    assert classify_reply("".join(parts)).kind in {"answer", "clarification", "refusal"}


@pytest.mark.parametrize(
    "unit", ["a", "? ", "1. ", "'", '"', "**a", "`", "i am ", "or ", "what would you ", "\n- x", "(", "not ", "the list "]
)
def test_a_hundred_kilobytes_are_read_in_proportion_to_their_length(unit: str) -> None:
    assert grows_with_length(classify_reply, lambda length: unit * (length // len(unit)), 100_000)
