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
    apply approve arrange ask assemble assign back bake balance bathe book borrow bring brush build buy call cancel
    change charge chase check choose clean clear close collect compare compose confirm contact cook copy cut declutter
    decorate defrost deliver deposit descale design dispute do donate download draft drain drink drop dry dust edit
    email empty enter exchange exercise feed figure file fill finalize find finish fix fold follow freeze gather get
    give go grab grill groom hand hang heat help hire host improve inform inspect install invite invoice iron join knit
    learn load look mail make manage marinate measure meet mend mop mount move mow notify oil order organise organize
    pack package paint park paste pay peel phone pick plan plant plug polish post practice practise prepare press print
    prune pull pump purchase push put rake read receive record recycle refill refund register renew rent reorder repair
    replace reply reschedule research reserve restock return review rewrite ring rinse rsvp run save scan schedule scrub
    seal sell send serve service sew sharpen ship shop shovel shred sign sort speak split stain start stitch stop store
    stretch study submit swap sweep swim switch take talk teach tell text thank throw tidy train treat trim unload
    unpack unplug update upgrade upload use vacuum visit volunteer vote wait walk warm warn wash water weed weigh wipe
    wrap write zip
""")
"""Verbs that begin the description of a task: "buy eggs", "call mom"."""

IRREGULAR: Final = _pairs("""
    ate:eat bought:buy broken:break brought:bring built:build chosen:choose cut:cut did:do done:do drank:drink
    driven:drive drove:drive dug:dig fed:feed found:find gave:give given:give gone:go got:get gotten:get held:hold
    hung:hang kept:keep left:leave lent:lend made:make met:meet paid:pay put:put ran:run rang:ring read:read rode:ride
    sent:send set:set sewed:sew shut:shut sold:sell spoke:speak spoken:speak swam:swim swept:sweep taken:take
    taught:teach threw:throw thrown:throw told:tell took:take torn:tear went:go won:win written:write wrote:write
""")
"""Irregular past forms and participles, with their verbs."""
NO_CHORE: Final = words("""
    enjoyed loved liked hated missed noticed wanted needed lived believed remembered spilled failed passed happened
    stayed worked decided played cried died arrived misplaced damaged asked stopped waited found met won broken finished
    completed
""")
"""Past forms of what is felt or happens. They report no chore, unless something was moved ("dropped the box off")."""
SAME_IN_PAST: Final = words("read put cut rent set shut")
"""Past forms that are no report on their own: "cut the grass" may be an order."""

DIGITAL: Final = words("""
    alarm app song music playlist podcast radio movie photo picture weather forecast temperature news joke timer
    timezone volume brightness bluetooth wifi website internet system device thermostat language translation definition
    spelling synonym essay poem password pin dollar euro currency bitcoin crypto salary score transaction transfer limit
    routing traffic gps direction uber lyft calories nutrition history message chat conversation notification volume
    screen sentence sequence pto bass trivia fact tv netflix spotify youtube twitter
""")
"""Nouns of other services, without a plural s."""
FOREIGN: Final = DIGITAL | words("""
    account airline bank calendar card checking credit deposit email event exchange flight gas hotel income insurance
    interest loan luggage meeting money mortgage order payment phone plane purchase refund reservation saving statement
    tax ticket train vacation visa voice
""")
"""Nouns that requests to other services are about. They may also occur in a chore."""
ORDERS: Final = words("""
    play turn translate sing convert flip roll define spell wake skip pause draw summarize solve calculate navigate
    recommend suggest explain describe guess generate dim raise lower mute increase decrease restart transfer locate
    snooze shuffle multiply
""")
"""Verbs of requests to an assistant that are not about tasks: "play some jazz"."""

_SHORT: Final = _pairs("""
    u:you w:with ya:you ur:your r:are pls:please plz:please thx:thanks ty:thanks abt:about bout:about teh:the wat:what
    lst:list shw:show tmrw:tomorrow tommorow:tomorrow cuz:because bc:because em:them nd:and an':and w/:with todos:todos
    todo:todo del:delete okay:ok k:ok kk:ok appt:appointment im:i_am ive:i_have youre:you_are theyre:they_are
    cant:can_not wont:will_not cannot:can_not lets:let_us gonna:going_to wanna:want_to gotta:got_to lemme:let_me
    gimme:give_me rn:right_now nvm:never_mind nevermind:never_mind
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
    deleted removed renamed changed updated created marked listed reminded reminding dune last lost just talk ask tank mask
    made makes charge chance shown snow slow shop park dark market mall does gone none shoe desk disk date
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
    show list display view see read print give tell open pull bring get fetch check review go run walk look recite
    repeat hear know find remind name describe present recap summarize summarise share recall confirm refresh catch call
    update explain say dictate count iterate double search filter
""")
"""Verbs of an order to show something."""
STATES: Final = words("""
    open left remaining remain remains pending outstanding next missing completed complete finished finish accomplished
    unfinished incomplete undone done else many
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
