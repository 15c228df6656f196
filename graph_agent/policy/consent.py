"""The user's answer to a confirmation question, read by code as yes, no, unclear or other.

The vocabulary is closed: it is in `consent.txt`, for twenty languages. A yes or a no consists only of words from it; an
unexpected character makes the answer unclear, and so does irony: a yes that is as often ironic as meant. An unclear answer does
nothing. Nothing that a model says is read here.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, lru_cache
from itertools import combinations, pairwise, takewhile
from pathlib import Path
from typing import Final

from rapidfuzz.distance import OSA

MAX_ANSWER_WORDS = 12
"""A longer message is a request, whatever its first word is."""


class Consent(StrEnum):
    """The meaning of a message that follows a confirmation question."""

    YES = "yes"
    NO = "no"
    UNCLEAR = "unclear"
    """The message begins like an answer but is not one: the question is asked again."""
    OTHER = "other"
    """The message is a new request: the action is dropped."""


_AGREEING = "👍👌✅✔🆗💯"
_DISAGREEING = "👎❌🚫✖🛑⛔🙅"
_FRIENDLY = "🙂😊😀😃😄😁🙏❤😉🎉"
_EMOJI_PARTS = "\ufe0f🏻🏼🏽🏾🏿"
"""The variation selector and the skin tones, which follow an emoji."""

_YESES = ("bare yes", "casual yes", "assurance", "praise", "yes")
"""The sections of phrases that mean yes."""
_IRONIC_TOGETHER: Final = {
    frozenset(sections)
    for sections in [
        ("bare yes", "assurance"),
        ("casual yes", "assurance"),
        ("casual yes", "praise"),
        ("praise", "assurance"),
        ("drawl", "assurance"),
        ("drawl", "praise"),
        ("drawl", "casual yes"),
        # Two phrases of one section.
        ("assurance", "assurance"),
        ("praise", "praise"),
    ]
}
"""Sections with phrases that are ironic beside each other, in any order: "yeah sure", "да, конечно", "oh great"."""

_QUOTES = "\"'“”„‘’«»"
_BETWEEN_WORDS = ".,!…。，、！،۔। \n"
"""Signs that may follow a word: `. , ! …` and the full stops and commas of the languages. None of them may come first."""

_DRAWL_SIGNS = re.compile(rf"\.\.|…|🙂|^[{_QUOTES}]")
"""Signs that make a yes ironic where a drawled word does: `sure...`, `“great”`."""
_DRAWN_OUT = ((re.compile(r"(\w)\1{2,}"), r"\1"), (re.compile(r"(\w)\1{2,}"), r"\1\1"), (re.compile(r"\b(\w+?)\1+\b"), r"\1"))
"""Patterns of drawn-out words, each with what it stands for: "suuure" for "sure", "goood" for "good", "okok" for "ok"."""

# The shape of an answer, in which "w" stands for a letter and "e" for an emoji. A hyphen and an apostrophe are allowed within a
# word, and quotes only around the whole: in `yes, "delete it"` they are ironic.
_ALLOWED_SHAPE = re.compile(rf"[{_QUOTES}]*[we](?:[we{_BETWEEN_WORDS}]|(?<=w)[-'’](?=w))*[{_QUOTES}{_BETWEEN_WORDS}]*")


def read_consent(message: str, actions: Sequence[Sequence[str]] = ()) -> Consent:
    """Read `message` as the answer to a confirmation question.

    `actions` has the titles of each action of the question, in the constitution and at the server: "delete it", "delete the
    task" and "go ahead with the deletion" are a yes only to an action with a title that begins with "delete". Other words of a
    title name things, and "tasks" may be a request to see them. Of several actions a word must mean all: "delete both" is a
    yes, and "delete it" is not.
    """
    composed = unicodedata.normalize("NFC", message)
    text = composed.casefold().strip()
    words = _words(text)
    if len(words) > MAX_ANSWER_WORDS:
        return Consent.OTHER
    meaning = _meaning(words, _vocabulary(_Named.of(actions))) if words else _meaning_of_emoji(text)
    if meaning in (Consent.YES, Consent.NO) and not _has_allowed_shape(text, meaning):
        return Consent.UNCLEAR
    if meaning is Consent.YES and (_is_in_mocking_case(composed) or _is_ironic(words, text)):
        return Consent.UNCLEAR
    return meaning


def _is_in_mocking_case(message: str) -> bool:
    """True if a capital letter follows a small one: "sUrE"."""
    return any(first.islower() and second.isupper() for first, second in pairwise(message))


def _is_ironic(words: list[str], text: str) -> bool:
    """True for a yes that is ironic as often as it is meant, such as "yeah, sure", "claro, claro" or "great..."."""
    sections = _sections()
    phrases = [found.group() for found in _phrase().finditer(_spaced(words))]
    said = [sections[phrase] for phrase in phrases]
    if _DRAWL_SIGNS.search(text):
        said.append("drawl")
    if any(frozenset(pair) in _IRONIC_TOGETHER for pair in combinations(said, 2)):
        return True
    repeated = {phrase.strip() for phrase in phrases if phrases.count(phrase) > 1}
    return not repeated <= {*_word_lists()["may be repeated"]}


@cache
def _sections() -> dict[str, str]:
    """Return the section of every phrase that means yes, and of every drawled word. Each word ends with a space."""
    return {_spaced(_words(phrase)): section for section in (*_YESES, "drawl") for phrase in _word_lists()[section]}


@cache
def _phrase() -> re.Pattern[str]:
    """Return the pattern of one of these phrases, which begins with a word."""
    return re.compile(rf"(?<!\S)(?:{_any_of(_sections())})")


def _meaning(words: list[str], known: _Vocabulary) -> Consent:
    """Return the meaning of the words alone."""
    text = _spaced(words)
    agrees, refuses = known.whole_yes.fullmatch(text), known.whole_no.fullmatch(text)
    # "cancel it" and "cancel both" are both where the action itself is a cancellation.
    if agrees and not refuses and any(word in known.refusals for word in words):
        refuses = None if known.plain_yes.search(text) else agrees
    if agrees or refuses:
        return Consent.UNCLEAR if agrees and refuses else Consent.YES if agrees else Consent.NO
    return Consent.UNCLEAR if _starts_like_an_answer(words, text, known) else Consent.OTHER


def _starts_like_an_answer(words: list[str], text: str, known: _Vocabulary) -> bool:
    """True if `words` begin with an answer or a hedge and go on, or are an answer with a typing error.

    A no that goes on at length ("no, the second one") is a correction, so a request of its own; so is a sentence that begins
    like the action ("delete the other one"), since it may name another object.
    """
    interjections = len(list(takewhile(_word_lists()["interjection"].__contains__, words)))
    if interjections:
        rest = words[interjections:]
        return not rest or _meaning(rest, known) is not Consent.OTHER
    # "suuure" and "好好好" are no plain yes, and "nooo" is no request.
    plain = {drawn_out.sub(word, text) for drawn_out, word in _DRAWN_OUT} - {text}
    if any(_meaning(shorter.split(), known) is not Consent.OTHER for shorter in plain):
        return True
    refusal = known.no.match(text)
    if refusal and not any(known.yes.match(_spaced(words[start:])) for start in range(len(words))):
        return len(words) - len(refusal.group().split()) <= 1
    return bool(refusal or known.yes_or_hedge.match(text)) or (len(words) == 1 and _is_nearly_an_answer(words[0]))


def _is_nearly_an_answer(word: str) -> bool:
    """True for a common answer with one typing error, or with marks such as a strike-through in it."""
    plain = "".join(character for character in unicodedata.normalize("NFD", word) if unicodedata.category(character) != "Mn")
    return any(OSA.distance(plain, answer, score_cutoff=1) <= 1 for answer in _word_lists()["often mistyped"])


def _meaning_of_emoji(text: str) -> Consent:
    """Return the meaning of a message without words."""
    signs = set(text) - {*_EMOJI_PARTS, *_BETWEEN_WORDS}
    if not signs.isdisjoint(_AGREEING) and signs <= {*_AGREEING, *_FRIENDLY}:
        return Consent.YES
    if signs and signs <= {*_DISAGREEING}:
        return Consent.NO
    return Consent.UNCLEAR


def _has_allowed_shape(text: str, meaning: Consent) -> bool:
    """True if every character between and around the words is allowed in an answer with this meaning."""
    emoji = _FRIENDLY + _EMOJI_PARTS + (_AGREEING if meaning is Consent.YES else _DISAGREEING)
    shape = ("w" if _is_of_a_word(character) else "e" if character in emoji else character for character in text)
    return _ALLOWED_SHAPE.fullmatch("".join(shape)) is not None


@dataclass(frozen=True, slots=True)
class _Vocabulary:
    """Patterns for the words of an answer to one action. Each word in the text ends with a space."""

    yes: re.Pattern[str]
    no: re.Pattern[str]
    whole_yes: re.Pattern[str]
    """The whole of an answer: phrases that mean yes, and words that may stand beside them."""
    whole_no: re.Pattern[str]
    yes_or_hedge: re.Pattern[str]
    """A yes that does not name the action, or a hedge."""
    plain_yes: re.Pattern[str]
    """A yes whatever the action is."""
    refusals: frozenset[str]
    """The verbs of the actions that are also a no, such as "cancel"."""


@dataclass(frozen=True, slots=True)
class _Named:
    """What names all actions of a question: their common verbs, and the common objects of one action."""

    verbs: frozenset[str] = frozenset()
    objects: frozenset[tuple[str, str]] = frozenset()
    count: int = 1

    @classmethod
    def of(cls, actions: Sequence[Sequence[str]]) -> _Named:
        if not actions:
            return cls()
        titles = [[words for title in of_one if (words := _words(title.casefold()))] for of_one in actions]
        verbs = frozenset.intersection(*(frozenset(words[0] for words in of_one) for of_one in titles))
        # An object is one thing: of several actions it would name one.
        objects = frozenset(pair for words in titles[0] for pair in _objects(words)) if len(actions) == 1 else frozenset()
        return cls(verbs, objects, len(actions))


def _objects(title: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the verb of a title with its object: "cancel" with "whole reservation", and with "reservation".

    The object ends at a preposition: "modify the order" is no yes to "Modify items in an order". A plural may mean more.
    """
    lists = _word_lists()
    rest = [word for word in title[1:] if word not in lists["article"]]
    thing = list(takewhile(lambda word: word not in lists["end of an object"], rest))
    if thing and (not thing[-1].endswith("s") or thing[-1].endswith("ss")):
        yield title[0], " ".join(thing)
        yield title[0], thing[-1]


