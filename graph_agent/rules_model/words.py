"""The words that the model knows."""

from __future__ import annotations

from typing import Final


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ACTION_VERBS: Final = words(
    """
    accept accomplish acknowledge amend announce apply approve arrange ask assemble assess assign attend audit authorize
    award babysit back backup bag bake balance bathe book borrow bring brush budget build burn buy call cancel cater
    certify change charge chase check choose circulate claim clean clear clip close collect compare compile complete
    compose compost confirm consult contact cook copy cover crochet cut darn debug declutter decorate defrost deliver
    deposit descale design dig dispute do donate download draft drain drink drop dry dust dye edit email empty enroll
    enter evaluate exchange exercise export extend feed fertilize fetch figure file fill film finalize find finish fit fix
    fold follow format forward frame freeze frost fund gather get give glue go grab grade grease grill groom hand hang
    harvest heat help hem hire hoover host import improve inflate inform inspect install insure interview invest invite
    invoice iron join knit label laminate launch lay learn lease lend load lock look mail make manage marinate massage
    measure meditate meet mend merge mop mount move mow mulch nap notify obtain oil order organise organize outline pack
    package paint park paste patch pay peel perform phone photocopy photograph pick plan plant plug polish post pour
    practice practise pray prep prepare press print produce proofread propose provide prune publish pull pump punch
    purchase purge push put rake read rebook rebuild receive recharge record recruit recycle redo reduce refill refresh
    refund register rehearse reheat renew rent reorder repaint repair repay replace reply repot reschedule research
    reserve reset resolve respond rest restock restore resubmit retrieve return review revise rewrite ring rinse roast
    rotate rsvp rub run sand save scan schedule screw scrub seal secure see sell send serve service settle sew shampoo
    sharpen shave shelve ship shop shovel shred sift sign sketch skim sort source speak split sponsor spray spread stack
    stain stamp start steam sterilize stitch stock stop store stretch strip study submit subscribe supply swap sweep swim
    switch tag take talk tape teach tell text thank throw tidy tighten tip toast top train transcribe treat trim try tune
    unclog uninstall unload unlock unpack unplug unsubscribe update upgrade upload use vacate vaccinate vacuum verify
    visit volunteer vote wait walk warm warn wash water wax weed weigh wipe withdraw worm wrap write zip
    """
)
"""Verbs that begin the description of a task: "buy eggs", "call mom"."""

IRREGULAR: Final = dict(
    pair.split(":")
    for pair in words(
        """
        ate:eat began:begin bought:buy brought:bring built:build chose:choose chosen:choose cut:cut did:do done:do drank:drink
        drove:drive dug:dig dealt:deal fed:feed found:find froze:freeze frozen:freeze gave:give given:give gone:go got:get
        gotten:get held:hold hid:hide hung:hang kept:keep knit:knit left:leave lent:lend made:make met:meet paid:pay put:put
        ran:run rang:ring read:read rode:ride said:say sent:send set:set sewed:sew shut:shut sold:sell spoke:speak
        spoken:speak stuck:stick swam:swim swept:sweep taken:take taught:teach thought:think threw:throw thrown:throw
        told:tell took:take went:go wound:wind written:write wrote:write eaten:eat driven:drive hit:hit torn:tear tore:tear
        broke:break broken:break caught:catch fell:fall felt:feel flew:fly forgot:forget heard:hear knew:know lost:lose
        saw:see seen:see slept:sleep spent:spend stole:steal stood:stand won:win wore:wear woke:wake became:become came:come
        grew:grow laid:lay led:lead lit:light rose:rise sang:sing sat:sit shot:shoot sprung:spring understood:understand
        """
    )
)
"""Irregular past forms and participles, with their verbs."""
NO_CHORE: Final = words(
    """
    enjoyed loved liked hated missed noticed wanted needed lived moved believed remembered dropped spilled failed passed
    turned happened stayed worked learned decided played laughed cried died arrived misplaced damaged asked tried stopped
    waited began found thought said met felt fell forgot heard knew lost saw seen slept won became came broke broken
    caught hit finished completed
    """
)
"""Past forms of what is felt or happens. They report no chore, unless something was moved ("dropped the box off")."""
BY_ITSELF: Final = words("went came fell ran got broke sat stood grew rose woke flew met said told saw lost won left began")
"""Past forms that tell of something that happened by itself: "the alarm went off"."""
SAME_IN_PAST: Final = words("read put cut rent hit set shut knit let")
"""Past forms that are no report on their own: "cut the grass" may be an order."""

