"""The words the grammar is made of, each said once."""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    """The words of `text`, a table without marks to read around."""
    return frozenset(text.split())


NORMAL_FORMS = {
    "what's": "what is",
    "whats": "what is",
    "what're": "what are",
    "who's": "who is",
    "whos": "who is",
    "where's": "where is",
    "when's": "when is",
    "whens": "when is",
    "how's": "how is",
    "hows": "how is",
    "that's": "that is",
    "thats": "that is",
    "there's": "there is",
    "theres": "there is",
    "it's": "it is",
    "it'd": "it would",
    "that'd": "that would",
    "i'm": "i am",
    "im": "i am",
    "i've": "i have",
    "ive": "i have",
    "i'd": "i would",
    "i'll": "i will",
    "you're": "you are",
    "youre": "you are",
    "you'd": "you would",
    "we're": "we are",
    "let's": "let us",
    "lets": "let us",
    "lemme": "let me",
    "gimme": "give me",
    "wanna": "want to",
    "gotta": "got to",
    "gonna": "going to",
    "hafta": "have to",
    "don't": "do not",
    "dont": "do not",
    "doesn't": "does not",
    "doesnt": "does not",
    "didn't": "did not",
    "didnt": "did not",
    "can't": "can not",
    "cant": "can not",
    "cannot": "can not",
    "won't": "will not",
    "wont": "will not",
    "isn't": "is not",
    "isnt": "is not",
    "aren't": "are not",
    "arent": "are not",
    "haven't": "have not",
    "havent": "have not",
    "shouldn't": "should not",
    "shouldnt": "should not",
    "mustn't": "must not",
    "wat": "what",
    "wht": "what",
    "waht": "what",
    "whta": "what",
    "wich": "which",
    "whcih": "which",
    "frist": "first",
    "fisrt": "first",
    "firts": "first",
    "secnd": "second",
    "seocnd": "second",
    "thrid": "third",
    "ad": "add",
    "rember": "remember",
    "rembember": "remember",
    "pls": "please",
    "plz": "please",
    "plse": "please",
    "kindly": "please",
    "u": "you",
    "ya": "you",
    "r": "are",
    "ok": "okay",
    "k": "okay",
    "thx": "thanks",
    "ty": "thanks",
    "tks": "thanks",
    "to-do": "todo",
    "to-dos": "todos",
    "todo's": "todos",
    "to-do's": "todos",
    "tommorow": "tomorrow",
    "tommorrow": "tomorrow",
    "tomorow": "tomorrow",
    "tmrw": "tomorrow",
    "tmr": "tomorrow",
    "todolist": "todo list",
    "reminderlist": "reminder list",
    "tasklist": "task list",
    "checklist": "check list",
    "setup": "set up",
    "e-mail": "email",
}
"""Contractions with and without their apostrophe, and spellings people use."""

CORRECTABLE = (
    "remind",
    "reminder",
    "reminders",
    "reminding",
    "task",
    "tasks",
    "list",
    "todo",
    "show",
    "delete",
    "remove",
    "erase",
    "complete",
    "completed",
    "finished",
    "rename",
    "change",
    "create",
    "remember",
    "groceries",
    "everything",
    "please",
)
"""Words in which one slip of the finger is put right."""

KNOWN_WORDS = frozenset(CORRECTABLE) | words(
    """
    chance chances changed changer changes charge charges completely completes complexes crate cream created creates
    creature delate deleted deletes deleting dream erased eraser erases finishes great how lease least listed lists
    mist orange pleas pleased pleases range relate related release released remain remained remains remembered
    remembering remembers reminded reminds remote removal removed removes removing renamed rewind showed shower
    shown shows tack todos tasked tast taste taxes
    """
)
"""Words that look like a slip of a core word and are none."""

ADD_VERBS = (
    r"(?:add|put|include|place|insert|append|stick|throw|toss|pop|drop|write|jot|note|log|record|enter|save|list|get|have|make"
    r"|schedule|mark|set|create|stash|slap|keep|need|want|plug|type|post|pencil|pin|tack|chuck|slot|register|file|submit)"
)
"""Verbs that put a thing on a list, when the list is named behind them."""