@lru_cache(maxsize=64)
def _vocabulary(of: _Named) -> _Vocabulary:
    """Return the vocabulary for the actions of a question.

    A verb, alone or with "it", "this", "that" or its object, is a yes; after "don't" or "do not" it is a no. For several
    actions "both" or "all of them" takes the place of "it". After "go ahead with" an action is named by the noun or the gerund
    of its verb.
    """
    lists = _word_lists()
    several = of.count > 1
    whole = [*lists["all of several"], *(lists["both"] if of.count == 2 else ())] if several else []
    every = [*whole, *lists["every"]]
    things = every if several else ["it", "that", "this"]
    objects = [(verb, f"{the} {thing}") for verb, thing in sorted(of.objects) for the in ("the", "this", "that", "my")]
    named = [f"{verb}{thing}" for verb in of.verbs for thing in ("", *(f" {one}" for one in things))]
    named += [f"{verb} {thing}" for verb, thing in objects if not thing.startswith("my ")]
    nouns = [noun for line in lists["nouns"] for verb, _, noun in [line.partition(": ")] if verb in of.verbs]
    by_noun = [f"{the} {noun}" for noun in nouns for the in _articles(noun, several=several)]
    gerunds = [(verb, gerund) for verb in of.verbs for gerund in _gerunds(verb)]
    by_gerund = [f"{gerund} {thing}" for _, gerund in gerunds for thing in things]
    by_gerund += [f"{gerund} {thing}" for verb, gerund in gerunds for own, thing in objects if own == verb]
    led = [f"{lead} {one}" for lead in lists["lead to a noun"] for one in (*things, *by_noun, *by_gerund)]
    led += [f"{lead} {verb}" for lead in lists["lead to a verb"] for verb in named]
    # Beside a yes, what would be too little to be one.
    beside = [f"{verb} {thing}" for verb, thing in objects] if not several else every
    plain = [phrase for section in _YESES for phrase in lists[section]]
    yes = [*plain, *named, *led, *whole]
    no = [*lists["no"], *(f"{refusal} {phrase}" for refusal in ("dont", "do not") for phrase in (*named, *led))]
    either = [*lists["beside either"], *lists["drawl"]]
    beside += [*lists["beside yes"], *([] if several else lists["beside yes to one"])]
    return _Vocabulary(
        yes=re.compile(_any_of(yes)),
        no=re.compile(_any_of(no)),
        whole_yes=_made_of(_any_of(yes), _any_of([*either, *beside])),
        whole_no=_made_of(_any_of(no), _any_of([*either, *lists["beside no"]])),
        yes_or_hedge=re.compile(_any_of([*plain, *led, *lists["hedge"]])),
        plain_yes=re.compile(rf"(?<!\S)(?:{_any_of(plain)})"),
        refusals=frozenset(of.verbs & {*lists["no"]}),
    )


