"""A reply as sentences that rules can read: folded, without decoration, with everything quoted taken out."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

QUOTED = "qqq"
"""Stands where something was quoted: what a task says is nobody's question."""

READ_CHARS = 4_000
"""Of a longer reply the beginning and the end are read, this much together: what it wants stands there."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence. `asks`: it is punctuated, or in its language built, as a question; `item`: it is a line of a list."""

    text: str
    asks: bool
    item: bool


_LONGEST_SENTENCE = 800

_FENCE = re.compile(r"```[^`]{0,4000}```")
_QUOTES = re.compile(
    r"""`[^`\n]{1,300}`
    | "[^"\n]{1,300}"
    | “[^”\n]{1,300}”
    | „[^“”\n]{1,300}[“”]
    | «[^»\n]{1,300}»
    | ‹[^›\n]{1,300}›
    | 「[^」\n]{1,300}」
    | 『[^』\n]{1,300}』
    | (?<!\w)[‘'](?:[^'’\n]|(?<=\w)['’](?=\w)){1,300}['’](?!\w)
    """,
    re.VERBOSE,
)
_QUOTE_MARK = re.compile("[`\"“„«‹「『‘']")
_BOLD = re.compile(r"(\*\*|__)(?=\S)([^*\n]{1,300}?)\1")
_ITEM = re.compile(r"^(?:[-*+•‣▪◦·–—]\s|\(?\d{1,3}[.)]\s|[a-h][.)]\s|\[[ xX✓]?\]|[☐☑✅✔⬜🔲◻⏳]\ufe0f?\s|[1-9]\ufe0f?\u20e3)")
_DECORATION = re.compile(r"^(?:#{1,6}\s+|>\s*)+|[*_~]{1,3}(?=\S)|(?<=\S)[*_~]{1,3}|\|")
_END = re.compile(r"([.!?。！？｡؟;։।]+)(?=[\s)\]\"'”’»*_\u2600-\u27bf\ufe0f\U0001f000-\U0001faff]|$)|(?<=[。！？?])(?=\S)")
_LATER_LETTER = re.compile(r"\s*[^\w\s]*\s*([a-zà-ÿ])")
_LIST_NUMBER = re.compile(r"(?:^|[\s(:])\d{1,2}$")
_ASKED_TWICE = re.compile(r"\?[!?]")
_BUILT_AS_QUESTION = re.compile(
    r"(?:ですか|ますか|でしょうか|ませんか|[吗嗎呢]|(?:을까|ㄹ까|할까|될까|드릴까|나|은가|는가|습니|인가|세)요|습니까|입니까)[。.\s]*$"
)

_CONTRACTIONS = (
    (re.compile(r"\bcan't\b|\bcan not\b|\bcant\b"), "cannot"),
    (re.compile(r"\bwon't\b"), "will not"),
    (re.compile(r"\blet's\b"), "let us"),
    (re.compile(r"\b(?:dont|don't)\b"), "do not"),
    (re.compile(r"(?<=[a-z])n't\b"), " not"),
    (re.compile(r"\bi'm\b|\bim\b"), "i am"),
    (re.compile(r"(?<=[a-z])'ve\b"), " have"),
    (re.compile(r"(?<=[a-z])'ll\b"), " will"),
    (re.compile(r"(?<=[a-z])'re\b"), " are"),
    (re.compile(r"(?<=[a-z])'d\b"), " would"),
    (re.compile(r"\b(what|it|that|here|there|how|who|where|when|everything|name)'s\b"), r"\1 is"),
)

_CONTRACTED = re.compile(r"'|\b(?:can not|cant|dont|im)\b")


def sentences(text: str) -> tuple[Sentence, ...]:
    """The sentences of `text`, list lines among them, in order; quotes are `QUOTED`. Linear in the text."""
    if len(text) > READ_CHARS:
        text = text[: READ_CHARS // 2] + "\n" + text[-READ_CHARS // 2 :]
    text = unicodedata.normalize("NFC", text).strip()
    if len(text) > 1 and (text[0], text[-1]) in {('"', '"'), ("“", "”"), ("'", "'")}:
        text = text[1:-1].strip()
    text = _FENCE.sub(f" {QUOTED} ", text.replace("\u037e", ";").replace("…", "..."))
    if _QUOTE_MARK.search(text):
        text = _QUOTES.sub(_without_quote, text)
    text = _BOLD.sub(_plain_bold, text)
    greek = not text.isascii() and any("\u0370" <= char <= "\u03ff" for char in text)
    found: list[Sentence] = []
    for line in text.splitlines():
        bare = line.strip()
        item = _ITEM.match(bare) is not None
        if item:
            bare = _ITEM.sub("", bare, count=1)
        bare = _DECORATION.sub("", bare)
        found.extend(
            Sentence(folded, item=item, asks=_asks(raw, greek=greek))
            for raw in _split(bare, greek=greek)
            if (folded := _fold(raw))
        )
    return tuple(found)


def _without_quote(match: re.Match[str]) -> str:
    """`QUOTED`, and a full stop where the quote took the sentence's own inside."""
    after = match.string[match.end() : match.end() + 2].strip()
    ends = match[0][-2:-1] in {".", "!"} and after[:1].isupper()
    return f" {QUOTED}. " if ends else f" {QUOTED} "


def _plain_bold(match: re.Match[str]) -> str:
    """Bold words without their marks; inside a running sentence their own punctuation ends nothing."""
    inner, after = match[2], match.string[match.end() : match.end() + 2].lstrip("*_ ")
    if after and (after[0].islower() or after[0] in ".,;:"):
        return re.sub(r"[?!.]", " ", inner)
    return inner


def _split(line: str, *, greek: bool) -> list[str]:
    parts: list[str] = []
    start = 0
    for end in _END.finditer(line):
        mark = end[0]
        if set(mark) == {";"} and not greek:
            continue
        before, after = line[start : end.start()], line[end.end() : end.end() + 4]
        if mark == "." and _LIST_NUMBER.search(before):
            continue
        if mark and mark[-1] in ".?!" and _LATER_LETTER.match(after):
            continue  # "ask bob: what time? to your list", "e.g. milk": the sentence goes on
        parts.append(line[start : end.end()])
        start = end.end()
    parts.append(line[start:])
    return parts


def _asks(raw: str, *, greek: bool) -> bool:
    ending = raw.rstrip()
    while ending and ending[-1] not in "?？؟;՞፧" and not ending[-1].isalnum():
        if ending[-1] in ".!。！":
            break
        ending = ending[:-1]
    if ending.endswith(("?", "？", "؟", "՞", "፧")) or (greek and ending.endswith(";")):
        return True
    if _ASKED_TWICE.search(raw[-8:]):
        return True
    return not raw.isascii() and _BUILT_AS_QUESTION.search(raw.strip()) is not None


def _fold(raw: str) -> str:
    """Lower case, plain apostrophes, Latin letters without accents, English contractions written out."""
    bare = raw
    if not raw.isascii():
        marked = unicodedata.normalize("NFKD", raw.replace("’", "'").replace("‘", "'").replace("ʼ", "'"))
        bare = unicodedata.normalize("NFC", "".join(char for char in marked if not "\u0300" <= char <= "\u036f"))
    bare = " ".join(bare.casefold().split())
    if len(bare) > _LONGEST_SENTENCE:
        bare = bare[: _LONGEST_SENTENCE // 2] + " " + bare[-_LONGEST_SENTENCE // 2 :]
    if _CONTRACTED.search(bare):
        for pattern, words in _CONTRACTIONS:
            bare = pattern.sub(words, bare)
    return bare if any(char.isalnum() for char in bare) else ""
