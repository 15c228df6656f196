"""The user's answer to a confirmation question, read by code as yes, no, unclear or other.

The vocabulary is closed: it is in `consent.txt`, for twenty languages. A yes or a no consists only of words from it and of
words that name all actions of the question; an unexpected character makes the answer unclear, and so does irony: a yes that is
as often ironic as meant. An unclear answer does nothing. Nothing that a model says is read here.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, lru_cache
from itertools import combinations, dropwhile, pairwise, takewhile
from pathlib import Path
from typing import Final

from rapidfuzz.distance import OSA

from graph_agent.policy.phrases import EMOJI_PARTS, Fillings, Phrases, Words, consists_of, is_of_a_word, words_of
from graph_agent.policy.word_lists import word_lists

MAX_ANSWER_WORDS = 16
"""A longer message is a request, whatever its words are."""
MAX_UNCLEAR_WORDS = 8
"""A longer message with any word that does not belong to an answer is a request, whatever its first word is."""


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

_YESES = ("bare yes", "casual yes", "assurance", "praise", "yes", "yes to one")
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
        # Two different phrases of one section.
        ("bare yes", "bare yes"),
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

    `actions` has the titles of each action of the question, in order: in the constitution and at the server. "delete it",
    "delete the task" and "go ahead with the deletion" are a yes only to an action with a title that begins with "delete". The
    other words of a title alone name things, and "tasks" may be a request to see them. For several actions the verb must be
    that of all: "delete both" is a yes to two deletions, and "delete it" is not.
    """
    composed = unicodedata.normalize("NFC", message)
    text = composed.casefold().strip()
    words = words_of(text)
    if len(words) > MAX_ANSWER_WORDS:
        return Consent.OTHER
    known = _vocabulary(tuple(tuple(title.casefold() for title in titles) for titles in actions))
    meaning = _meaning(words, known) if words else _meaning_of_emoji(text)
    if meaning in (Consent.YES, Consent.NO) and not _has_allowed_shape(text, meaning):
        return Consent.UNCLEAR
    if meaning is Consent.YES and (_is_in_mocking_case(composed) or _is_ironic(words, text)):
        return Consent.UNCLEAR
    return meaning


def _is_in_mocking_case(message: str) -> bool:
    """True if a capital letter follows a small one: "sUrE"."""
    return any(first.islower() and second.isupper() for first, second in pairwise(message))


def _is_ironic(words: Words, text: str) -> bool:
    """True for a yes that is ironic as often as it is meant, such as "yeah, sure", "claro, claro" or "great..."."""
    sections = _sections()
    phrases = list(_said().found_in(words))
    said = [sections[phrase] for phrase in dict.fromkeys(phrases)]
    if _DRAWL_SIGNS.search(text):
        said.append("drawl")
    if any(frozenset(pair) in _IRONIC_TOGETHER for pair in combinations(said, 2)):
        return True
    repeated = {" ".join(phrase) for phrase in phrases if phrases.count(phrase) > 1}
    return not repeated <= {*_word_lists()["may be repeated"]}


@cache
def _sections() -> dict[Words, str]:
    """Return the section of every phrase that means yes, and of every drawled word."""
    return {words_of(phrase): section for section in (*_YESES, "drawl") for phrase in _word_lists()[section]}


@cache
def _said() -> Phrases:
    """Return these phrases, to find them in an answer."""
    return Phrases(map(" ".join, _sections()), {})


def _meaning(words: Words, known: _Vocabulary) -> Consent:
    """Return the meaning of the words alone."""
    if consists_of(words, known.doubt, known.beside_doubt):
        return Consent.UNCLEAR
    if consists_of(words, known.yes, known.beside_yes):
        return Consent.YES
    if consists_of(words, known.no, known.beside_no):
        return Consent.NO
    if len(words) > MAX_UNCLEAR_WORDS:
        return Consent.OTHER
    return Consent.UNCLEAR if _starts_like_an_answer(words, known) else Consent.OTHER