DELETE_VERBS = (
    r"(?:delete|remove|erase|get rid of|scratch|strike|cross off|cross out|take off|drop|trash|scrap|cancel|forget"
    r"|forget about|never mind|take away|kill"
    r"|dump|clear|discard|ditch|nix|cut"
    r"|eliminate|purge|dismiss|wipe|lose|axe|chuck)"
)
"""Verbs that delete a task wherever they stand."""

REMOVE_VERBS = (
    r"(?:remove|delete|erase|take|cross|scratch|strike|drop|clear|wipe|get rid of|get rid off|get rid|cancel|dump"
    r"|discard|eliminate|trash|kill|pull|throw"
    r"|toss|cut|scrap|ditch|clean|knock|purge|nix|lose|forget|forget about|strip|bump|kick|subtract|exclude|omit"
    r"|undo|unlist|unadd"
    r"|withdraw|deduct|axe|scrub|detach|rid|chuck|dismiss|dispose of|do away with|leave|keep|blot|rub|cast|x)"
)
"""Verbs that take a thing off a list, when the list is named behind them."""

EMPTY_VERBS = (
    r"(?:clear|empty|wipe|blank|erase|reset|delete|purge|remove|trash|clean|get rid of|get rid off|nuke|scrap"
    r"|destroy|flush|void|eliminate"
    r"|discard|dump|start over|restart|drop|ditch|kill|cancel|undo|toss|throw away|throw out|take away|do away with"
    r"|dispose of|refresh"
    r"|obliterate|zero|scrub|axe|chuck|free|cross off|scratch|strike|cut|annihilate|zap|forget|burn|shred)"
)
"""Verbs that empty a list, when the list itself is their object."""

READ_VERBS = (
    r"(?:show|read|tell|give|list|recall|display|view|see|hear|check|look|find|get|pull|bring|go|walk|run|take"
    r"|recite|repeat|iterate|print"
    r"|review|know|open|access|retrieve|fetch|present|describe|summarize|say|speak|state|share|remind|recap"
    r"|enumerate|reveal|relay|provide"
    r"|inform|search|scan|browse|count|name|announce|let|verify|confirm|examine|inspect|report|dictate|load"
    r"|describe|explain|call|rattle"
    r"|detail|output|return|send|peek|update|wonder|wondering|curious|figure|go|use|consult|refresh|help|make"
    r"|narrate|outline|specify|identify|brief|reread|re-read|recheck|catch|fill|listen|knowing|seeing|hearing)"
)
"""Verbs that want to be told what a list says."""

QUESTION_STARTS = (
    r"(?:what|which|when|where|who|how|why|is|are|was|were|am|do (?:i|we|you|any)|do(?= @(?:list|tasks) (?:have|include"
    r"|contain|say|show|mention|cover|list))|does|did|has|have (?:i|we|you"
    r"|any)|any|anything|at what|in what|on what"
    r"|will (?:i|we)|would i|should (?:i|we)|whether|if|shall i)"
)

FOREIGN_LISTS = words(
    """
    order wedding mail reservation shopping grocery groceries play playlist music song songs wish bucket contact contacts
    wine guest price email
    mailing friends friend watch wait waiting movie movies dinner packing christmas gift invite block black white
    call phone drink menu channel station reading book books recipe ingredient ingredients meal
    """
)
"""Lists people keep elsewhere."""

FOREIGN_TOPICS = words(
    """
    account accounts acct accts bank banking banks card cards visa mastercard amex balance transaction transactions
    transfer checking savings apr credit debit loan mortgage payment payments fraud fraudulent paycheck payroll
    salary 401k w2 w-2 pto tax taxes pin routing checkbook checkbooks deposit funds money dollars dollar cents
    rewards insurance flight flights airline hotel hotels reservation reservations booking uber lyft taxi cab ticket
    tickets passport luggage traffic weather temperature forecast timezone song songs playlist playlists music track
    album radio volume channel station movie podcast video spotify youtube alarm alarms timer timers calendar
    calendars stopwatch event events meeting meetings language accent voice whisper name nickname settings setting
    factory speed mode bluetooth phone wifi light lights lamp thermostat oven car tire tires mpg oil gas vehicle
    calories recipe recipes restaurant restaurants joke jokes coin dice die trivia text message messages email
    emails call calls contact contacts notification notifications order orders package cart subscription password
    vacation days history memory cache app apps file files folder folders photo photos picture pictures data
    bookmark bookmarks address addresses flyer quote equation sentence lyrics application zone
    mail inbox spam junk device devices schedule browser cookies wallpaper ringtone headlines tweet facebook twitter
    hold voicemail charge charges fee fees purchase purchases
    database computer server username profile conversation location percent tip assistant ai bot you your yourself
    """
)
"""Nouns of the errands a task list cannot run. They count only where no task, list or reminder is named."""