def _articles(noun: str, *, several: bool) -> tuple[str, ...]:
    """Return the words that may stand before the noun of an action: "the changes" are of one action or of several."""
    return ("the", "these") if noun.endswith("s") else ("the",) if several else ("the", "this", "that")


def _gerunds(verb: str) -> tuple[str, ...]:
    return f"{verb.removesuffix('e')}ing", f"{verb}{verb[-1]}ing"


def _any_of(phrases: Iterable[str]) -> str:
    """Return the pattern of any of `phrases`, the longest first."""
    texts = sorted((_spaced(_words(phrase)) for phrase in phrases), key=len, reverse=True)
    return "|".join(map(re.escape, texts))


def _made_of(phrases: str, words_beside: str) -> re.Pattern[str]:
    """Return the pattern of a text that consists of `phrases` and `words_beside`, with at least one phrase."""
    return re.compile(f"(?:{words_beside})*(?:{phrases})(?:{phrases}|{words_beside})*")


def _words(text: str) -> list[str]:
    """Return the words of `text`: runs of letters, marks and digits. Apostrophes are removed, so that "don't" is "dont"."""
    plain = text.replace("'", "").replace("’", "")
    return "".join(character if _is_of_a_word(character) else " " for character in plain).split()


def _spaced(words: Iterable[str]) -> str:
    return "".join(f"{word} " for word in words)


def _is_of_a_word(character: str) -> bool:
    return unicodedata.category(character)[0] in "LMN" and character not in _EMOJI_PARTS


@cache
def _word_lists() -> dict[str, tuple[str, ...]]:
    """Return the phrases of each `[section]` of `consent.txt`. "|" or a new line separates phrases, "#" begins a comment."""
    sections: dict[str, list[str]] = {}
    for line in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            phrases = sections.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            phrases += [unicodedata.normalize("NFC", phrase.strip()) for phrase in line.split("|")]
    return {name: tuple(phrases) for name, phrases in sections.items()}
