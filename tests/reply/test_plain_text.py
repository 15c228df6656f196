"""Plain text is an answer, or a question if its last sentence ends with a question mark."""

from __future__ import annotations

import sys
import unicodedata

import pytest

from graph_agent.reply.plain_text import QUESTION_MARKS, is_question
from tests.scaling import grows_with_length


@pytest.mark.parametrize(
    "text",
    [
        "Which one?",
        "I found two. Which one did you mean?",
        "Which one?  \n\n",
        "Which one?!",
        "Which one?…",
        "**Which one?**",
        '"Which one?"',
        "(Which one?)",
        "„Welche Aufgabe?“",
        "« Laquelle ? »",
        "Which one? 🤔",
        "Which one?\n😊",
        "🤔 Which one?",
        "Which one? ❤\ufe0f",
        "Which one?\n- buy milk\n- buy bread",
        "Which one?\n\n* buy milk\n* buy bread\n",
        "Which one?\n1. buy milk\n2. buy bread.",
        "Which one?\n1) buy milk\n2) is it done?",
        "Which one?\na) buy milk\nb) buy bread",
        "Which one?\n(a) buy milk\n(b) buy bread",
        "Which one?\n1\ufe0f\u20e3 milk\n2\ufe0f\u20e3 bread",
        "Which one?\n☐ milk\n☐ bread",
        "Which one?\n🍎 apples\n🍌 bananas",
        "Which one? (milk or bread)",
        "Which one? (a) milk (b) bread",
        "Which one? 1) milk 2) bread",
        "- Which one?",
        "1. Which one?",
        "¿Cuál de las dos?",
        "どのタスクですか？",
        "أي مهمة تقصد؟",
        "Ποια εργασία εννοείς;",
        "Ποια εργασία εννοείς\u037e",
        "Ո՞ր առաջադրանքը։",
        "የትኛው ፧",
        "Which one⁇",
        "Which one‽",
        "Which one⸮",
        "ꕉꕜ꘏",
        "ꚠꚡ꛷",
    ],
)
def test_a_text_that_ends_with_a_question_is_one(text: str) -> None:
    assert is_question(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "...",
        "😊",
        "I've added milk.",
        "Tell me which one you mean.",
        "Which one? Please tell me.",
        "Which one?\nPlease tell me.",
        'I\'ve added "which one?" to your list.',
        "Your tasks:\n- buy milk?\n- call mom",
        "Your tasks: buy milk; call mom;",
        "Done? Yes (as you asked) and closed.",
        "Really? It is done.\n🎉 All done.",
        "Ո՞ր առաջադրանքը։ Ահա այն։",
        "¿",
        "a = b ? c : d",
    ],
)
def test_any_other_text_is_an_answer(text: str) -> None:
    assert not is_question(text)


def test_every_question_mark_of_unicode_is_known() -> None:
    begins = ("INVERTED", "INITIAL")
    names = {char: unicodedata.name(char, "") for char in map(chr, range(sys.maxunicode + 1))}
    marks = {
        char
        for char, name in names.items()
        if name.endswith(("QUESTION MARK", "INTERROBANG", "QUESTION EXCLAMATION MARK"))
        and unicodedata.category(char) == "Po"
        and not any(word in name for word in begins)
    }
    assert marks | set("\u2753\u2754") == QUESTION_MARKS


@pytest.mark.parametrize("mark", sorted(QUESTION_MARKS - {"\u055e"}))
def test_each_question_mark_ends_a_question(mark: str) -> None:
    assert is_question(f"abc{mark}")
    assert is_question(f"It is done. abc {mark}”")
    assert not is_question(f"abc{mark} It is done.")


@pytest.mark.parametrize(
    "unit",
    [
        "…",
        "?",
        "? ",
        "?a",
        "? (",
        "(a) ",
        "1. ",
        "- x?\n",
        "\n",
        "😊",
        "😊 x\n",
        "՞",
        "՞։",
        "α;",
        "; ",
        "“",
        "x",
        "((",
        "? 1) ",
        "»\n",
    ],
)
def test_the_work_grows_in_proportion_to_the_length(unit: str) -> None:
    assert grows_with_length(is_question, lambda length: unit * (length // len(unit)), 32_000)
    assert grows_with_length(is_question, lambda length: "Which one?" + unit * (length // len(unit)), 32_000)