FOREIGN_VERBS = words(
    """
    play pause skip roll flip toss turn book order text translate convert calculate spell define navigate sync
    unsync connect disconnect transfer pay increase decrease lower raise mute unmute adjust speak talk sing dim lock
    unlock locate track recommend suggest guess search google browse reserve rent apply activate freeze report share
    send email message call dial phone ring summarize compute multiply divide explain switch restart reboot lookup
    shut stop start snooze flick rotate
    """
)
"""Verbs that ask for a service. Behind "remind me to" they are as welcome as any other."""

ACTION_VERBS = words(
    """
    buy get pick pay call clean wash do go take finish write read make fix feed walk water mow study visit schedule
    renew return book order cook bake prepare plan pack fold iron vacuum sweep mop dust paint repair replace change
    check ask tell talk meet attend sign submit print mail ship send drop bring fill file organize sort donate sell
    clear empty shovel rake plant trim cut bathe groom brush practice learn review update cancel confirm register
    apply set start stop work exercise run jog swim hang install move find look research watch give help put email
    text message transfer deposit charge unpack wrap decorate measure assemble test back sync download upload throw
    tidy scrub polish refill recycle restock collect catch see invite host thank congratulate reply respond follow
    contact remind babysit dog-sit sew knit weed prune harvest build hire fire rotate turn
    """
)
"""Verbs with which the name of a task begins: "call mom" is a task although calls are made elsewhere."""

QUESTION_WORDS = words(
    """
    what which when where who whom whose how why is are was were am do does did has have will would should could can
    may shall might if whereabouts whether
    """
)

TIME_WORDS = words(
    """
    today tonight tomorrow later soon now again next this coming week weeks month months year years monday tuesday
    wednesday thursday friday saturday sunday mondays tuesdays wednesdays thursdays fridays saturdays sundays
    weekend weekday morning mornings afternoon evening night noon midnight am pm a.m p.m o'clock oclock at on in for
    by the a an of every each day days hour hours minute minutes min mins hr hrs second seconds weekly daily monthly
    half past quarter around about before after then time date some certain specific other another future until till
    from january february march april may june july august september october november december one two three four
    five six seven eight nine ten eleven twelve fifteen twenty thirty forty first last third once twice few couple
    point when while awhile bit moment
    """
)
"""Words of which a pure time or date is made."""

NOTHING_NAMED = words(
    """
    something anything it this that these those stuff things thing someone me one some please do doing to about of
    task tasks todo reminder reminders item items entry entries note new a an the my for us myself chore chores more
    few couple else here there will you be set made list up something's special important and thanks another event
    events
    """
)
"""Words that name nothing to be done."""

ORDINALS = {
    "first": 1,
    "1st": 1,
    "top": 1,
    "newest": 1,
    "second": 2,
    "2nd": 2,
    "third": 3,
    "3rd": 3,
    "fourth": 4,
    "4th": 4,
    "fifth": 5,
    "5th": 5,
    "sixth": 6,
    "6th": 6,
    "seventh": 7,
    "7th": 7,
    "eighth": 8,
    "8th": 8,
    "ninth": 9,
    "9th": 9,
    "tenth": 10,
    "10th": 10,
    "last": -1,
    "final": -1,
    "bottom": -1,
    "oldest": -1,
}
CARDINALS = {
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
}

NUMBERS = CARDINALS.keys() | words(
    """
    eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy
    eighty ninety hundred thousand million point half percent
    """
)

PRONOUNS = frozenset(
    phrase.strip()
    for phrase in [
        "it",
        " that",
        " this",
        " that one",
        " this one",
        " the one",
        " the other one",
        " the other",
        " them",
        " these",
        " those",
        " that thing",
        " one",
        " the same",
        " the same one",
        "another one",
        " the previous one",
        " that task",
        " this task",
        " the task",
        " which one",
        " the thing",
        " other one",
    ]
)
"""What refers to something said before."""
