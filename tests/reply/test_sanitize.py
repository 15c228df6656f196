"""Cleaning of a model's text before a user reads it."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_agent.reply.sanitize import MAX_REPLY_CHARS, clean_reply
from tests.scaling import grows_with_length

TOOLS = ("add_task", "list_tasks", "update_task", "complete_task", "delete_task")
NAMES = (*TOOLS, "ask_user", "decline")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text stays", "plain text stays"),
        ("  trimmed \n", "trimmed"),
        ("a\r\nb\rc\u2028d\x85e", "a\nb\nc\nd\ne"),
        ("a\n\n\n\n\nb", "a\n\nb"),
        ("tab\tkept, bell\x07 and null\x00 not", "tab\tkept, bell and null not"),
        ("\x1b[31mred\x1b[0m and \x1b]0;title\x07done", "red and done"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\u202eevil\u202c \u2066x\u2069 \u200fy", "evil x y"),
        ("zero\u200bwidth\ufeff soft\u00adhyphen", "zerowidth softhyphen"),
        ("tags\U000e0041\U000e0042 and selectors\U000e0101\ufe01", "tags and selectors"),
        ("lone \ud800 surrogate", "lone  surrogate"),
        ("Grüße, 你好, مرحبا, नमस्ते", "Grüße, 你好, مرحبا, नमस्ते"),
    ],
)
def test_what_could_fool_a_screen_is_taken_out(text: str, shown: str) -> None:
    assert clean_reply(text, NAMES) == shown


@pytest.mark.parametrize(
    "text",
    ["👨\u200d👩\u200d👧", "❤\ufe0f\u200d🔥", "👍🏽", "🏳\ufe0f\u200d🌈", "می\u200cخواهم", "क\u094d\u200dष", "✔\ufe0f done"],
)
def test_joined_emoji_and_scripts_stay_whole(text: str) -> None:
    assert clean_reply(text, NAMES) == text


def test_a_joiner_between_letters_cannot_hide_a_name() -> None:
    assert clean_reply("I called add\u200d_task and del\u200bete_task.", NAMES) == "I called add task and delete task."


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("I used add_task.", "I used add task."),
        ("I used `add_task` for it.", "I used add task for it."),
        ("I used `default_api.add_task` for it.", "I used add task for it."),
        ("The tool add_task() failed.", "The tool add task failed."),
        ("I wrote tool_code for default_api", "I wrote tool code for default api"),
        ("**delete_task** is next", "**delete task** is next"),
        ("ADD_TASK and Add\\_Task", "ADD TASK and Add Task"),
        ("mcp__tasks__list_tasks was called", "list tasks was called"),
        ("I will ask_user first", "I will ask user first"),
        ("add_tasks_now is not a name", "add_tasks_now is not a name"),
        ("I must decline that.", "I must decline that."),
        ("(add_task,delete_task)", "(add task,delete task)"),
    ],
)
def test_hidden_names_become_plain_words(text: str, shown: str) -> None:
    assert clean_reply(text, NAMES) == shown


def test_names_of_other_servers_become_words_too() -> None:
    names = ("createIssue", "repo.search", "get-file", "echo")
    shown = clean_reply("I ran createIssue, `repo.search`, get-file and echo.", names)
    assert shown == "I ran create Issue, repo search, get file and echo."


def test_without_hidden_names_text_is_only_cleaned() -> None:
    assert clean_reply("add_task\x00", ()) == "add_task"
    assert clean_reply("a", ("", "_")) == "a"


def test_long_text_is_cut_at_a_word() -> None:
    shown = clean_reply("word " * 10_000, NAMES)
    assert len(shown) <= MAX_REPLY_CHARS
    assert shown.endswith("word…")
    assert len(clean_reply("x" * 10_000, NAMES)) == MAX_REPLY_CHARS


PIECES = st.sampled_from(
    [*"(){}[]=:\\ x\n\"'", "ask_user", "decline", "add_task", "question", "name", "```", "<ask_user>", "</ask_user>", "print("]
).flatmap(lambda piece: st.sampled_from([piece, "default_api.", "\x1b[", "\u200d", "👍", "\ufe0f", "1e999", "\ud800"]))


@settings(max_examples=250, deadline=None)
@given(st.one_of(st.text(max_size=200), st.lists(PIECES, max_size=60).map("".join)))
def test_no_text_breaks_any_of_it(text: str) -> None:
    shown = clean_reply(text, NAMES)
    assert len(shown) <= MAX_REPLY_CHARS
    assert shown == shown.strip()
    assert not any(unicodedata.category(char) in {"Cc", "Cs"} and char not in "\n\t" for char in shown)
    assert not re.search(r"(?<!\w)(?:add_task|ask_user|default_api)(?!\w)", shown)


@pytest.mark.parametrize("name", TOOLS)
@given(before=st.text(alphabet="ab .,`*(", max_size=6), after=st.text(alphabet=" .,`*)", max_size=6))
@settings(max_examples=50, deadline=None)
def test_a_tool_name_on_its_own_is_always_replaced(name: str, before: str, after: str) -> None:
    text = f"{before} {name}{after}"
    assert name not in clean_reply(text, NAMES)


@pytest.mark.parametrize(
    "unit",
    [
        *[
            "{",
            "(",
            "[",
            "`",
            "'",
            '"',
            " ",
            "\n",
            " \n",
            "```",
            "\x1b]",
            "\u200d",
            '{"a":',
            "add_",
            "add_task ",
            "default_api.",
        ],
        *["…", "\u2028", "<|", "\u200d👍"],
    ],
)
def test_the_work_grows_in_proportion_to_the_length(unit: str) -> None:
    assert grows_with_length(lambda text: clean_reply(text, NAMES), lambda length: unit * (length // len(unit)) + "x", 100_000)
