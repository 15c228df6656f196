"""The words that the model knows."""

from __future__ import annotations

import re
from typing import Final


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _numbered(text: str) -> dict[str, int]:
    return {word: number for number, word in enumerate(text.split(), 1)}


def _pairs(text: str) -> dict[str, str]:
    """Read pairs such as "bought:buy whats:what_is"."""
    pairs = (pair.split(":") for pair in text.split())
    return {word: meaning.replace("_", " ") for word, meaning in pairs}


ACTION_VERBS: Final = words("""
    approve ask assemble assign back bake book borrow bring brush build buy call cancel change charge chase check choose
    clean clear close collect confirm cook copy cut decorate defrost deliver deposit descale dispute do donate download
    drink drop dry dust email empty enter exercise feed file fill finalize find finish fix fold get give go grab groom hand
    hang heat help inform install invite invoice iron join knit learn look mail make marinate measure meet mend mop mount
    move mow notify oil order organize pack package paint paste pay peel phone pick plan plant plug polish post practice
    practise prepare press print prune pull push put rake read receive record recycle refill refund register renew rent
    reorder repair replace reply repot reschedule reserve restock return review rewrite ring rinse rsvp run save scan
    schedule scrub seal sell send serve service sew sharpen ship shop shovel shred sign sort speak stain start stitch stop
    store stretch study submit swap sweep switch take talk teach tell text thank throw tidy train treat trim unload unpack
    unplug update upgrade upload use vacuum visit vote wait walk warm wash water weed wipe wrap write zip
""")
"""Verbs that begin the description of a task: "buy eggs", "call mom"."""

IRREGULAR: Final = _pairs("""
    ate:eat bought:buy broken:break brought:bring built:build cut:cut did:do done:do drove:drive fed:feed gave:give
    given:give gone:go got:get gotten:get hung:hang kept:keep made:make met:meet paid:pay put:put ran:run rang:ring
    read:read sent:send set:set sold:sell spoke:speak spoken:speak swept:sweep taken:take taught:teach threw:throw
    thrown:throw told:tell took:take went:go written:write wrote:write
""")
"""Irregular past forms and participles, with their verbs."""
NO_CHORE: Final = words("""
    enjoyed loved liked missed noticed wanted needed remembered spilled passed happened stayed worked arrived misplaced
    damaged asked stopped waited met finished completed cried lived
""")
"""Past forms of what is felt or happens. They report no chore, unless something was moved ("dropped the box off")."""
SAME_IN_PAST: Final = words("read put cut rent set shut")
"""Past forms that are no report on their own: "cut the grass" may be an order."""

DIGITAL: Final = words("""
    alarm app song music playlist podcast photo picture weather forecast temperature news timer timezone volume brightness
    wifi website thermostat language translation definition password pin dollar euro currency bitcoin crypto score
    transaction traffic uber history message chat notification volume screen tv netflix spotify youtube twitter bass device
    transfer pto sequence sentence
""")
"""Nouns of other services, without a plural s."""
FOREIGN: Final = DIGITAL | words("""
    account bank calendar card checking credit deposit email exchange flight gas hotel insurance interest loan meeting money
    order payment phone reservation saving statement tax ticket train vacation voice purchase plane
""")
"""Nouns that requests to other services are about. They may also occur in a chore."""
ORDERS: Final = words("""
    play turn translate sing convert define spell draw summarize solve calculate navigate recommend suggest explain describe
    generate raise mute increase decrease transfer locate snooze
""")
"""Verbs of requests to an assistant that are not about tasks: "play some jazz"."""

_SHORT: Final = _pairs("""
    u:you w:with ur:your pls:please plz:please thx:thanks abt:about teh:the wat:what tmrw:tomorrow bc:because nd:and
    todos:todos todo:todo del:delete okay:ok k:ok appt:appointment im:i_am ive:i_have youre:you_are theyre:they_are
    cant:can_not wont:will_not cannot:can_not lets:let_us gonna:going_to wanna:want_to gotta:got_to lemme:let_me
    gimme:give_me rn:right_now nvm:never_mind nevermind:never_mind lst:list shw:show tommorow:tomorrow
""")
SPELLING: Final = (
    _SHORT
    | {f"{word}s": f"{word} is" for word in words("what who where when how that there")}
    | {f"{verb}nt": f"{verb} not" for verb in words("do did does is are was have has should could would")}
)
"""Short and misspelt forms of chats, with the words they stand for."""
BEFORE_TO: Final = words("me need have want got gotta remember forget i us")
TAKES_IS: Final = words("what who that it there he she here how where when which this everything nothing")
AFTER_IS: Final = words("complete been all already now finally ready over taken out in clean gone")

