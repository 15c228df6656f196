"""The words that the model knows."""

from __future__ import annotations

import re
from typing import Final


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _numbered(text: str) -> dict[str, int]:
    return {word: number for number, word in enumerate(text.split(), 1)}


def pairs(text: str) -> dict[str, str]:
    """Read pairs such as "bought:buy whats:what_is"."""
    split = (pair.split(":") for pair in text.split())
    return {word: meaning.replace("_", " ") for word, meaning in split}


ACTION_VERBS: Final = words("""
    accept apply approve arrange ask assemble assess attend audit authorize babysit back backup bake balance bathe book borrow
    bring brush budget build buy call cancel change charge chase check choose claim clean clear clip close collect compare
    compile complete compost confirm consult contact cook copy cover cut debug declutter decorate defrost deliver deposit
    descale design dig dispute do donate download draft drain drink drive drop dry dust edit email empty enroll exchange
    exercise export feed fertilize fetch figure file fill film finalize find finish fit fix fold follow format forward frame
    freeze frost gather get give go grab grade grill groom hand hang harvest heat help hem hire hoover host import improve
    inform inspect install insure invite invoice iron join knit label laminate launch lay learn lease load lock look mail make
    manage marinate measure meditate meet mend merge mop move mow mulch notify oil order organise organize outline pack package
    paint park paste patch pay phone photograph pick plan plant plug polish post practice practise pray prep prepare press print
    produce proofread publish purchase put rake read recharge record recycle redo refill refresh register reheat renew rent
    reorder repaint repair replace reply repot reschedule research reserve restock restore return review revise rewrite ring
    rinse rsvp run save scan schedule screw scrub seal see sell send service sew sharpen ship shop shovel shred sign sort speak
    split spray stain start steam stock stop store study submit subscribe swap sweep swim switch take talk teach tell text thank
    throw tidy train trim try unclog uninstall unload unlock unpack unplug unsubscribe update upgrade upload use vacuum verify
    visit volunteer vote wait walk warm wash water wax weed wipe withdraw wrap write zip
""")
"""Verbs that begin the description of a task: "buy eggs", "call mom"."""

IRREGULAR: Final = pairs("""
    ate:eat bought:buy brought:bring built:build cut:cut did:do done:do drank:drink fed:feed gave:give given:give gone:go
    found:find got:get gotten:get hung:hang kept:keep made:make met:meet paid:pay put:put ran:run rang:ring read:read
    sent:send set:set sold:sell spoke:speak swept:sweep taken:take threw:throw thrown:throw told:tell took:take went:go
    written:write wrote:write rent:rent shut:shut
""")
"""Irregular past forms and participles, with their verbs. One that equals its verb reports nothing: "cut the grass"."""
NO_CHORE: Final = words("""
    arrived asked completed cried damaged enjoyed finished happened liked loved met misplaced missed needed wanted worked
""")
"""Past forms of what is felt or happens. They report no chore."""

DIGITAL: Final = words("""
    alarm app bass beat bitcoin bluetooth brightness chat crypto currency device dollar euro forecast history language message
    music netflix news notification password photo picture pin playlist podcast pto score screen sentence sequence song spotify
    temperature thermostat timer traffic transfer translation tv twitter uber volume weather website wifi youtube
""")
"""Nouns of other services, without a plural s."""
FOREIGN: Final = DIGITAL | words("""
    account bank calendar card checking credit deposit email exchange flight gas hotel insurance interest loan meeting money
    order payment phone plane purchase reservation saving statement tax ticket train vacation voice
""")
"""Nouns that requests to other services are about. They may also occur in a chore."""
ORDERS: Final = words("""
    calculate convert decrease define describe draw explain generate increase locate mute navigate play raise recommend sing
    snooze solve spell suggest summarize transfer translate turn
""")
"""Verbs of requests to an assistant that are not about tasks: "play some jazz"."""

TAKES_IS: Final = words("what who that it there he she here how where when which this everything nothing")
AFTER_IS: Final = words("complete been all already now finally ready over taken out in clean gone")
_SHORT: Final = pairs("""
    u:you r:are w:with ur:your pls:please plz:please thx:thanks abt:about teh:the wat:what wats:what_is tmrw:tomorrow bc:because
    del:delete okay:ok k:ok im:i_am ive:i_have youre:you_are theyre:they_are cant:can_not wont:will_not cannot:can_not
    lets:let_us gonna:going_to wanna:want_to gotta:got_to lemme:let_me gimme:give_me rn:right_now nvm:never_mind
    nevermind:never_mind lst:list lsit:list lits:list shw:show shwo:show taks:tasks tommorow:tomorrow can't:can_not
    won't:will_not let's:let_us em:them
""")
SPELLING: Final = (
    _SHORT
    | {f"{word}s": f"{word} is" for word in TAKES_IS - {"it"}}
    | {f"{verb}nt": f"{verb} not" for verb in words("do did does is are was have has should could would")}
)
"""Short and misspelt forms of chats, with the words they stand for."""

COMMAND_WORDS: Final = tuple(
    _numbered(
        "show delete remove remind reminder complete completed finish finished rename change update create tasks task display"
        " list mark remember please anything"
    )
)
"""Words that are recognized when they are misspelt by one letter; the first of two that are near is meant."""

CARDINALS: Final = _numbered("one two three four five six seven eight nine ten")
ORDINALS: Final = (
    _numbered("first second third fourth fifth sixth seventh eighth ninth tenth")
    | dict.fromkeys(("top", "newest", "latest"), 1)
    | dict.fromkeys(("last", "bottom", "final", "oldest"), -1)
)

FIRST_PERSON: Final = words("i me my mine we us our")
MODALS: Final = words("can could should would may might will")
ABOUT_OTHERS: Final = words("who whom whose why where when")
QUESTION_WORDS: Final = MODALS | ABOUT_OTHERS | words("what how which is are am was were do does did has have had any anything")
SEE: Final = words("""
    bring check confirm count display double fetch filter find get give go hear iterate know list look open print pull read
    recall recap recite remind repeat review run say search see share show summarize tell update view walk
""")
"""Verbs of an order to show something."""
_LISTING: Final = words("""
    a add added again already an and another ask asked at back be before coming currently doing down each earlier else even
    exactly far few finish first for forget forgetting from going got having help here i if in it item items its just kind last
    left let like looking lot ls made many me meant mine missing moment more most much must my need needed needs new next not
    noted of off old on once one ones only or other our out over please put quickly remain remains remember reminded right round
    run rundown s saved screen set so some something sort status still stuff supposed sure task that the then there these they
    thing things this those through tick to today told top trying up us want wanted we whether word working written wrote yet
    you your
""")
SHOW_WORDS: Final = _LISTING | QUESTION_WORDS | SEE
"""All the words of a question such as "what else do I still have to do today"."""
_REMARKS: Final = words("""
    be because cool fine go good great haha hate he hello here hey hi i if it just like lol love me never nice no not ok please
    really she so sorry thank thanks there they think too very we wow yes you your
""")
NO_TASK: Final = QUESTION_WORDS | _REMARKS
"""Words that do not occur in a bare noun phrase such as "groceries" or "dentist friday"."""
SAYINGS: Final = NO_TASK | words("""
    a about again all also am an and at bad case continued day doubt fact fair for free happen honest hurry idea im in instead
    its kidding know last later least mean much my no now of off on one pleasure problem quick quits record right rush same stop
    that the then this to trouble up way well with work worries wrong yet
""")
"""Words of short remarks such as "no worries" and "for the record": they correct nothing."""


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
