"""Text that people read: a model's reply, one line, and a text in quotes."""

from __future__ import annotations

import re
import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_agent.reply.text import HIDDEN, MAX_REPLY_CHARS, clean_reply, one_line, quoted, visible
from tests.examples import examples
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
        ("tab\tkept, bell\x07 and null\x00 not", "tab\tkept, bell‹U+0007› and null‹U+0000› not"),
        ("\x1b[31mred\x1b[0m and \x1b]0;title\x07done", "red and done"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\u202eevil\u202c \u2066x\u2069 \u200fy", "‹U+202E›evil‹U+202C› ‹U+2066›x‹U+2069› ‹U+200F›y"),
        ("zero\u200bwidth\ufeff soft\u00adhyphen", "zero‹U+200B›width‹U+FEFF› soft‹U+00AD›hyphen"),
        ("tags\U000e0041\U000e0042 and selectors\U000e0101\ufe01", "tags‹U+E0041›‹U+E0042› and selectors‹U+E0101›‹U+FE01›"),
        ("lone \ud800 surrogate", "lone ‹U+D800› surrogate"),
        ("blank \u3164\u115f\u1160\uffa0\u2800", "blank ‹U+3164›‹U+115F›‹U+1160›‹U+FFA0›‹U+2800›"),
        ("\u200b" * 5000 + "x", "‹U+200B×5000›x"),
        ("\u200b \u202e\n\x00", ""),
        ("Grüße, 你好, مرحبا, नमस्ते", "Grüße, 你好, مرحبا, नमस्ते"),
    ],
)
def test_what_could_fool_a_screen_is_shown(text: str, shown: str) -> None:
    assert clean_reply(text, NAMES) == shown


@pytest.mark.parametrize(
    "text",
    [
        *["👨\u200d👩\u200d👧", "❤\ufe0f\u200d🔥", "👍🏽", "🏳\ufe0f\u200d🌈", "✔\ufe0f done", "1\ufe0f\u20e3"],
        "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",  # England
        "می\u200cخواهم",  # Persian
        "क\u094d\u200dष र\u200d\u094dय അവന\u0d4d\u200d.",  # Hindi, Bengali, Malayalam
        "ភាសា\u200bខ្មែរ",  # Khmer has a zero-width space between words
    ],
)
def test_joiners_stay_where_they_join(text: str) -> None:
    assert clean_reply(text, NAMES) == text
    assert quoted(text) == f"'{text}'"


@pytest.mark.parametrize(
    "text",
    [
        *["a\u200db", "a\u200cb", "a\u200bb", "1\u200d2", "👍\u200da", "\u200d👍", "a\ufe0f", "👍\ufe0f\ufe0f", "1\ufe0f"],
        *["می\u200c", "م\u200dی", "م\u200c\u200cی", "🏴\U000e0067\U000e0062\U000e007f", "न \u200d"],
    ],
)
def test_a_joiner_that_joins_nothing_is_shown(text: str) -> None:
    assert "‹U+" in visible(text)


def test_a_joiner_between_letters_cannot_hide_a_name() -> None:
    assert clean_reply("I called add\u200d_task.", NAMES) == "I called add‹U+200D›_task."


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
    assert clean_reply("add_task\x00", ()) == "add_task‹U+0000›"
    assert clean_reply("a", ("", "_")) == "a"


def test_long_text_is_cut_at_a_word() -> None:
    shown = clean_reply("word " * 10_000, NAMES)
    assert len(shown) <= MAX_REPLY_CHARS
    assert shown.endswith("word…")
    assert len(clean_reply("x" * 10_000, NAMES)) == MAX_REPLY_CHARS


PIECES = st.sampled_from(
    [*"(){}[]=:\\ x\n\"'", "ask_user", "decline", "add_task", "question", "name", "```", "<ask_user>", "</ask_user>", "print("]
).flatmap(lambda piece: st.sampled_from([piece, "default_api.", "\x1b[", "\u200d", "👍", "\ufe0f", "1e999", "\ud800"]))


@settings(max_examples=examples(250), deadline=None)
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


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("call mom", "'call mom'"),
        ("mom's cake", "'mom's cake'"),
        ("x' and deleted 'y", "\"x' and deleted 'y\""),
        ('x\' and "y"', '"x\' and ‹U+0022›y‹U+0022›"'),
        ("a\r\nb\u2028c", "'a‹U+000D›‹U+000A›b‹U+2028›c'"),
        ("a  b   c", "'a ‹U+0020›b ‹U+0020×2›c'"),
        ("\x1b[31mred", "'‹U+001B›[31mred'"),
        ("\U000e0041\U000e0042", "'‹U+E0041›‹U+E0042›'"),
        ("typed ‹U+202E›", "'typed ‹U+2039›U+202E›'"),
        ("é" * 1000, f"'{'é' * 1000}'"),
        ("é" * 1001, f"'{'é' * 999}… (1,001 characters)'"),
        ("é" * 995 + "\u200b" * 9, f"'{'é' * 995}… (1,004 characters)'"),
    ],
)
def test_a_quoted_text_is_exact_and_cannot_close_its_quotes(text: str, shown: str) -> None:
    assert quoted(text) == shown


HOSTILE = st.text(
    st.one_of(st.characters(), st.sampled_from("‹›U+×20B8'\"\n\t\x1b \u200b\u200c\u200d\u202e\u3164\ufe0f\u2028م👍1न्")),
    max_size=60,
)


def _stored(shown: str) -> str:
    """Return the text that `shown` is the quoted form of."""
    return re.sub(r"‹U\+([0-9A-F]+)(?:×(\d+))?›", lambda code: chr(int(code[1], 16)) * int(code[2] or 1), shown[1:-1])


@given(HOSTILE)
def test_the_stored_text_can_be_read_from_its_quoted_form(text: str) -> None:
    shown = quoted(text, sys.maxsize)
    assert _stored(shown) == text
    assert shown.splitlines() == [shown]
    assert not re.search(r"\s\s|[\x00-\x1f\x7f-\x9f\u202a-\u202e]", shown)
    assert shown[0] == shown[-1]
    assert not re.search(rf"(?<!\w){shown[0]}|{shown[0]}(?!\w)", shown[1:-1])


@given(HOSTILE)
def test_a_text_that_was_made_visible_once_is_not_changed_again(text: str) -> None:
    assert visible(visible(text)) == visible(text)
    receipt = f"added {quoted(text)}"
    assert one_line(receipt, 1000) == receipt


def test_every_invisible_character_of_unicode_is_in_the_table() -> None:
    hidden = re.compile(f"[{HIDDEN}]")
    shaping = set("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd")  # visible signs
    shaping.update(map(chr, range(0x13430, 0x13440)))  # they arrange hieroglyphs
    for char in map(chr, range(sys.maxunicode + 1)):
        category = unicodedata.category(char)
        if char not in shaping and char not in "\n\t" and category in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp"):
            assert hidden.match(char), f"U+{ord(char):04X}"
        if category[0] in "LNPS" and hidden.match(char):
            assert char in "\u115f\u1160\u2800\u3164\uffa0", f"U+{ord(char):04X}"