COMMAND_WORDS: Final = _numbered(
    "show delete remove remind reminder reminders complete completed finished finish rename change update create tasks task"
    " todos display list mark remember please done"
)
"""Words that are recognized when they are misspelt by one letter; the first of two that are near is meant."""
LOOKALIKES: Final = words("""
    deleted removed renamed changed updated marked reminded reminding dune last lost just talk ask mask chance snow park
    dark market mall shoe disk
""")

CARDINALS: Final = _numbered("one two three four five six seven eight nine ten")
ORDINALS: Final = (
    _numbered("first second third fourth fifth sixth seventh eighth ninth tenth")
    | dict.fromkeys(("top", "newest", "latest"), 1)
    | dict.fromkeys(("last", "bottom", "final", "oldest"), -1)
)

SUBJECTS: Final = words("i you he she it we they me us")
MODALS: Final = words("can could should would may might will")
QUESTION_WORDS: Final = MODALS | words(
    "what who whose whom where when why how which is are am was were do does did has have had any anything"
)
SEE: Final = words("""
    show list display view see read print give tell open bring get fetch check review go run look recite repeat hear know
    find remind name present recap summarize share recall update say count search pull walk confirm double filter iterate
""")
"""Verbs of an order to show something."""
STATES: Final = words("""
    open left remaining pending outstanding next missing completed complete finished finish unfinished incomplete undone
    done else many remain remains
""")
"""Words that make it a question about tasks even without "I": "what is left?"."""
SHOW_ALONE: Final = words(
    "list show display print current status agenda overview progress summary pending open completed outstanding remaining todo"
    " todos tasks"
)
ABOUT_OTHERS: Final = words("who whom whose why where when")
DUTIES: Final = STATES | words(
    "remind things items tick ticked cross crossed do doing done remember reminded reminding forgetting supposed plate must got"
    " saved noted jotted wrote recorded listed"
)
_LISTING: Final = words("""
    your the a an my mine our all some of on in at from to for with about up out off over through down back and that
    this these those there here its task tasks todo todos reminders item thing stuff everything something be been having
    current currently active existing new old other another more full whole entire still yet already not so far only
    last now right again please today later set made created add added gotten ask asked various different upcoming
    personal daily rundown copy overview summary contents content status number much whatever exactly scheduled waiting
    written put together like wanted want need needed onto trying available going seeing along memory quick quickly kind
    sort sure told help earlier before planned lined working let each one ones point points top few agenda updated
    included including jobs job backlog docket meant once lot kindly love screen peek glance noting needs even plus just
    looking round s
""")
SHOW_WORDS: Final = _LISTING | SEE - words("call explain describe name") | QUESTION_WORDS | SUBJECTS - words("he she") | DUTIES
"""All the words of a question such as "what else do I still have to do today"."""
OPENS: Final = SEE | QUESTION_WORDS | words("just everything something ones tasks")
ABOUT_WORDS: Final = words("if whether look already include included word words moment reminder")
FIRST_PERSON: Final = words("i me my mine we us our")
_REMARKS: Final = words("""
    your that's be been not never very really lol haha ha hm hmm hmmm wow huh yay ugh oh ah ooh please sorry thanks
    thank hello hi hey yes no ok must always just too so love hate like think guess bye because if although go good bad
    great fine nice cool awesome stupid dumb useless terrible funny crazy there here him
""")
NO_TASK: Final = QUESTION_WORDS | SUBJECTS | _REMARKS
"""Words that do not occur in a bare noun phrase such as "groceries" or "dentist friday"."""
NO_REFERENCE: Final = QUESTION_WORDS | words("show list view see tell tweet make")


def is_past(word: str) -> bool:
    """True for a past form or participle, by its form."""
    return word in IRREGULAR or (len(word) > 4 and word.endswith("ed") and word not in ACTION_VERBS and word != "hundred")


def base_form(word: str) -> str:
    """Return the base form of a verb of a chore: "buying" and "bought" give "buy"."""
    if word in ACTION_VERBS or word in IRREGULAR:
        return IRREGULAR.get(word, word)
    stem = re.sub(r"(?<=..)(?:ing|ed)$", "", word)
    bases = (stem, f"{stem}e", stem[:-1], f"{stem[:-1]}y") if stem != word else ()
    return next((base for base in bases if base in ACTION_VERBS), word)


def is_action(word: str) -> bool:
    return base_form(word) in ACTION_VERBS
