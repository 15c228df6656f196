"""The spellings of a user id that people take for one person: case, width, spaces, invisible characters and look-alikes.

Where one may not answer for oneself, or two people are needed, such spellings are one person. Two people whose ids look alike
cannot approve for each other, which is the safe direction.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import chain


def _pairs(letters: str, looks: str) -> zip[tuple[str, str]]:
    return zip(letters, looks, strict=True)


_LOOK_ALIKES = dict(
    chain(
        # Capital letters, looked up before they are lowered: the small letters of some look like others.
        _pairs("АВЕЅІЈКМНОРСТХԌԚԜҺҮ", "abesijkmhopctxgqwhy"),  # Cyrillic
        _pairs("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "abezhikmnoptyx"),  # Greek
        _pairs("ՕՍ", "ou"),  # Armenian
        _pairs("I", "l"),
        _pairs("аеорсухіјѕһԁԛԝѵӏкүг", "aeopcyxijshdqwvlkyr"),  # Cyrillic
        _pairs("αινορυκγτ", "aivopukyt"),  # Greek
        _pairs("օսոհցզ", "ounhgq"),  # Armenian
        _pairs("ɑɡɩıȷł", "agiijl"),  # Latin
        _pairs("01|−", "oll-"),
    )
)
_TO_LATIN = str.maketrans(_LOOK_ALIKES)
_MARKS = re.compile("[\u0300-\u036f]")
"""The marks on Latin, Greek and Cyrillic letters. In other scripts a mark may be a vowel."""
_DASHES = re.compile("[\u2010-\u2015\ufe58\ufe63\uff0d]")
_EMPTY = re.compile("[\u115f\u1160\u2800\u180b-\u180d\ufe00-\ufe0f]")
"""Characters without a sign that are no spaces and no controls."""


def is_same_person(one: str, other: str) -> bool:
    """True if people may take two user ids for the same person."""
    return one == other or not _keys(one).isdisjoint(_keys(other))


@lru_cache(maxsize=1024)
def _keys(user_id: str) -> frozenset[str]:
    """Return the texts of which the spellings of one person have one in common: as the id is read, and as it looks."""
    shown = "".join(filter(_is_shown, _EMPTY.sub("", unicodedata.normalize("NFKC", user_id))))
    bare = unicodedata.normalize("NFC", _MARKS.sub("", unicodedata.normalize("NFD", shown)))
    looks = _DASHES.sub("-", bare.translate(_TO_LATIN).casefold().translate(_TO_LATIN))
    # An id of which nothing is shown is like no other.
    return frozenset({bare.casefold() or user_id, looks.replace("rn", "m").replace("vv", "w") or user_id})


def _is_shown(character: str) -> bool:
    return unicodedata.category(character) not in ("Cc", "Cf", "Zs", "Zl", "Zp")
