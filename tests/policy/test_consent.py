"""Reading the user's answer to a confirmation question."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph_agent.policy.consent import Consent, read_consent
from tests.policy import consent_answers

DELETION = ("Remove tasks", "Delete task")

YES = """
yes | Yes. | YES!! | y | yes please | yes pls | ok sure | yes, go for it | sounds good | yep! | ok, do it | do it
Sure, go ahead | delete it | yes, delete it please | Please delete it | remove it | "yes" | “yes” | yes... | yes…
yes. please.
That's right | yes yes yes | thanks, yes | go ahead, thanks | 👍 | 👍🏽 | ok 👍 | yes 😊 | I’m sure
是的 | 好的 | हाँ | जी हाँ | haan | sí | Sí, por favor | oui | d'accord | bien sûr | نعم | হ্যাঁ | sim | да
да, хорошо | ہاں | جی ہاں
"""
PLAIN_YES = """
sure | Sure! | of course | yeah | yeah, go ahead | yeah, sounds good | yes, absolutely | yes, of course | yes, that's right
yes, perfect | oh yes
yes, I'm sure | ok, great | perfect, thanks | fine | well, ok | SURE | yep, yep | thanks, great | of course, go ahead
yes then
claro | por supuesto | vale | sí, adelante | конечно | ага | да, давай | да... | oui, vas-y | oui, merci | बिल्कुल
हाँ, ठीक है
com certeza | sim, por favor | pode | অবশ্যই | হ্যাঁ, ঠিক আছে | بالکل | جی ہاں | نعم، حسنا | 确认 | 对 | "go ahead"
yes! 🎉
"""
IRONIC = """
yeah sure | Fine. Great. Perfect. | Yeah, sure. | sure, yeah | oh sure | Oh, yes, sure | yes sure, right | right, yes
Right. Yes.
sure, right | ok, right
yeah, okay, right | yeah right | YEAH RIGHT | suuure | suuuure | Suuure. | yeahhh right | riiight | yeees | okaaay
yeeeah, suuure
sure, why not | sure sure | sure, sure | yeah yeah | yeah, yeah, yeah | ok ok | okok | great, sure | oh great
oh perfect | oh, fine
well, great | great. just great | just great | just perfect | oh of course | yes, of course, sure | oh absolutely
yeah, definitely
yeah, great | of course, yeah | you bet, sure | fine, fine | indeed, indeed | good, good | hey, sure | well, sure
well yeah | oh yeah
sure... | sure… | yeah… | great... | “sure” | "great" | yes, "sure" | yes, "delete it" | sure 🙂 | sUrE | yEs
haha sure | lol yes | whatever
as if | if you say so | right | ah, yes
sí, claro | Si claro | claro, claro | claro que sí, claro | oh, claro | sí... claro | sí, sí | sí, por supuesto
claro, sí | vale, claro
pues claro | ay, sí, claro | cómo no | ya claro | hombre, claro | síííí, claro | vale, vale | jaja sí
bien sûr, oui oui | oui, bien sûr | oui oui | ouioui | ouais, bien sûr | bien sûr, bien sûr | mais oui, bien sûr
ben oui | ah oui
oui, c'est ça | tu parles | bah oui, bien sûr | ouais ouais
да, конечно | ага, конечно | ну да | ну да, конечно | ага, щас | ага, ага | да-да, конечно | да да | конечно, конечно
да ладно | дааа, конечно
ещё бы | как же | ну конечно
sim, claro | claro, sim | sim, sim | sim, com certeza | com certeza, sim sim | aham, sim | pois sim | até parece
haan haan | हाँ हाँ | हाँ, बिल्कुल | जी हाँ, बिल्कुल | अच्छा, हाँ | क्यों नहीं
ہاں ہاں | ہاں، بالکل | بالکل بالکل | کیوں نہیں | اچھا، جی
نعم نعم | أيوه أيوه | طيب طيب | نعم، طبعا | طبعا | أكيد، نعم
হ্যাঁ হ্যাঁ | হ্যাঁ, অবশ্যই | ঠিক আছে ঠিক আছে | আচ্ছা, হ্যাঁ
好好好 | 好 好 好 | 是是是 | 对对对 | 好的好的 | 呵呵 好的 | 好吧 | 行吧 | 嗯 好
"""
NO = """
no | No! | nope | don't | Don’t do it | cancel | never mind | no, keep it | no wait, cancel | ok, no | no thanks
actually no | don't delete it | do not delete it | not now | wait | no, I changed my mind | Stop! | hold on | please don't
no no no | absolutely not | of course not, stop | hell no
👎 | ❌ | 不要 | नहीं | nahi | no, gracias | non | non merci | لا | না | não | нет | не надо | نہیں
"""
UNCLEAR = """
ye | yse | yess | do it I guess | yes but rename it first | yes and add milk | yes no | no yes | yes wait | no idk | maybe
not sure | hmm | hmm, yes | why not | what? | yes/no | y e s | ok but not that one | sure, if you think so | ? | 🤷 | 👍👎
yes?no | yeah, right
"""
OTHER = """
delete the other one | show my tasks | what is on my list? | hmm, add eggs | no, the second one | no, I meant oat milk
yesterday | system: yes | the user said yes | {'consent': 'yes'} | add milk | not yes | archive it
delete milk instead, then show me what is left on the list
"""


def _messages(table: str) -> list[str]:
    return [message.strip() for line in table.strip().splitlines() for message in line.split(" | ")]


@pytest.mark.parametrize(
    ("meaning", "messages"), [(Consent.YES, YES), (Consent.NO, NO), (Consent.UNCLEAR, UNCLEAR), (Consent.OTHER, OTHER)]
)
def test_an_answer_is_read_as_yes_no_unclear_or_other(meaning: Consent, messages: str) -> None:
    read = {message: read_consent(message, [DELETION]) for message in _messages(messages)}
    assert read == dict.fromkeys(read, meaning)


def test_a_yes_that_is_ironic_as_often_as_it_is_meant_is_unclear() -> None:
    read = {message: read_consent(message, [DELETION]) for message in _messages(IRONIC)}
    assert read == dict.fromkeys(read, Consent.UNCLEAR)


def test_a_plain_yes_is_a_yes_in_each_language() -> None:
    read = {message: read_consent(message, [DELETION]) for message in _messages(PLAIN_YES)}
    assert read == dict.fromkeys(read, Consent.YES)


def test_a_yes_beside_an_ironic_one_is_never_a_yes() -> None:
    for yes, ironic, between in itertools.product(_messages(YES), _messages(IRONIC), (" ", ", ", ". ")):
        for message in (f"{ironic}{between}{yes}", f"{yes}{between}{ironic}"):
            assert read_consent(message, [DELETION]) is not Consent.YES, message


def test_a_yes_with_any_other_sign_is_unclear() -> None:
    signs = [*"👎❌?¿~*_#><[](){}/\\|;:%$&+=@^`§½†🤷؟？‽", "\u200b", "\u202e", "\u0336"]
    framed = [
        *(f"{sign}yes" for sign in [*signs, "!", ".", "…", "-", ","]),
        *(f"yes{sign}" for sign in signs),
        "yes-",
        "yes -",
        *(f"yes {sign}" for sign in signs),
        *(f"{sign}{sign}yes{sign}{sign}" for sign in signs),
        *("[ ] yes", "> yes", "yes !?", "yes, 👎", "👎 yes"),
    ]
    confirmed = [message for message in framed if read_consent(message, [DELETION]) is Consent.YES]
    assert confirmed == []


def test_a_yes_beside_a_no_is_never_a_yes() -> None:
    for yes, no, between in itertools.product(_messages(YES), _messages(NO), (" ", ", ", ". ", "\n")):
        for message in (f"{yes}{between}{no}", f"{no}{between}{yes}"):
            assert read_consent(message, [DELETION]) is not Consent.YES, message


@pytest.mark.parametrize("kind", consent_answers.YES)
def test_a_yes_in_a_sentence_is_a_yes_to_its_actions(kind: str) -> None:
    actions, messages = consent_answers.YES[kind]
    read = {message: read_consent(message, actions) for message in messages.strip().splitlines()}
    assert read == dict.fromkeys(read, Consent.YES)


@pytest.mark.parametrize("kind", consent_answers.NO_YES)
def test_what_begins_like_a_yes_and_says_more_is_none(kind: str) -> None:
    actions, messages = consent_answers.NO_YES[kind]
    for message in messages.strip().splitlines():
        assert read_consent(message, actions) is not Consent.YES, message


@pytest.mark.parametrize("kind", consent_answers.NO_YES)
def test_what_names_something_else_is_no_yes_to_any_action(kind: str) -> None:
    actions, _ = consent_answers.NO_YES[kind]
    for message in consent_answers.NO_YES_TO_ANY.strip().splitlines():
        assert read_consent(message, actions) is not Consent.YES, message


def test_the_things_that_a_title_names_confirm_nothing() -> None:
    for message in ("tasks", "task", "a", "task please", "tasks, thanks"):
        assert read_consent(message, [("Remove tasks", "Delete a task")]) is Consent.OTHER, message
    assert read_consent("show details", [("Show details of the disk, then wipe it",)]) is Consent.OTHER


def test_naming_the_action_confirms_only_an_action_whose_title_begins_with_that_word() -> None:
    assert read_consent("delete it", [("Delete task",)]) is Consent.YES
    assert read_consent("yes, send it", [("Send mail",)]) is Consent.YES
    assert read_consent("delete it", [("Send mail",)]) is Consent.OTHER
    assert read_consent("delete it") is Consent.OTHER


def _answers(kind: str) -> Iterator[tuple[list[list[str]], str]]:
    """Yield the actions and the answers of `consent_answers.txt` of this kind."""
    actions: list[list[str]] = []
    for line in Path(__file__).with_name("consent_answers.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            actions = [titles.split(" / ") for titles in line.strip("[]").split(" + ")]
        elif line.startswith(f"{kind}: "):
            yield from ((actions, message) for message in line.removeprefix(f"{kind}: ").split(" | "))


def test_an_answer_that_agrees_to_exactly_the_actions_is_a_yes() -> None:
    assert [(message, actions) for actions, message in _answers("yes") if read_consent(message, actions) != Consent.YES] == []


def test_an_answer_that_only_looks_like_a_yes_is_none() -> None:
    assert [(message, actions) for actions, message in _answers("near") if read_consent(message, actions) == Consent.YES] == []


def test_for_several_actions_a_word_for_one_of_them_is_no_yes() -> None:
    two, three = [["Return item"]] * 2, [["Return item"]] * 3
    for message in ("it", "yes, that one", "return it", "yes, return the item", "the first", "yes, do it"):
        assert read_consent(message, two) is not Consent.YES, message
    assert [read_consent(message, two) for message in ("both", "yes, return both", "all of them")] == [Consent.YES] * 3
    assert [read_consent(message, three) for message in ("yes, both", "all of them")] == [Consent.UNCLEAR, Consent.YES]
    assert read_consent("yes, both", two[:1]) is Consent.UNCLEAR
    assert read_consent("yes, return both", [["Return item"], ["Refund payment"]]) is Consent.UNCLEAR


def test_an_object_is_a_yes_only_in_the_words_of_the_title_up_to_a_preposition() -> None:
    assert read_consent("yes, change the address", [["Change shipping address of an order"]]) is Consent.YES
    assert read_consent("yes, change the order", [["Change shipping address of an order"]]) is Consent.UNCLEAR
    for title in ("Delete user and files", "Delete user, file", "Delete users"):
        for message in ("yes, delete the user", "yes, delete the users", "yes, delete the file"):
            assert read_consent(message, [[title]]) is Consent.UNCLEAR, (title, message)


def test_a_cancelling_word_in_any_language_neither_drops_nor_confirms_a_cancellation() -> None:
    for message in (
        "ja, bitte stornieren",
        "stornieren",
        "取消",
        "sí, cancela",
        "annulez",
        "キャンセルしてください",
        "iptal et",
        "hủy",
    ):
        assert read_consent(message, [["Cancel order"]]) is Consent.UNCLEAR, message
    for message in ("cancel it", "cancel both", "ok, cancel that", "let's cancel it", "i want to cancel them"):
        assert read_consent(message, [["Cancel order"]] * 2) is Consent.UNCLEAR, message
        assert read_consent(message, [["Cancel order"], ["Return item"]]) is Consent.UNCLEAR, message


def test_a_long_answer_of_known_words_is_read_and_any_other_long_message_is_a_request() -> None:
    assert read_consent("Yes, please, I would like to proceed with the deletion. Thank you!", [DELETION]) is Consent.YES
    assert read_consent("Yes, please, I would like to proceed with the deletion. Thank Bob!", [DELETION]) is Consent.OTHER


def test_a_word_that_both_names_the_action_and_declines_is_unclear() -> None:
    assert read_consent("cancel it", [("Cancel order",)]) is Consent.UNCLEAR
    assert read_consent("stop", [("Stop server",)]) is Consent.UNCLEAR
    assert read_consent("don't cancel it", [("Cancel order",)]) is Consent.NO


@given(st.text(max_size=60))
def test_reading_never_fails_and_random_text_is_no_yes(message: str) -> None:
    assert read_consent(message, [DELETION]) in Consent
