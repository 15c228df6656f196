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
    accept accomplish acknowledge amend announce apply approve arrange ask assemble assess assign attend audit authorize award
    babysit back backup bag bake balance bathe book borrow bring brush budget build burn buy call cancel cater certify change
    charge chase check choose circulate claim clean clear clip close collect compare compile complete compose compost confirm
    consult contact cook copy cover crochet cut darn debug declutter decorate defrost deliver deposit descale design dig dispute
    do donate download draft drain drink drop dry dust dye edit email empty enroll enter evaluate exchange exercise export
    extend feed fertilize fetch figure file fill film finalize find finish fit fix fold follow format forward frame freeze frost
    fund gather get give glue go grab grade grease grill groom hand hang harvest heat help hem hire hoover host import improve
    inflate inform inspect install insure interview invest invite invoice iron join knit label laminate launch lay learn lease
    lend load lock look mail make manage marinate massage measure meditate meet mend merge mop mount move mow mulch nap notify
    obtain oil order organise organize outline pack package paint park paste patch pay peel perform phone photocopy photograph
    pick plan plant plug polish post pour practice practise pray prep prepare press print produce proofread propose provide
    prune publish pull pump punch purchase purge push put rake read rebook rebuild receive recharge record recruit recycle redo
    reduce refill refresh refund register rehearse reheat renew rent reorder repaint repair repay replace reply repot reschedule
    research reserve reset resolve respond rest restock restore resubmit retrieve return review revise rewrite ring rinse roast
    rotate rsvp rub run sand save scan schedule screw scrub seal secure see sell send serve service settle sew shampoo sharpen
    shave shelve ship shop shovel shred sift sign sketch skim sort source speak split sponsor spray spread stack stain stamp
    start steam sterilize stitch stock stop store stretch strip study submit subscribe supply swap sweep swim switch tag take
    talk tape teach tell text thank throw tidy tighten tip toast top train transcribe treat trim try tune unclog uninstall
    unload unlock unpack unplug unsubscribe update upgrade upload use vacate vaccinate vacuum verify visit volunteer vote wait
    walk warm warn wash water wax weed weigh wipe withdraw worm wrap write zip
""")
"""Verbs that begin the description of a task: "buy eggs", "call mom"."""

IRREGULAR: Final = _pairs("""
    ate:eat bought:buy broken:break brought:bring built:build chose:choose chosen:choose cut:cut did:do done:do drank:drink
    drove:drive dug:dig fed:feed gave:give given:give gone:go got:get gotten:get hung:hang kept:keep knit:knit laid:lay
    lent:lend made:make met:meet paid:pay put:put ran:run rang:ring read:read sent:send set:set sewed:sew sold:sell spoke:speak
    spoken:speak swam:swim swept:sweep taken:take taught:teach threw:throw thrown:throw told:tell took:take went:go
    written:write wrote:write
""")
"""Irregular past forms and participles, with their verbs."""
NO_CHORE: Final = words("""
    arrived asked completed cried damaged enjoyed finished happened liked lived loved met misplaced missed needed noticed
    passed remembered spilled stayed stopped waited wanted worked
""")
"""Past forms of what is felt or happens. They report no chore."""
SAME_IN_PAST: Final = words("read put cut rent set shut")
"""Past forms that are no report on their own: "cut the grass" may be an order."""

DIGITAL: Final = words("""
    alarm app bass beat bitcoin bluetooth brightness chat crypto currency definition device dollar euro forecast history
    language message music netflix news notification password photo picture pin playlist podcast pto score screen sentence
    sequence song spotify temperature thermostat timer online timezone traffic transaction transfer translation tv twitter uber
    volume weather website wifi youtube
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

_SHORT: Final = _pairs("""
    u:you w:with ur:your pls:please plz:please thx:thanks abt:about teh:the wat:what wats:what_is tmrw:tomorrow bc:because
    nd:and todos:todos todo:todo del:delete okay:ok k:ok appt:appointment im:i_am ive:i_have youre:you_are theyre:they_are
    cant:can_not wont:will_not cannot:can_not lets:let_us gonna:going_to wanna:want_to gotta:got_to lemme:let_me
    gimme:give_me rn:right_now nvm:never_mind nevermind:never_mind lst:list shw:show tommorow:tomorrow
    can't:can_not won't:will_not let's:let_us
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
    drone chance changed changes created deleted dine displayed dose dune last lift lisa lists lost marc mare marks mars
    mart mary mask pleased reminded reminding reminds remote removed removes renamed rewind shoe shop shot shown shows slow
    snow tack tank tusk updated updates
""")
"""Words that are not misspelt, although they are one letter from such a word."""

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
    bring check confirm count display double fetch filter find get give go hear iterate know list look name open present
    print pull read recall recap recite remind repeat review run say search see share show summarize tell update view walk
""")
"""Verbs of an order to show something."""
_LISTING: Final = words("""
    a about active add added again agenda all along already an and another ask asked at available back backlog be been
    before by complete completed copy created cross crossed current currently doing done down each earlier else entire even
    everything exactly existing far few finish finished first for forget forgetting from full going got gotten having help
    here i if in include including it item items its just kind last later left let like lined listed looking lot ls made
    make many me meant memory mine missing moment more much must my need needed needs new next not noted nothing now of off
    old on once one ones only onto other our out outstanding over pending planned plate please plus put quick quickly
    recorded remain remaining remains remember reminded reminder reminders reminding right round rundown s saved scheduled
    screen seeing set so some something sort status still stuff summary supposed sure task tasks that the then there these
    they thing things think this those thought through tick ticked to today todo todos together told top trying up upcoming
    updated us waiting want wanted we whatever whether whole with word words working written wrote yet you your
""")
SHOW_WORDS: Final = _LISTING | QUESTION_WORDS | SEE - words("call explain describe name")
"""All the words of a question such as "what else do I still have to do today"."""
_REMARKS: Final = words("""
    although always bad be because been cool fine go good great guess haha hate he hello here hey hi him hm hmm i if it just
    like lol love me must never nice no not ok please really she so sorry thank thanks that's there they think too us very
    we wow yes you your
""")
NO_TASK: Final = QUESTION_WORDS | _REMARKS
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
