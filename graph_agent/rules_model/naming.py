"""From a stretch of a sentence to the thing it names: what is to be added, or which task is meant."""

from __future__ import annotations

import re

from graph_agent.rules_model.intents import Each, Named, Position, Referent, Target, Unnamed
from graph_agent.rules_model.text import QUOTE, Line
from graph_agent.rules_model.vocabulary import (
    ACTION_VERBS,
    CARDINALS,
    FOREIGN_TOPICS,
    NOTHING_NAMED,
    ORDINALS,
    PRONOUNS,
    TIME_WORDS,
    words,
)

_LEAD = re.compile(
    r"(?:[,.;:\-!]|so (?:that )?i (?:do not forget|will not forget|remember|can remember|know)(?: to)?\b"
    r"|(?:please|and|so|just|also|now|then)\b"
    r"|@task(?: items?)?(?: set| up| added| made| in| down| going)*(?: (?:for me|for us|for myself))?(?: (?:called|named|titled"
    r"|labeled|saying|reading))?"
    r"|(?:(?:called|named|titled|labeled|saying|reading)\b|(?:which|that) is\b|(?:which|that|it) (?:says|reads"
    r"|reminds me|tells me"
    r"|will remind me)(?: (?:to|that|of))?)"
    r"|(?:(?:for|to|by)? ?reminding me\b)|(?:to|that will|so you can|which will|and) remind me(?: (?:to|that|of|about))?\b"
    r"|(?:to say|to|that|about|of|regarding|concerning|on how to|as|with)\b"
    r"|(?:for me|for us|for myself|for my self)\b|for(?! the next| a (?:week|month|year|day))\b"
    r"|an? (?:item|entry|note|thing|line|new item|new entry)(?= (?:to|for|called|named|that|of|about|saying|@)|$| :)"
    r"|(?:the )?(?:item|entry|activity|job|words?|following|thing)(?= (?:of|to|called|named|:)|$)"
    r"|i (?:really )?(?:need|have|want|got|ought|am supposed|would like|am going|will need) to\b|i (?:must|should"
    r"|will(?! be\b))\b|i am to\b|remember to\b)(?: |$)"
)
_TRAIL = re.compile(
    r"(?:^| )(?:,|as @tasks?|as one of @tasks|as an? (?:new )?(?:item|entry)|for me|thanks|thank you|if you can"
    r"|if you could|if possible|will you"
    r"|would you|could you|can you|okay"
    r"|right away|right now|asap|immediately|on it|in there|in it|to it|as well|too|also|now|would be (?:great|nice"
    r"|good|helpful|appreciated|awesome)|@tasks?)$"
)
_DAY = (
    r"(?:today|tonight|tomorrow|the \d{1,2}(?:st|nd|rd|th)|later(?: on| today| tonight)?|(?:mon|tues|wednes|thurs|fri"
    r"|satur|sun)day|(?:this"
    r"|next) (?:week|weekend|month"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)day))"
)
_HOUR = r"(?:\d[\d:.]*(?: ?(?:am|pm|o'clock)|(?= (?:to|about|for|that|on|today|tonight|tomorrow)\b))|noon|midnight)"
_SPAN = r"(?:\d+|an?|half an|a few|a couple of|[a-z]+) (?:minutes?|mins?|hours?|hrs?|days?|weeks?|months?)"
WHEN = (
    rf"(?:{_SPAN}|{_DAY}(?: (?:morning|afternoon|evening|night))?(?: (?:at|by) {_HOUR})?|{_HOUR}(?: (?:on )?{_DAY})?)(?![\w'])"
)
_AT_START = re.compile(
    rf"(?P<prefix>for|on|at|by|in) (?P<when>{WHEN})(?: ,)? (?:to |that )?(?P<what>.+)"
    rf"|(?P<day>{WHEN})(?: ,)? (?:to|that|i (?:need|have) to) (?P<rest>.+)"
)
_MARKS = ",.;:?!-\n"