DIGITAL: Final = words(
    """
    alarm app bass beat photo picture apr balance bitcoin bluetooth brightness browser calories caption cartoon celsius
    chat chords conversation conversion crypto currency data database debt definition device dice die direction dollar
    episode essay euro fact fahrenheit forecast gps history horoscope humidity ingredient joke kilometer language layover
    limit lyft lyric message mileage mode movie mpg music nasdaq navigation netflix network news notification nutrition
    password pin planet playlist podcast poem police program pto riddle ringtone routing salary score screen screenshot
    script sentence sequence song spelling spotify stock stopwatch streaming subscription synonym system temperature
    thermostat timer timezone traffic transaction transfer translation trivia tv tune twitter uber virus voice volume w2
    weather website wifi youtube
    """
)
"""Nouns of other services, without a plural s."""
FOREIGN: Final = DIGITAL | words(
    """
    account airline amazon article bank blog calendar card checkbook checking clue credit deposit email event exchange
    flight fuel gas holiday hotel income insurance interest laptop loan luggage meeting money mortgage order package
    payment phone plane purchase refund reservation saving statement station tax ticket tire train vacation vaccination
    visa
    """
)
"""Nouns that requests to other services are about. They may also occur in a chore."""
ORDERS: Final = words(
    """
    play turn translate sing convert flip roll define spell wake skip pause draw summarize summarise solve pretend track
    connect calculate compute google navigate drive whisper recommend suggest explain describe guess compose generate dim
    raise lower mute unmute increase decrease restart dial transfer locate shut snooze shuffle divide multiply
    """
)
"""Verbs of requests to an assistant that are not about tasks: "play some jazz"."""

SPELLING: Final = dict(
    pair.split(":")
    for pair in words(
        """
        u:you w:with ya:you ur:your pls:please plz:please plss:please pleas:please thx:thanks ty:thanks tysm:thanks
        thanx:thanks abt:about finaly:finally
        bout:about teh:the th:the wat:what wut:what wht:what lst:list shw:show tmrw:tomorrow tmr:tomorrow tomorow:tomorrow
        tommorow:tomorrow tommorrow:tomorrow
        cuz:because bc:because em:them nd:and an':and w/:with todos:todos todo:todo del:delete rem:remove ok:ok
        okay:ok k:ok kk:ok
        r:are mrk:mark fnd:find babysiter:babysitter compl:complete aint:not wk:week appt:appointment
        appts:appointments acct:account
        accts:accounts mtg:meeting bday:birthday b-day:birthday pw:password
        """
    )
) | {
    "whats": "what is", "im": "i am", "ive": "i have", "dont": "do not", "cant": "can not", "wont": "will not",
    "didnt": "did not", "doesnt": "does not", "isnt": "is not", "arent": "are not", "wasnt": "was not", "havent": "have not",
    "hasnt": "has not", "thats": "that is", "lets": "let us", "gonna": "going to", "wanna": "want to", "gotta": "got to",
    "lemme": "let me", "gimme": "give me", "rn": "right now", "nvm": "never mind", "nevermind": "never mind", "hows": "how is",
    "theres": "there is", "shouldnt": "should not", "couldnt": "could not", "wouldnt": "would not", "cannot": "can not",
    "youre": "you are", "theyre": "they are", "itll": "it will", "whos": "who is", "wheres": "where is", "whens": "when is",
}  # fmt: skip
"""Short and misspelt forms of chats, with the words they stand for."""
BEFORE_TO: Final = words("me need have want got gotta remember forget i us")
TAKES_IS: Final = words("what who that it there he she here how where when which this everything nothing")
AFTER_IS: Final = words("complete been all already now finally ready over taken out in clean gone")

COMMAND_WORDS: Final = (
    "show", "delete", "remove", "remind", "reminder", "reminders", "complete", "completed", "finished", "finish", "rename",
    "change", "update", "create", "tasks", "task", "todos", "display", "list", "mark", "remember", "please", "done",
)  # fmt: skip
"""Words that are recognized when they are misspelt by one letter."""
LOOKALIKES: Final = words(
    """
    reminded reminding listen listed finisher marked
    updated changed renamed removed deleted displayed created marked listed talk last lists lost just marks make mask ask asks
    tank remains charge chance changes updates shows shown lest remembers down dine dune none gone dose some lits liszt shop
    slow snow shoe tusk tasty desk disk mall mars park dark mart mary market maria lift lisa fist mist does donde date
    """
) - words("lits")

