"""The words that the grammar knows."""

from __future__ import annotations

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

CHORES_PAST: Final = words(
    """
    ate bought booked brought brushed called cancelled canceled changed charged cleaned cleared collected cooked defrosted
    deposited donated dropped dusted emailed emptied exercised fed filed got grabbed spoke filled fixed folded groomed
    handed hung installed ironed mailed made mopped mowed ordered organized packed paid painted picked planted posted
    practiced printed raked recycled refilled registered renewed repaired replaced replied researched returned reviewed
    scheduled scrubbed
    sent shipped shovelled shoveled signed sold sorted studied submitted swept texted tidied trimmed updated vacuumed
    visited walked washed watered weeded wiped wrapped wrote
    """
)
"""Past forms that report a chore: "I called mom"."""

FOREIGN: Final = words(
    """
    account accounts airline alarm alarms album amazon app apps apr article balance bitcoin blinds blog bluetooth brightness
    browser calories camera card cards cartoon celsius checkbook checking chords clue coin conversion crypto currency debt
    declined definition deposit dice die direction directions directory dollars email emails episode euros exchange
    fahrenheit file files fact facts flight flights folder forecast fuel gas gate gps holiday holidays horoscope hotel
    hotels humidity income ingredients insurance interest joke jokes kilometers language layover lights limit loan luggage
    lyft lyrics maps message messages meeting meetings mileage miles mode money mortgage movie movies mpg music nasdaq
    navigation netflix network news notification notifications nutrition order orders package password payment payments
    paycheck photo photos picture pictures pin plane playlist podcast poem police pto purchase radio recipe recipes refund
    reservation reservations restaurant restaurants riddle routing salary savings score screenshot sentence song songs
    speaker spelling spotify statement station stock stocks stopwatch story streaming subscription subscriptions synonym tax
    temperature thermostat ticket tickets timer timers timezone tire tires traffic train transaction transactions
    translation trivia tune twitter uber vacation vaccination visa voice volume w2 weather website wifi youtube contact
    contacts calendar event events device script program essay code phone laptop bank credit friend database
    system screen data
    """
)
"""Nouns of other services. A request about them is not about a task, unless it names a task, a list or a reminder."""

ORDERS: Final = words(
    """
    play turn translate sing convert flip roll define spell wake skip pause draw summarize summarise solve pretend track
    connect calculate compute google navigate drive whisper speak recommend suggest explain describe guess compose generate
    dim raise lower mute unmute increase decrease restart dial transfer locate shut write
    """
)
"""Verbs of requests to an assistant that are not about tasks: "play some jazz"."""

QUESTION_WORDS: Final = words(
    """
    what whats what's who whos who's whose whom where wheres where's when whens when's why how hows how's which is are am
    was were do does did can could should would will won't wouldn't shouldn't may might has have had isn't aren't don't
    doesn't didn't ain't
    """
)

COMMAND_WORDS: Final = (
    "show", "delete", "remove", "remind", "reminder", "reminders", "complete", "finished", "finish", "rename", "change",
    "update", "create", "tasks", "task", "todos", "display", "list", "mark", "remember",
)  # fmt: skip
"""Words that are recognized when they are misspelt."""
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

NO_REFERENCE: Final = QUESTION_WORDS | words("show list view see tell tweet make")
MODALS: Final = words("can could should would may might will won't wouldn't shouldn't")
SHOW_OPENERS: Final = (QUESTION_WORDS - MODALS - words("why whom")) | words(
    """
    show list display view see read print give tell open pull bring get fetch check review go run walk look recite repeat
    hear know find remind name describe access present recap summarize summarise share any anything let all pending open
    recall confirm completed finished refresh catch call update explain enumerate narrate iterate inform dictate
    """
)
"""Words that begin a question about the list or an order to show it."""
SHOW_WORDS: Final = (
    (SHOW_OPENERS - words("find call explain describe name"))
    | QUESTION_WORDS
    | words(
        """
    me us i i'm i've i'd am you your we the a an my mine our any all some of on in at from to for with about up out off over
    through down back and that this these those there here it its task tasks todo todos to-do to-dos to-do's todo's reminder
    reminders chore chores list lists item items thing things stuff everything anything something be been do doing done
    having left remaining remain remains pending outstanding current currently active existing new old other another more
    full whole entire complete unfinished incomplete uncompleted undone still yet already not so far only else next last now
    right again please today later saved set made created added got gotten ask asked remember reminded reminding forgetting
    missing various different upcoming personal daily rundown copy overview summary contents status number many much
    whatever say says said exactly today's week's scheduled waiting written put together like wanted want need needed must
    supposed off onto trying available going seeing along memory plate quick quickly kind sort sure told help earlier before
    accomplished finish planned lined working gotta it's that's haven't hasn't list's
    """
    )
)
"""All the words of a question such as "what else do I still have to do today"."""
FIRST_PERSON: Final = words("i i'm i've i'd me my mine we us")
DUTIES: Final = words(
    """
    open do doing done remember remind reminded reminding forgetting missing finish finished complete completed accomplished
    supposed plate next pending outstanding remaining left must
    """
)
LEFT: Final = words("open left next pending outstanding remaining completed finished done")
"""Words that make it a question about tasks even without "I": "what's left?"."""
NO_TASK: Final = words(
    """
    i i'm i've i'd i'll you you're your he she it's it we they me us that's this was were is are am been be don't not never
    very really lol haha ha hm hmm hmmm wow huh yay ugh oh ah ooh please sorry thanks thank hello hi hey yes no ok okay what
    who where when why how which whatever can could will would should may might must always just too so love hate like think
    guess bye because if although shut go good bad great fine nice cool awesome stupid dumb useless terrible funny crazy
    there here
    """
)
"""Words that do not occur in a bare noun phrase such as "groceries" or "dentist friday"."""