def description(line: Line) -> str | None:
    """What `line` names to be done, in the user's words, or None if it names nothing but a time."""
    line, when = _stripped(line.trimmed())
    if names_nothing(line):
        return None
    return f"{line.original} {when}".strip() or None


def _stripped(line: Line) -> tuple[Line, str]:
    """`line` without connectives and politeness at its ends, and a time that stood in front: ("call mom", "on monday")."""
    when = ""
    for _ in range(12):
        early = _AT_START.fullmatch(line.text)
        if early and not when:
            day, what = ("when", "what") if early["when"] else ("day", "rest")
            if not names_nothing(line.group(early, what)):
                stated = early["prefix"] not in {None, "for"}
                when = f"{early['prefix']} {line.group(early, day).original}" if stated else line.group(early, day).original
                line = line.group(early, what)
                continue
        match = _LEAD.match(line.text)
        if not match or match.end() == 0:
            break
        rest = line.after(match.end())
        if match.group().strip() in {"for", "with", "on", "as", "to"} and all(_is_time(token.norm) for token in rest.tokens):
            break
        line = rest
    for _ in range(6):
        match = _TRAIL.search(line.text)
        if not match:
            break
        line = line.between(0, match.start())
    return line.trimmed(_MARKS), when


def _is_time(word: str) -> bool:
    return word.removesuffix("'s") in TIME_WORDS or word in _MARKS or word[0].isdigit()


def names_nothing(line: Line) -> bool:
    """Whether only times and empty words are in `line`; "thing 1" is a name."""
    return not _COUNTED.search(line.text) and all(
        word in NOTHING_NAMED or _is_time(word) or word.startswith("@task")
        for token in line.tokens
        for word in token.norm.split()
    )


_COUNTED = re.compile(r"\b(?:thing|item|job|step|part|activity|project|stuff) (?:number )?(?:\d+|[a-h]|x|y|z|one|two|three)$")
MAX_PLACES = 5
_ORDINAL = "|".join(ORDINALS)
_CARDINAL = "|".join(CARDINALS)
_NUMBER = re.compile(
    r"(?:the )?(?:(?:number|no|num|nr|item|option|position|entry|task|@task)(?: number| no| num)?(?: \.)?(?: #)?"
    rf"|#) ?(?P<n>\d{{1,3}}|{_CARDINAL})(?: @task)?"
    rf"|(?P<bare>\d{{1,3}})(?: @task)?"
)
_ORDINAL_PLACE = re.compile(
    rf"(?:the |my |that )?(?:very )?(?P<n>{_ORDINAL})(?: (?P<back>to last|from the bottom|from last))?"
    rf"(?: (?:one|item|entry|thing|of them|@tasks?|of @tasks|todo))*(?: (?:on|in|from|of|off|there)(?: the| it)?(?: @list)?)?"
)
_NEWEST = re.compile(
    r"(?:the |my )?(?:last|latest|newest|most recent|recent) (?:one|thing|item"
    r"|addition|@task)? ?(?:that )?i (?:just )?(?:added|made|created|set|put)(?: in| up)?(?: (?:on|to|in) @list)?"
    r"|(?:the |my )?(?:latest|most recent)(?: (?:one|item|entry|@task))?"
    r"|(?:the |my )?(?:latest|last|newest|most recent) addition(?: (?:to|on|in) @list)?"
)
_TARGET_LEAD = re.compile(
    r"(?:@task(?: item)?(?: (?:called|named|titled|labeled|saying|to|for|about|of|that says|that i need to"
    r"|where i have to|with|i have (?:to|for)|i set (?:to|for|about)))?"
    r"|(?:the|my|our|that|this)(?: (?:item|entry|one|thing)(?= (?:about|for|called|named|to|of|on|that)))?"
    r"|(?:item|entry|one|thing|items)?(?: )?(?:about|called|named)|:|,|off|out|please|just|also|an?|for|to|of"
    r"|all of|all|any|both)(?: |$)"
)
_TARGET_TRAIL = re.compile(
    r"(?:^| )(?:,|@tasks?|(?:one|item|entry)|please|now|thanks|thank you|for me|for now|anymore|any more|already"
    r"|already done|as well|too|from|off|permanently|completely|right away|as|because .+|since .+|i (?:do not|no longer) .+"
    r"|(?:delete|remove|erase|cancel|drop|forget|take|cross|scratch|check|get rid of) (?:it|that|this)(?: off| out)?)$"
)


