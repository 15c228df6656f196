"""The words that the grammar knows."""

from __future__ import annotations

import re
from typing import Final


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ACTION_VERBS: Final = words(
    """
    achieve adopt apply arrange ask assemble attend back backup bake bathe bind book borrow bring brush budget build burn
    buy call cancel caulk change charge check choose clean clear close collect compare complete confirm contact cook copy
    cut darn debug declutter decorate defrost deliver deposit descale design disinfect do donate download draft drink drop
    dry dust edit email empty enroll enter exercise exchange feed fetch figure file fill finalize find finish fix fold
    follow forward freeze frame fund gather get give go grab grease grill groom hand hang harvest help hire host hoover install
    insure invest invite iron jog join journal knit label launder learn lock look mail make measure meditate meet mend mop
    move mow negotiate nap oil order organise organize pack paint park patch pay pick plan plant polish post practice
    practise pray prep prepare print proofread prune pull purchase push put rake read rebook recharge record recycle refill
    refinance refund register rehearse relax renew rent repair repay replace reply repot research reserve respond rest
    restock return review revise ring rinse rotate rsvp run sand save scan schedule scrub seal see sell send service sew
    sharpen ship shop shovel shred sign sketch sort speak spray stain start steam stock stretch stop store study submit
    sweep swim switch take talk tax teach tell text thank thaw throw tidy tighten tip top trade train transplant trim try
    tune tweeze unclog unlock unpack unplug update upgrade upload use vacuum visit volunteer vote wait walk warm wash water
    wax weed weigh wipe withdraw wrap write
    """
)
"""Verbs that begin the description of a task: "buy eggs", "call mom"."""

PAST_FORMS: Final = dict(
    pair.split(":")
    for pair in words(
        """
    ate:eat began:begin bought:buy brought:bring built:build chose:choose cut:cut did:do drank:drink fed:feed found:find
    froze:freeze gave:give got:get hung:hang knit:knit made:make met:meet paid:pay put:put ran:run rang:ring read:read
    rent:rent sent:send sewed:sew sold:sell spoke:speak swam:swim swept:sweep taught:teach thought:think threw:throw
    told:tell took:take wrote:write written:write taken:take given:give done:do chosen:choose frozen:freeze spoken:speak
    gotten:get went:go
    """
    )
)
"""Irregular past forms; the regular ones are recognized by their ending."""

FOREIGN: Final = words(
    """
    account airline alarm album amazon app apr balance bank bitcoin blinds blog bluetooth brightness browser calendar calories
    camera card cartoon celsius checkbook checking chords code coin contact conversion credit crypto currency data database
    debt declined definition device dice die direction directory dollar episode essay euro event exchange fahrenheit fact
    file flight folder forecast friend fuel gas gate gps holiday horoscope hotel humidity income ingredient interest joke
    kilometer language laptop layover lights limit loan luggage lyft lyric map meeting message mileage mode money mortgage
    movie mpg music nasdaq navigation netflix network news notification nutrition order package password paycheck payment
    phone photo picture pin plane playlist podcast poem police program pto purchase radio recipe refund reservation
    riddle routing salary saving score screen screenshot script sentence sequence song speaker spelling spotify statement
    station stock stopwatch story streaming subscription synonym system tax temperature thermostat ticket timer timezone tire
    traffic train transaction transfer translation trivia tune twitter uber vacation vaccination visa voice volume w2 weather
    website wifi youtube article clue deposit email insurance
    """
)
"""Nouns of other services, without a plural s. A request about them is not about a task, unless it names one or the list."""

ORDERS: Final = words(
    """
    play turn translate sing convert flip roll define spell wake skip pause draw summarize summarise solve pretend track
    connect calculate compute google navigate drive whisper speak recommend suggest explain describe guess compose generate
    dim raise lower mute unmute increase decrease restart dial transfer locate shut write
    """
)
"""Verbs of requests to an assistant that are not about tasks: "play some jazz"."""

