"""The user's answer to a confirmation question, read by code as yes, no, unclear or other.

The vocabulary is closed. A yes or a no is made of its phrases alone; one sign too many makes the answer unclear, and an unclear
answer does nothing. Nothing that a model says is read here.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, lru_cache

from rapidfuzz.distance import OSA

Phrase = tuple[str, ...]
"""Words in lower case."""

MAX_ANSWER_WORDS = 8
"""A longer message is a request of its own, whatever its first word is."""


class Consent(StrEnum):
    """The meaning of a message that follows a confirmation question."""

    YES = "yes"
    NO = "no"
    UNCLEAR = "unclear"
    """It starts like an answer and is none: the question is asked again."""
    OTHER = "other"
    """It is a new request: the action is dropped."""


# Phrases in lower case, without apostrophes, separated by "|". The plain words cover English and the other nine of the ten most
# spoken languages: Mandarin, Hindi, Spanish, French, Arabic, Bengali, Portuguese, Russian and Urdu. "Yeah right" is mostly
# ironic: as a no that also reads as a yes it is unclear.
_YES = """
    yes | y | ya | yah | yea | yeah | yep | yup | yessir | aye | sure | sure thing | of course | absolutely | definitely
    certainly | by all means | indeed | ok | okay | okey | k | kk | alright | all right | fine | thats fine | thats ok
    confirm | confirmed | i confirm | confirm it | confirm that | agreed | i agree | approved | affirmative | roger | lgtm
    do it | do that | do so | please do | lets do it | go ahead | go for it | go on | proceed | make it so | you may
    correct | right | thats right | that is right | thats correct | that is correct | exactly | perfect | great
    sounds good | sounds great | sounds fine | sounds right | looks good | looks right | works for me | good | very well
    i am sure | im sure | i do | i am | you bet
    是 | 是的 | 好 | 好的 | 对 | 对的 | 可以 | 行 | 确认 | 同意
    हाँ | हां | जी | जी हाँ | जी हां | ठीक है | बिल्कुल | haan | ji haan
    sí | si | claro | vale | de acuerdo | por supuesto | adelante | dale
    oui | ouais | daccord | bien sûr | bien sur | vas-y | allez-y
    نعم | أجل | اجل | أيوه | ايوه | حسنا | حسنًا | موافق | طيب
    হ্যাঁ | হ্যা | জি | জি হ্যাঁ | ঠিক আছে | অবশ্যই
    sim | pode | está bem | esta bem | tudo bem | com certeza
    да | ага | хорошо | конечно | давай | согласен | согласна
    ہاں | جی | جی ہاں | ٹھیک ہے | بالکل
"""
_NO = """
    no | n | nah | nope | no way | never | not now | not yet | dont | do not | dont do it | do not do it | dont do that
    do not do that | cancel | cancel it | cancel that | cancel this | stop | stop it | stop that | abort | never mind
    nevermind | nvm | forget it | forget that | forget about it | keep it | keep that | keep | leave it | leave it alone
    let it be | skip it | skip | wait | hold on | hold it | negative | not that one | wrong one | rather not | id rather not
    i changed my mind | changed my mind | ive changed my mind | on second thought | i do not | i dont | i dont want to
    i dont want that | i do not want that | absolutely not | certainly not | definitely not | of course not | hell no
    yeah right
    不 | 不要 | 不是 | 不行 | 不可以 | 否 | 别 | 取消 | 不用
    नहीं | नही | ना | जी नहीं | मत करो | रद्द करें | nahi | nahin
    cancela | cancélalo | mejor no | para nada
    non | annule | annulez | pas maintenant | surtout pas | laisse tomber
    لا | كلا | إلغاء | الغاء | لا شكرا
    না | জি না | বাতিল
    não | nao | cancele | agora não
    нет | не | не надо | не нужно | отмена | отмени | стой
    نہیں | جی نہیں | مت کرو | منسوخ
"""
_WITH_EITHER = """
    please | pls | plz | thanks | thank you | thx | ty | oh | well | hey | por favor | gracias | svp | sil te plaît
    sil vous plaît | merci | obrigado | obrigada | пожалуйста | спасибо