def _starts_like_an_answer(words: Words, known: _Vocabulary) -> bool:
    """True if `words` begin with an answer or a hedge and go on, or are an answer with a typing error.

    A no that goes on at length ("no, the second one") is a correction, so a request of its own; so is a sentence that begins
    like the action ("delete the other one"), since it may name another object.
    """
    interjections = len(list(takewhile(_word_lists()["interjection"].__contains__, words)))
    if interjections:
        rest = words[interjections:]
        return not rest or _meaning(rest, known) is not Consent.OTHER
    # "suuure" and "好好好" are no plain yes, and "nooo" is no request.
    text = " ".join(words)
    plain = {drawn_out.sub(word, text) for drawn_out, word in _DRAWN_OUT} - {text}
    if any(_meaning(tuple(shorter.split()), known) is not Consent.OTHER for shorter in plain):
        return True
    refusals = known.no.ends(words)
    if refusals and not any(known.yes.ends(words, start) for start in range(len(words))):
        return len(words) - max(refusals) <= 1
    return bool(refusals or known.yes_or_hedge.ends(words)) or (len(words) == 1 and _is_nearly_an_answer(words[0]))


def _is_nearly_an_answer(word: str) -> bool:
    """True for a common answer with one typing error, or with marks such as a strike-through in it."""
    plain = "".join(character for character in unicodedata.normalize("NFD", word) if unicodedata.category(character) != "Mn")
    return any(OSA.distance(plain, answer, score_cutoff=1) <= 1 for answer in _word_lists()["often mistyped"])


def _meaning_of_emoji(text: str) -> Consent:
    """Return the meaning of a message without words."""
    signs = set(text) - {*EMOJI_PARTS, *_BETWEEN_WORDS}
    if not signs.isdisjoint(_AGREEING) and signs <= {*_AGREEING, *_FRIENDLY}:
        return Consent.YES
    if signs and signs <= {*_DISAGREEING}:
        return Consent.NO
    return Consent.UNCLEAR


def _has_allowed_shape(text: str, meaning: Consent) -> bool:
    """True if every character between and around the words is allowed in an answer with this meaning."""
    emoji = _FRIENDLY + EMOJI_PARTS + (_AGREEING if meaning is Consent.YES else _DISAGREEING)
    shape = ("w" if is_of_a_word(character) else "e" if character in emoji else character for character in text)
    return _ALLOWED_SHAPE.fullmatch("".join(shape)) is not None


@dataclass(frozen=True, slots=True)
class _Vocabulary:
    """The phrases of answers to one question, and those that may stand beside them in an answer."""

    yes: Phrases
    beside_yes: Phrases
    no: Phrases
    beside_no: Phrases
    doubt: Phrases
    """Phrases that may mean the action or the end of it: "cancel it" where the action is a cancellation."""
    beside_doubt: Phrases
    yes_or_hedge: Phrases
    """A yes that does not name the action, or a hedge."""


@lru_cache(maxsize=64)
def _vocabulary(actions: tuple[tuple[str, ...], ...]) -> _Vocabulary:
    """Return the vocabulary for a question about `actions`, each given by its titles in lower case.

    A phrase that names the actions is a yes; after "don't" or "do not" it is a no.
    """
    lists = _word_lists()
    slots = _slots(actions)
    several = len(actions) > 1
    named = [*lists["name"]]
    if several:
        named += [*lists["yes to several"], *(slots["it"] - {*lists["them"]})]
    yes = [phrase for section in _YESES for phrase in lists[section] if not (several and section == "yes to one")]
    refused = [f"{refusal} {phrase}" for refusal in ("dont", "do not") for phrase in (*named, *lists["name beside yes"])]
    either = [*lists["beside either"], *lists["drawl"]]
    beside_no = [*either, *lists["beside no"]]
    of_one = f"beside yes to {'several' if several else 'one'}"
    beside_yes = [*either, *lists["beside yes"], *lists[of_one], *lists["name beside yes"]]
    fillings = {**_fillings(), **{name: Fillings.of(texts) for name, texts in slots.items()}}
    return _Vocabulary(
        yes=Phrases([*yes, *named], fillings),
        beside_yes=Phrases(beside_yes, fillings),
        no=Phrases([*lists["no"], *lists["cancel"], *refused], fillings),
        beside_no=Phrases(beside_no, fillings),
        doubt=_doubt(actions, slots),
        beside_doubt=Phrases([*beside_no, *beside_yes], fillings),
        yes_or_hedge=Phrases([*yes, *lists["hedge"], *(lists["yes to one"] if several else ())], fillings),
    )


