"""Words in a summary that could be meant as a restriction although they are not a marker of the constitution's grammar.

A line such as `- delete_task: Remove tasks, ask first` would otherwise grant the tool without confirmation. Every such word is
an error, even if it is harmless: the operator can put the summary in double quotes, where no word is a marker. The words are in
`marker_words.txt`.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from rapidfuzz.distance import OSA

from graph_agent.policy.word_lists import read_word_lists

_MISSPELT = {"misspelt by one letter": 1, "misspelt by two letters": 2}
_NOT_MISSPELT = "not misspelt"

_SAME_AS = str.maketrans({"'": "", "’": "", "ł": "l", "ı": "i", "ø": "o", "ß": "ss", "æ": "ae"})


def find_marker_word(summary: str) -> str | None:
    """Return the first word or phrase of `summary` that could be meant as a restriction, or None."""
    text = _folded(summary)
    # Words that are split: "con-firm", "o.k.", "n e v e r".
    joined = _folded(re.sub(r"(?<=\w)[^\w\s](?=\w)", "", summary))
    spelled = re.sub(r"\b(\w) (?=\w\b)", r"\1", text)
    return next((found for variant in (text, joined, spelled) if (found := _find(variant)) is not None), None)


def _find(text: str) -> str | None:
    if found := _pattern().search(text):
        return found.group()
    return next((word for word in text.split() if _is_misspelt(word)), None)


def _is_misspelt(word: str) -> bool:
    lists = read_word_lists("marker_words.txt")
    return word not in lists[_NOT_MISSPELT] and any(
        OSA.distance(word, known) <= limit for section, limit in _MISSPELT.items() for known in lists[section]
    )


def _folded(text: str) -> str:
    """Return the words of `text` in lower case, without accents and punctuation, separated by single spaces."""
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    letters = "".join(char for char in decomposed if not unicodedata.combining(char)).translate(_SAME_AS)
    return " ".join(re.findall(r"\w+", letters))


@cache
def _pattern() -> re.Pattern[str]:
    """Return the pattern of any listed phrase. A star stands for the rest of a word, three dots for up to three words."""
    sections = read_word_lists("marker_words.txt").items()
    phrases = [phrase for name, listed in sections if name not in (*_MISSPELT, _NOT_MISSPELT) for phrase in listed]
    patterns = (re.escape(phrase).replace(r"\*", r"\w*").replace(r"\ \.\.\.\ ", r" (?:\w+ ){0,3}") for phrase in phrases)
    return re.compile(rf"\b(?:{'|'.join(patterns)})\b")
