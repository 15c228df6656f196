"""Spellings of user ids that are one person, and ids that are not."""

from __future__ import annotations

import itertools
import unicodedata
import uuid
from random import Random

import pytest

from graph_agent.models.person import is_same_person


@pytest.mark.parametrize(
    "spelling",
    [
        "Ann",
        "ANN",
        " ann",
        "ann ",
        "a nn",
        "\tann\n",
        "a\N{NO-BREAK SPACE}nn",
        "a\N{ZERO WIDTH SPACE}nn",
        "a\N{SOFT HYPHEN}nn",
        "ann\N{RIGHT-TO-LEFT OVERRIDE}",
        "a\N{VARIATION SELECTOR-16}nn",
        "a\N{COMBINING GRAPHEME JOINER}nn",
        "ann\N{HANGUL FILLER}",
        "ann\N{BRAILLE PATTERN BLANK}",
        "\N{FULLWIDTH LATIN SMALL LETTER A}nn",
        "\N{MATHEMATICAL BOLD SMALL A}nn",
        "\N{CYRILLIC SMALL LETTER A}nn",
        "\N{CYRILLIC CAPITAL LETTER A}NN",
        "\N{GREEK CAPITAL LETTER ALPHA}\N{GREEK CAPITAL LETTER NU}\N{GREEK CAPITAL LETTER NU}",
        "\N{GREEK SMALL LETTER ALPHA}nn",
        "\N{LATIN SMALL LETTER ALPHA}nn",
        "a\N{ARMENIAN SMALL LETTER VO}n",
        "\N{LATIN SMALL LETTER A WITH DOT BELOW}nn",
        "\N{LATIN SMALL LETTER A WITH ACUTE}nn",
    ],
)
def test_spellings_that_people_take_for_one_person_are_one(spelling: str) -> None:
    assert is_same_person("ann", spelling)
    assert is_same_person(spelling, "Ann")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("alice", "aIice"),
        ("alice", "a1ice"),
        ("leo", "le0"),
        ("bob", "b\N{CYRILLIC SMALL LETTER O}b"),
        ("sc", "\N{CYRILLIC SMALL LETTER DZE}\N{CYRILLIC SMALL LETTER ES}"),
        ("modern", "modem"),
        ("tom", "torn"),
        ("walter", "vvalter"),
        ("ivan", "\N{GREEK SMALL LETTER IOTA}\N{GREEK SMALL LETTER NU}an"),
        ("straße", "STRASSE"),
        ("ann-marie", "ann\N{NON-BREAKING HYPHEN}marie"),
        ("ann-marie", "ann\N{MINUS SIGN}marie"),
        ("İnci", "inci"),
        ("ηλίας", "ΗΛΙΑΣ"),
        ("ольга", "ОЛЬГА"),
        ("ann@acme.example", "Ann＠acme.example"),
    ],
)
def test_look_alikes_are_one_person(one: str, other: str) -> None:
    assert is_same_person(one, other)
    assert is_same_person(other, one)


def test_different_people_are_not_one() -> None:
    people = [
        "ann",
        "anna",
        "bob",
        "bo",
        "hans",
        "жанна",
        "ольга",
        "олег",
        "कि",
        "कु",
        "王伟",
        "王芳",
        "",
        "2",
        "12",
        "ann.b",
        "ann_b",
    ]
    assert [pair for pair in itertools.combinations(people, 2) if is_same_person(*pair)] == []


def test_random_ids_of_issuers_are_different_people() -> None:
    chance = Random(1)
    ids = [str(uuid.UUID(int=chance.getrandbits(128))) for _ in range(150)] + [str(number) for number in range(150)]
    assert [pair for pair in itertools.combinations(ids, 2) if is_same_person(*pair)] == []


def test_an_id_of_which_nothing_is_shown_is_like_no_other() -> None:
    assert not is_same_person(" ", "\N{ZERO WIDTH SPACE}")
    assert not is_same_person("", " ")


def test_every_spelling_of_a_letter_in_another_width_or_style_is_that_letter() -> None:
    styled = [chr(code) for code in range(0x80, 0x20000) if unicodedata.normalize("NFKC", chr(code)).casefold() == "a"]
    assert len(styled) > 15
    assert [one for one in styled if not is_same_person(f"{one}nn", "ann")] == []