NO_REPORT: Final = words(
    "finished completed asked began found looked stopped thought told tried used waited went let put ran met rested"
)
"""Past forms that hardly report a chore."""
_SUBJECTS: Final = words("i you u he she it we they me us ya")
MODALS: Final = words("can could should would may might will wo ca")
QUESTION_WORDS: Final = MODALS | words(
    """
    what whats who whos whose whom where wheres when whens why how hows which is are am was were do does did has have had isnt
    arent dont doesnt didnt ai any anything
    """
)
COMMAND_WORDS: Final = (
    "show", "delete", "remove", "remind", "reminder", "reminders", "complete", "completed", "finished", "finish", "rename",
    "change", "update", "create", "tasks", "task", "todos", "display", "list", "mark", "remember", "please",
)  # fmt: skip
"""Words that are recognized when they are misspelt by one letter."""
COMMAND_LOOKALIKES: Final = words(
    "talk last lists lost just marks make mask ask asks tank remains charge chance changes updates shows shown lest remembers"
)

_ORDINALS: Final = (
    "first", "1st", "second", "2nd", "third", "3rd", "fourth", "4th", "fifth", "5th",
    "sixth", "6th", "seventh", "7th", "eighth", "8th", "ninth", "9th", "tenth", "10th",
)  # fmt: skip
ORDINALS: Final = {word: number // 2 + 1 for number, word in enumerate(_ORDINALS)} | {
    "top": 1, "newest": 1, "latest": 1, "last": -1, "bottom": -1, "final": -1, "oldest": -1
}  # fmt: skip
CARDINALS: Final = {
    word: number
    for number, word in enumerate(["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"], 1)
}

SEE: Final = words(
    """
    show list display view see read print give gimme tell open pull bring get fetch check review go run walk look recite repeat
    hear know find remind name describe present recap summarize summarise share recall confirm refresh catch call update
    explain say dictate count iterate double
    """
)
"""Verbs of an order to show something."""
STATES: Final = words(
    """
    open left remaining remain remains pending outstanding next missing completed complete finished finish accomplished
    unfinished incomplete undone done else many
    """
)
"""Words that make it a question about tasks even without "I": "what's left?"."""
SHOW_ALONE: Final = words(
    "list show display print status agenda overview progress summary pending open completed outstanding remaining"
)
ABOUT_OTHERS: Final = words("who whos whom whose why where wheres when whens")
DUTIES: Final = STATES | words(
    "remind things items tick ticked cross crossed do doing done remember reminded reminding forgetting supposed plate must"
)
SHOW_WORDS: Final = (
    SEE - words("find call explain describe name") | QUESTION_WORDS | _SUBJECTS - words("he she") | DUTIES
    | words(
        """
        your the a an my mine our all some of on in at from to for with about up out off over through down back and that this
        these those there here its task tasks todo todos reminders list item thing stuff everything something be been having
        current currently active existing new old other another more full whole entire still yet already not so far only last
        now right again please today later saved set made created add added got gotten ask asked various different upcoming
        personal daily rundown copy overview summary contents content status number much whatever exactly scheduled waiting
        written put together like wanted want need needed onto trying available going seeing along memory quick quickly kind
        sort sure told help earlier before planned lined working gotta let lets each one ones point points top few s
        """
    )
)  # fmt: skip
"""All the words of a question such as "what else do I still have to do today"."""
FIRST_PERSON: Final = words("i me my mine we us")
NO_TASK: Final = QUESTION_WORDS | _SUBJECTS | words(
    """
    your he's i'll that's be been not never very really lol haha ha hm hmm hmmm wow huh yay ugh oh ah ooh please sorry thanks
    thank hello hi hey yes no ok okay must always just too so love hate like think guess bye because if although shut go good
    bad great fine nice cool awesome stupid dumb useless terrible funny crazy there here
    """
)  # fmt: skip
"""Words that do not occur in a bare noun phrase such as "groceries" or "dentist friday"."""
NO_REFERENCE: Final = QUESTION_WORDS | words("show list view see tell tweet make")


def plain_words(key: str) -> list[str]:
    """Return the words of a clause in lower case, without the endings of contractions: "i" for "i'm", "do" for "don't"."""
    return [re.sub(r"(?:'(?:s|m|ve|d|re|ll|t)|n't)$", "", word) for word in re.findall(r"\w[\w'-]*", key)]
