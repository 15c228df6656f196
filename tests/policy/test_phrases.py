"""Phrases with slots: where they end, and that none is written out with its fillings."""

from __future__ import annotations

import random

from graph_agent.policy.phrases import Fillings, Phrases, Words, consists_of, words_of

SLOTS = {
    "verb": Fillings.of(["delete", "throw away"]),
    "the": Fillings.of(["the", "all of the"]),
    "thing": Fillings.of(["task", "open task"]),
    "nothing": Fillings.of([]),
}


def test_a_phrase_ends_wherever_one_of_its_fillings_does() -> None:
    phrases = Phrases(["{verb} {the} {thing}", "{verb}", "delete the open", "do {nothing}"], SLOTS)
    words = words_of("please delete the open task, don't do it")
    assert words == ("please", "delete", "the", "open", "task", "dont", "do", "it")
    assert [phrases.ends(words, start) for start in range(4)] == [set(), {2, 4, 5}, set(), set()]
    assert phrases.ends(words_of("throw away all of the task")) == {2, 6}
    assert phrases.ends(words, 6) == set()


def test_words_consist_of_phrases_as_a_search_through_all_divisions_says() -> None:
    chance = random.Random(5)
    found = set()
    for _ in range(2000):
        needed, beside = ([" ".join(chance.choices("ab", k=chance.randint(1, 3))) for _ in range(2)] for _ in range(2))
        words = tuple(chance.choices("ab", k=chance.randint(0, 7)))
        expected = _divides(words, {words_of(one) for one in needed}, {words_of(one) for one in beside}, has_needed=False)
        assert consists_of(words, Phrases(needed, {}), Phrases(beside, {})) is expected
        found.add(expected)
    assert found == {True, False}


def _divides(words: Words, needed: set[Words], beside: set[Words], *, has_needed: bool) -> bool:
    if not words:
        return has_needed
    return any(
        words[: len(phrase)] == phrase and _divides(words[len(phrase) :], needed, beside, has_needed=has_needed or is_needed)
        for phrases, is_needed in ((needed, True), (beside, False))
        for phrase in phrases
    )


def test_slots_with_many_fillings_take_no_longer_than_their_sum() -> None:
    """Written out, this phrase would stand for 10 ** 16 others."""
    many = {name: Fillings.of(f"{name} {number}" for number in range(10_000)) for name in "abcd"}
    phrases = Phrases(["{a} {b} {c} {d}"], many)
    assert phrases.ends(words_of("a 5 b 77 c 9999 d 0")) == {8}
    assert phrases.ends(words_of("a 5 b 77 c 10000 d 0")) == set()