"""
_WITH_YES = "it is | that one | this one | now | very much | just | then"
_WITH_NO = "ok | okay | actually | sorry | hmm | um | then"
_HEDGES = "hm | hmm | um | uh | eh | maybe | perhaps | possibly | idk | dunno | not sure | i guess | i think | huh | what | why"

_OFTEN_MISTYPED = ("yes", "yeah", "sure", "okay", "nope")

_AGREEING = frozenset("👍👌✅✔🆗💯")
_DISAGREEING = frozenset("👎❌🚫✖🛑⛔🙅")
_FRIENDLY = frozenset("🙂😊😀😃😄😁🙏❤😉🎉")
_EMOJI_PARTS = frozenset("\ufe0f🏻🏼🏽🏾🏿")
"""The variation selector and the skin tones, which follow an emoji."""

_QUOTES = frozenset("\"'“”„‘’«»")
_BETWEEN_WORDS = frozenset(".,!…。，！،۔।") | {" ", "\n"}
"""Signs that may follow a word: `. , ! …` and the full stops and commas of the ten languages. None of them may come first."""


def read_consent(message: str, action_titles: Sequence[str] = ()) -> Consent:
    """Read `message` as the answer to a confirmation question.

    `action_titles` are the titles of the action, in the constitution and at the server: "delete it" is a yes only to an action
    whose title contains the word "delete".
    """
    text = unicodedata.normalize("NFC", message).casefold().strip()
    words = _words(text)
    if len(words) > MAX_ANSWER_WORDS:
        return Consent.OTHER
    verbs = frozenset(word for title in action_titles for word in _words(title.casefold()))
    meaning = _meaning(words, verbs)
    if not words:
        meaning = _meaning_of_emoji(text)
    if meaning in (Consent.YES, Consent.NO) and not _only_allowed_signs(text, meaning):
        return Consent.UNCLEAR
    return meaning


def _meaning(words: Phrase, verbs: frozenset[str]) -> Consent:
    """The meaning of the words alone."""
    known = _vocabulary(verbs)
    agrees = _is_made_of(words, known.yes, known.with_yes)
    refuses = _is_made_of(words, known.no, known.with_no)
    # "cancel it" is both where the action itself is a cancellation.
    if agrees or refuses:
        return Consent.UNCLEAR if agrees and refuses else Consent.YES if agrees else Consent.NO
    return Consent.UNCLEAR if _starts_like_an_answer(words, known) else Consent.OTHER


def _starts_like_an_answer(words: Phrase, known: _Vocabulary) -> bool:
    """True if `words` begin with an answer or a hedge and go on, or are an answer with a typing error.

    A no that goes on at length ("no, the second one") is a correction, so a request of its own; so is a sentence that begins
    like the action ("delete the other one"), since it may name another object.
    """
    refusal = _longest_start(words, known.no)
    if refusal and not any(_longest_start(words[start:], known.yes) for start in range(len(words))):
        return len(words) - refusal <= 1
    if refusal or _longest_start(words, known.yes - known.named) or _longest_start(words, _phrases(_HEDGES)):
        return True
    return len(words) == 1 and _is_nearly_an_answer(words[0])


def _is_nearly_an_answer(word: str) -> bool:
    """True for a common answer with one typing error, or with marks such as a strike-through in it."""
    plain = "".join(character for character in unicodedata.normalize("NFD", word) if unicodedata.category(character) != "Mn")
    return any(OSA.distance(plain, answer, score_cutoff=1) <= 1 for answer in _OFTEN_MISTYPED)


def _meaning_of_emoji(text: str) -> Consent:
    """The meaning of a message without words."""
    signs = set(text) - _EMOJI_PARTS - _BETWEEN_WORDS
    if signs & _AGREEING and not signs - _AGREEING - _FRIENDLY:
        return Consent.YES
    if signs & _DISAGREEING and not signs - _DISAGREEING:
        return Consent.NO
    return Consent.UNCLEAR


def _only_allowed_signs(text: str, meaning: Consent) -> bool:
    """True if everything between and around the words goes with `meaning`."""
    emoji = _FRIENDLY | _EMOJI_PARTS | (_AGREEING if meaning is Consent.YES else _DISAGREEING)
    begun = False
    for before, character, after in zip(f" {text}", text, f"{text} "[1:], strict=False):
        hyphen = character == "-" and _is_of_a_word(before) and _is_of_a_word(after)
        if _is_of_a_word(character) or character in emoji:
            begun = True
        elif character not in _QUOTES and not hyphen and not (begun and character in _BETWEEN_WORDS):
            return False
    return True


@dataclass(frozen=True, slots=True)
class _Vocabulary:
    """The phrases of an answer to one action, and the words that may go with them."""

    yes: frozenset[Phrase]
    no: frozenset[Phrase]
    with_yes: frozenset[Phrase]
    with_no: frozenset[Phrase]
    named: frozenset[Phrase]
    """"delete", "delete it", "delete that" and "delete this" for every word of the action's titles."""


@lru_cache(maxsize=64)
def _vocabulary(verbs: frozenset[str]) -> _Vocabulary:
    named = frozenset((verb, *thing) for verb in verbs for thing in ((), ("it",), ("that",), ("this",)))
    not_named = frozenset((*refusal, *phrase) for refusal in (("dont",), ("do", "not")) for phrase in named)
    polite = _phrases(_WITH_EITHER)
    return _Vocabulary(
        yes=_phrases(_YES) | named,
        no=_phrases(_NO) | not_named,
        with_yes=polite | _phrases(_WITH_YES),
        with_no=polite | _phrases(_WITH_NO),
        named=named,
    )


@cache
def _phrases(table: str) -> frozenset[Phrase]:
    return frozenset(_words(phrase) for line in table.splitlines() for phrase in line.split("|") if phrase.strip())


def _words(text: str) -> Phrase:
    """The words of `text`: runs of letters, marks and digits. Apostrophes fall out, so that "don't" is "dont"."""
    plain = text.replace("'", "").replace("’", "")
    return tuple("".join(character if _is_of_a_word(character) else " " for character in plain).split())


def _is_of_a_word(character: str) -> bool:
    return unicodedata.category(character)[0] in "LMN" and character not in _EMOJI_PARTS


def _is_made_of(words: Phrase, phrases: frozenset[Phrase], fillers: frozenset[Phrase]) -> bool:
    """True if `words` can be cut into `phrases` and `fillers`, at least one phrase among them."""
    reached = {(0, False)}
    for start in range(len(words)):
        for had_phrase in (False, True):
            if (start, had_phrase) not in reached:
                continue
            for end in range(start + 1, len(words) + 1):
                piece = words[start:end]
                if piece in phrases:
                    reached.add((end, True))
                elif piece in fillers:
                    reached.add((end, had_phrase))
    return (len(words), True) in reached


def _longest_start(words: Phrase, phrases: frozenset[Phrase]) -> int:
    """The number of words in the longest of `phrases` that `words` begin with."""
    return max((end for end in range(1, len(words) + 1) if words[:end] in phrases), default=0)