_ORDINALS: Final = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"]
ORDINALS: Final = (
    {word: number for number, word in enumerate(_ORDINALS, 1)}
    | {
        f"{number}{'st' if number == 1 else 'nd' if number == 2 else 'rd' if number == 3 else 'th'}": number
        for number in range(1, 21)
    }
    | {"top": 1, "newest": 1, "latest": 1, "last": -1, "bottom": -1, "final": -1, "oldest": -1}
)
CARDINALS: Final = {
    word: number
    for number, word in enumerate(["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"], 1)
}

SUBJECTS: Final = words("i you he she it we they me us")
MODALS: Final = words("can could should would may might will")
QUESTION_WORDS: Final = MODALS | words(
    "what who whose whom where when why how which is are am was were do does did has have had any anything"
)
SEE: Final = words(
    """
    show list display view see read print give tell open pull bring get fetch check review go run walk look recite repeat
    hear know find remind name describe present recap summarize summarise share recall confirm refresh catch call update
    explain say dictate count iterate double search filter
    """
)
"""Verbs of an order to show something."""
STATES: Final = words(
    """
    open left remaining remain remains pending outstanding next missing completed complete finished finish accomplished
    unfinished incomplete undone done else many
    """
)
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
SHOW_WORDS: Final = (
    SEE - words("call explain describe name") | QUESTION_WORDS | SUBJECTS - words("he she") | DUTIES
    | words(
        """
        your the a an my mine our all some of on in at from to for with about up out off over through down back and that this
        these those there here its task tasks todo todos reminders list item thing stuff everything something be been having
        current currently active existing new old other another more full whole entire still yet already not so far only last
        now right again please today later saved set made created add added got gotten ask asked various different upcoming
        personal daily rundown copy overview summary contents content status number much whatever exactly scheduled waiting
        written put together like wanted want need needed onto trying available going seeing along memory quick quickly kind
        sort sure told help earlier before planned lined working let each one ones point points top few
        agenda updated included including jobs job backlog docket meant working once lot
        kindly love screen peek glance wrote noted jotted siri noting
        round needs sort even plus along just looking s
        """
    )
)  # fmt: skip
"""All the words of a question such as "what else do I still have to do today"."""
OPENS: Final = SEE | QUESTION_WORDS | words("just everything something ones tasks")
ABOUT_WORDS: Final = words("if whether look already include included word words moment reminder")
FIRST_PERSON: Final = words("i me my mine we us our")
NO_TASK: Final = QUESTION_WORDS | SUBJECTS | words(
    """
    your that's be been not never very really lol haha ha hm hmm hmmm wow huh yay ugh oh ah ooh please sorry thanks thank
    hello hi hey yes no ok must always just too so love hate like think guess bye because if although go good bad great fine
    nice cool awesome stupid dumb useless terrible funny crazy there here him
    """
)  # fmt: skip
"""Words that do not occur in a bare noun phrase such as "groceries" or "dentist friday"."""
NO_REFERENCE: Final = QUESTION_WORDS | words("show list view see tell tweet make")


def is_past(word: str) -> bool:
    """True for a past form or participle, by its form."""
    regular = word.endswith("ed") and len(word) > 4 and not word.endswith("eed")
    return word in IRREGULAR or (regular and word not in ACTION_VERBS and word not in {"hundred", "sacred", "kindred", "naked"})


def base_form(word: str) -> str:
    """Return the base form of a verb of a chore: "buying" and "bought" give "buy"."""
    if word in ACTION_VERBS:
        return word
    if word in IRREGULAR:
        return IRREGULAR[word]
    for ending in ("ing", "ed"):
        if word.endswith(ending) and len(word) > len(ending) + 1:
            stem = word.removesuffix(ending)
            doubled = stem[:-1] if len(stem) > 2 and stem[-1] == stem[-2] else stem
            candidates = (stem, stem + "e", doubled, stem[:-1] + "y" if stem.endswith("i") else stem)
            return next((base for base in candidates if base in ACTION_VERBS), word)
    return word


def is_action(word: str) -> bool:
    return base_form(word) in ACTION_VERBS