def belongs_elsewhere(line: Line, *, strictly: bool = False) -> bool:
    """Whether `line` names something that no task list keeps: a song, an account, the volume.

    What begins with a verb is a plan, whatever it is about ("pay the credit card bill"), unless looked at `strictly`.
    """
    words = [word.removesuffix("'s") for token in line.tokens for word in token.norm.split()]
    if words and words[0] in ACTION_VERBS:
        return bool((FOREIGN_TOPICS if strictly else _SELF).intersection(words[1:]))
    return any(word in FOREIGN_TOPICS or word.removesuffix("s") in FOREIGN_TOPICS for word in words)


_SELF = words("you your yourself")


def target(line: Line) -> Target:
    """Which task `line` means."""
    line = line.trimmed()
    text = line.text
    place = position(text) or _places(line)
    if place is not None:
        return place
    if not text or text in {
        "@task",
        "@tasks",
        "something",
        "some things",
        "things",
        "an item",
        "items",
        "a thing",
        "one thing",
        "stuff",
    }:
        return Unnamed()
    if text in PRONOUNS or text in {"that is", "it is"}:
        return Referent()
    if len(line.tokens) == 1 and text == QUOTE:
        return Named(line.original)
    described = False
    for _ in range(6):
        match = _TARGET_LEAD.match(line.text)
        if not match or match.end() == 0:
            break
        described = described or match.group().endswith(("for ", "about ", " to "))
        line = line.after(match.end())
    for _ in range(6):
        match = _TARGET_TRAIL.search(line.text)
        if not match or not line.between(0, match.start()).tokens:
            break
        line = line.between(0, match.start())
    line = line.trimmed()
    text = line.text
    place = position(text) or _places(line)
    if place is not None and not described:
        return place
    words = line.original
    if text in {"me", "us", "myself", "one of", "some of", "any of", "a few of", "a couple of"}:
        return Unnamed()
    if text in PRONOUNS:
        return Referent()
    return Named(words) if words else Unnamed()


_RUN = re.compile(
    rf"(?:the )?(?P<end>first|top|last|bottom|newest|oldest) (?P<n>\d{{1,2}}|{_CARDINAL})(?: (?:ones|items|@tasks"
    r"|things|entries))?"
)


def _places(line: Line) -> Each | None:
    """Several places at once; at most as many as can be acted on in a turn."""
    run = _RUN.fullmatch(line.text)
    if run:
        count = min(CARDINALS.get(run["n"]) or int(run["n"]), MAX_PLACES)
        numbers = range(1, count + 1) if run["end"] in {"first", "top", "newest"} else range(-count, 0)
        return Each(tuple(map(Position, numbers))) if count > 1 else None
    text = re.sub(r"^(?:@tasks|@task|items?|numbers?) ", "", line.text)
    parts = [part.strip() for part in re.split(r" ?, ?(?:and )?| and | & ", text)]
    if not 1 < len(parts) <= MAX_PLACES:
        return None
    places = tuple(place for place in map(position, parts) if place is not None)
    return Each(places) if len(places) == len(parts) else None


def position(text: str) -> Position | None:
    """The place in a list that `text` (in normal form) consists of."""
    if _NEWEST.fullmatch(text):
        return Position(1)
    match = _NUMBER.fullmatch(text)
    if match:
        found = match["n"] or match["bare"]
        number = CARDINALS.get(found) or int(found)
        return Position(number) if number else None
    match = _ORDINAL_PLACE.fullmatch(text)
    if match:
        number = ORDINALS[match["n"]]
        if match["back"]:
            number = -number if number > 0 else number
        return Position(number)
    return None
