"""The words by which replies give themselves away: what a sentence does, in which language, by which patterns.

Patterns read the folded text of `reply_sentences`: lower case, no accents, English contractions written out, quotes as `qqq`.
Gaps are bounded, so that a search is linear.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from typing import Final

from graph_agent.reply.phrases import english, further_latin, further_scripts, germanic, romance, slavic

MOVES: Final[dict[str, str]] = {
    "done": "something was done: the sentence reports it",
    "listing": "it shows the list, or says that it is empty",
    "missing": "what was named is not there",
    "failed": "it was tried, or cannot be done as things stand: honest failure, not a refusal",
    "refuse": "it is not done, on principle",
    "aside": "it is not for this assistant",
    "redirect": "leading back to the tasks",
    "limit": "it is not done as things stand, without words or without knowing which: an answer resolves it",
    "lost": "it is not known what was meant",
    "filler": "words that only open or close, or say back what the user said",
    "greeting": "being polite, or talking",
    "offer": "a question that may be left unanswered",
    "more": "about something more, after something was done or shown",
    "pick": "which of them",
    "fill": "a piece is missing: its words, its new words, its time",
    "options": "the options are given in the same breath",
    "details": "what a task is made of",
    "purpose": "what for, at all",
    "choice": "of two things to do, one",
    "fresh": "something new: after a list, an offer",
    "mean": "what is meant",
    "propose": "shall this one thing be done?",
    "request": "asking without a question mark",
    "invite": "keeping a door open",
    "howto": "explaining how to ask for something, one day",
    "several": "several things fit",
}

_OWN_SCRIPTS: Final = "own scripts"
_FAMILIES: Final = (english, germanic, romance, slavic, further_latin, further_scripts)
_WORDS_OF: Final = {
    language: frozenset(words.split()) for family in _FAMILIES for language, words in family.FUNCTION_WORDS.items()
}
_LANGUAGES_WITH: Final = {
    word: tuple(language for language, words in _WORDS_OF.items() if word in words)
    for word in frozenset().union(*_WORDS_OF.values())
}

_WORD: Final = re.compile(r"[a-zøæł']+")

_ANY: Final = ("any language",)
"""A language of its own: one pattern a move for all of them, since most short replies show no language."""


def languages_of(folded: str) -> tuple[str, ...]:
    """The languages whose small words a folded text uses most; all of them where hardly one shows."""
    score = Counter(language for word in _WORD.findall(folded) for language in _LANGUAGES_WITH.get(word, ()))
    best = max(score.values(), default=0)
    if best < 2:
        return _ANY
    return tuple(language for language in _WORDS_OF if score[language] * 5 >= best * 4)


@cache
def _compiled(move: str, language: str) -> re.Pattern[str]:
    """One language's patterns for a move; under `_OWN_SCRIPTS` those of all that no other language can be taken for."""
    patterns = (
        pattern
        for family in _FAMILIES
        for spoken, moves in family.PHRASES.items()
        if _is_spoken(spoken, language)
        for pattern in moves.get(move, ())
    )
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns) or r"(?!)")


def _is_spoken(spoken: str, language: str) -> bool:
    if language == _OWN_SCRIPTS:
        return spoken not in _WORDS_OF
    return spoken in _WORDS_OF if language in _ANY else spoken == language


def does(move: str, text: str, languages: tuple[str, ...]) -> bool:
    """Whether the folded sentence `text` makes this move, a key of `MOVES`, in one of `languages` or in a script of its own."""
    spoken = languages if text.isascii() else (*languages, _OWN_SCRIPTS)
    return any(_compiled(move, language).search(text) is not None for language in spoken)