def _slots(actions: Sequence[Sequence[str]]) -> dict[str, frozenset[str]]:
    """Return what may stand in each slot of a phrase that names the actions. It means all of them, so a verb is that of all."""
    lists = _word_lists()
    verbs = frozenset.intersection(*map(_verbs, actions)) if actions else frozenset()
    nouns = frozenset(noun for verb in verbs for noun in _nouns().get(verb, ()))
    slots = {"verb": verbs, "doing": frozenset(form for verb in verbs for form in _gerunds(verb))}
    if len(actions) < 2:
        objects = frozenset(found for titles in actions for title in titles for found in _objects(title))
        nouns |= {f"{thing} {noun}" for thing in objects for noun in nouns}
        slots["nouns"] = frozenset(noun for noun in nouns if noun.endswith("s"))
        return {**slots, "object": objects, "noun": nouns, "it": frozenset(lists["it"]), "the": frozenset(lists["the"])}
    two = len(actions) == 2
    return {
        **slots,
        "object": frozenset(),
        "nouns": frozenset(),
        "noun": frozenset(noun if noun.endswith("s") else f"{noun}s" for noun in nouns),
        "it": frozenset([*lists["every"], *lists["them"], *(lists["every of two"] if two else ())]),
        "the": frozenset([*lists["the several"], *(["both"] if two else ())]),
    }


def _verbs(titles: Sequence[str]) -> frozenset[str]:
    first = {word for title in titles for word in words_of(title)[:1]}
    return frozenset(first.union(*(verbs for verbs in _same_verbs() if not first.isdisjoint(verbs))))


def _gerunds(verb: str) -> tuple[str, ...]:
    """Return the forms that may be the gerund of `verb`; those that are no words are never typed."""
    return (f"{verb}ing", f"{verb}{verb[-1]}ing", f"{verb.removesuffix('e')}ing")


def _objects(title: str) -> Iterator[str]:
    """Yield the object in a title, which ends at a preposition: "pending order" and "order" of "Cancel a pending order by id".

    "Change the order" is no yes to "Change items in an order". A plural may mean more than the call, and of two objects
    one may be meant alone, so neither is an object.
    """
    lists = _word_lists()
    words = words_of(title)
    phrase = list(takewhile(lambda word: word not in lists["preposition"], words[1:]))
    phrase = list(dropwhile(lambda word: word in lists["article"], phrase))
    if not phrase or words != tuple(title.split()) or not {*lists["conjunction"]}.isdisjoint(words) or _is_plural(phrase[-1]):
        return
    yield " ".join(phrase)
    yield phrase[-1]


def _is_plural(word: str) -> bool:
    return word.endswith("s") and not word.endswith(("ss", "us", "is"))


def _doubt(actions: Sequence[Sequence[str]], slots: Mapping[str, frozenset[str]]) -> Phrases:
    """Return the phrases that may mean an action or the end of it, for the verbs that also decline: "cancel it"."""
    lists = _word_lists()
    declining = {*lists["no"], *lists["cancel"]}
    verbs = frozenset[str]().union(*map(_verbs, actions))
    things = {*lists["it"], *slots["it"]}
    found = {verb for verb in verbs if not declining.isdisjoint([verb, *(f"{verb} {thing}" for thing in things)])}
    cancels = lists["cancel"] if not found.isdisjoint(lists["cancel"]) else ()
    fillings = {**_fillings(), "verb": Fillings.of(found), "it": Fillings.of(things)}
    return Phrases([*cancels, *lists["doubtful name"]], fillings)


@cache
def _fillings() -> dict[str, Fillings]:
    """Return what fills a slot with the name of a section."""
    return {name: Fillings.of(phrases) for name, phrases in _word_lists().items()}


@cache
def _same_verbs() -> tuple[frozenset[str], ...]:
    """Return the sets of verbs that mean the same, from "verb, verb"."""
    return tuple(frozenset(verb.strip() for verb in verbs.split(",")) for verbs in _word_lists()["same verbs"])


@cache
def _nouns() -> dict[str, tuple[str, ...]]:
    """Return the nouns of each verb, from "verb: noun, noun"."""
    pairs = (phrase.partition(":") for phrase in _word_lists()["nouns of a verb"])
    return {verb: tuple(noun.strip() for noun in nouns.split(",")) for verb, _, nouns in pairs}


def _word_lists() -> Mapping[str, tuple[str, ...]]:
    return word_lists(Path(__file__).with_suffix(".txt"))
