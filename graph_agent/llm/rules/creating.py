"""Sentences that ask for a new task."""

from __future__ import annotations

import re
from collections.abc import Callable

from graph_agent.llm.rules.intents import Create, Intent, Offer, Unclear
from graph_agent.llm.rules.naming import belongs_elsewhere, description
from graph_agent.llm.rules.text import Line
from graph_agent.llm.rules.vocabulary import ADD_VERBS, QUESTION_WORDS, TIME_WORDS, words

_WISH = (
    r"(?:i (?:really |also |still )?(?:need|have got|have|want|got|ought|would like|am going)(?: to)? |i (?:must|should) "
    r"|i (?:keep|always|often|usually|tend to) (?:forget|forgetting)(?: to| about)? )"
)
_ONTO = r"(?:to|on|onto|in|into|at|under|down on|down in|up on|in on|for|of|with|too)"
_PRONOUN = r"(?:it|that|this|them|those|these|that one)"

_Builder = Callable[[Line, re.Match[str]], Intent | None]


def _from_x(line: Line, match: re.Match[str]) -> Intent | None:
    return Create(description(line.group(match, "x")))


def _from_x_and_tail(line: Line, match: re.Match[str]) -> Intent | None:
    """`tail` stands behind the list's name: a time belongs to the task, other words are the task if nothing else is."""
    asked = line.group(match, "x").trimmed()
    if _ASKS.search(asked.text):
        return None
    if asked.text in {"me", "us", "my name"} or _MEDIA.fullmatch(asked.text):
        return None
    named, tail = description(asked), line.group(match, "tail").trimmed()
    words = [word for token in tail.tokens for word in token.norm.split()]
    if named is None:
        return Create(description(tail))
    if _NEGATED.search(asked.text):
        return None
    if words and all(word in TIME_WORDS or word[0].isdigit() for word in words):
        return Create(f"{named} {tail.original}")
    return Create(named)


_ASKS = re.compile(
    r"^(?:remember|recall|tell|know|see|check|find|show)\b.*|.*\b(?:what|which|if|whether|nothing|update|rundown"
    r"|summary|overview)\b|^sure\b"
)


_NEGATED = re.compile(r"\b(?:do not|does not|did not|should not|need not|must not|will not|no longer)$")
_MEDIA = re.compile(r"(?:this|that|these|those|the)(?: \w+)? (?:songs?|tracks?|album|tune|music|artist|band|movie|video)")
"""What is playing, never a task."""


def _from_plan(line: Line, match: re.Match[str]) -> Intent | None:
    return Create(description(line.group(match, "plan")))


_REMIND_OF_EVENT = re.compile(
    r"\b(?:appointments?|meetings?|birthdays?|anniversary|class|classes|interview|party|game|date|dinner|lunch"
    r"|deadline|event|trip|visit|call"
    r"|wedding|concert|exam|test|practice|rehearsal|holiday|graduation|medicine|medication|pills?|meds)\b"
)
_LOOKS_BACK = re.compile(
    r"(?:how|who|whose|where|why|which|what|whether|if i|if (?:\w+ ){1,2}(?:is|are|was|were|do|does)\b(?!.* to )"
    r"|when (?:is|are|was|were|do|does|did|will|my|the|i (?:last|did)))\b"
)


def _from_reminding(line: Line, match: re.Match[str]) -> Intent | None:
    """A task for "remind me of the meeting" and "remind me to ...", none for "remind me of the total": that asks to be told."""
    asked = line.group(match, "x").trimmed()
    if "pre" in match.groupdict() and match["pre"]:
        before = line.group(match, "pre").trimmed()
        named = description(asked)
        if named is None:
            return Create(description(_without_alarm(before)))
        when = _without_alarm(before)
        return Create(f"{named} {when.original}" if when.tokens and not names_nothing_but_asking(when) else named)
    text = asked.text
    if "who" in match.groupdict() and not (match["who"] or match.groupdict().get("soft") or _TO_ONESELF.match(text)):
        return Offer(line.original)
    if text.startswith(("of ", "again of ", "the ", "my ")):
        named = description(asked)
        if named is None or _REMIND_OF_EVENT.search(text) or any(token.norm in _CLOCK for token in asked.tokens):
            return None if _LOOKS_BACK.match(text[3:]) else Create(named)
        return (
            None if _LOOKS_BACK.match(text[3:]) or not text.startswith("of ") or text.startswith("of the ") else Unclear(named)
        )
    if _LOOKS_BACK.match(text.removeprefix("again ").removeprefix("about ")):
        return None
    if match.groupdict().get("soft") and not any(token.norm in _CLOCK or token.norm[0].isdigit() for token in asked.tokens):
        said = description(asked)
        return Offer(said) if said else None
    return Create(description(asked))


_TO_ONESELF = re.compile(r"(?:to|about|that|of|for|at|on|in|when|not|before|after|by|this|next|every|later|to\w+)\b|$")
"""What follows "remind" where the speaker means himself: "remind to call mom", but not "remind bob to call"."""
_CLOCK = words(
    """
    at by before after when today tonight tomorrow later monday tuesday wednesday thursday friday
    saturday sunday morning evening noon
    """
)
_ALARM = re.compile(
    r"(?:(?:set|create|make|schedule|send|give|put|add|i need|i want|have|use|get)(?: up| me| in)* )?(?:an? |the "
    r"|my )?(?:alarm|alert|alarms|notification|timer|event|note|message|ping|text|email|calendar|app)"
    r"(?: for me)?(?P<rest>.*?)(?: to| that will| which will| and| so you can)?"
)


def _without_alarm(before: Line) -> Line:
    match = _ALARM.fullmatch(before.text)
    return before.group(match, "rest").trimmed() if match else before


def names_nothing_but_asking(line: Line) -> bool:
    """Whether `line` only says that something is wanted: "i need you to", "set it up to"."""
    return all(word in _ASKING or word in ",;:." for token in line.tokens for word in token.norm.split())


_ASKING = words(
    """
    i you to need want would like it up set be sure and help me if could can the a an for so that will make please
    get have just do
    """
)


def _from_note(line: Line, match: re.Match[str]) -> Intent | None:
    asked = line.group(match, "x").trimmed()
    if re.match(r"(?:of |that |down )?(?:my|the|your)\b", asked.text) and belongs_elsewhere(asked):
        return None
    return Create(description(line.group(match, "x")))


_DUTIES = ("i need ", "i have ", "i must ", "i should ", "we need ", "we have ")
_PERSONS = words("i you your my we he she")


def _from_remembering(line: Line, match: re.Match[str]) -> Intent | None:
    """A task for "remember to ..." and "do not forget ...", none for "remember who made you"."""
    asked = line.group(match, "x").trimmed()
    first = asked.tokens[0].norm if asked.tokens else ""
    asked_for = (
        "forget" in match["verb"]
        or "help" in match["verb"]
        or match["verb"].endswith((" to", "mind"))
        or (match["verb"].startswith("i ") and bool(_REMIND_OF_EVENT.search(asked.text)))
    )
    if "let me" in match["verb"] or " for me" in match["verb"]:
        return Create(description(asked))
    if match["verb"].endswith(" that") and (asked.text.startswith(_DUTIES) or first not in _PERSONS | QUESTION_WORDS):
        return Create(description(asked))
    if (
        not asked_for
        or "@other" in asked.text
        or (not match["verb"].endswith(" to") and belongs_elsewhere(asked))
        or (first in QUESTION_WORDS and not match["verb"].endswith(" to"))
    ):
        return None
    return Create(description(asked))


def _from_bare_add(line: Line, match: re.Match[str]) -> Intent | None:
    """A task for "add milk", where no list is named, unless a sum or something that is kept elsewhere is added."""
    asked = line.group(match, "x").trimmed()
    words = [token.norm for token in asked.tokens]
    text = asked.text
    if (
        not words
        or belongs_elsewhere(asked)
        or all(word[0].isdigit() or word in {"and", "to", "plus", "+", "with"} for word in words)
    ):
        return None
    if words[0] == "up" or {"plus", "user"}.intersection(words) or words[-1] == "up":
        return None
    if words[0].isdigit() and re.search(r"\b(?:to|and|plus) [\d.]+", text):
        return None
    if _KEPT_APART.search(text):
        return None
    return Create(description(asked))


_KEPT_APART = re.compile(
    r"\b(?:to|into|onto) (?:my|the|our|this|that|your) (?:\w+$|(?:\w+ )?(?:schedule|agenda|diary|planner|cart|basket|itinerary"
    r"|queue|favorites|library|collection|lineup)\b)"
)
"""What is added to something else than a list: "add a haircut to my schedule for friday"."""
_MAKE = (
    r"(?:add|create|make|set|start|open|need|want|give|get|send|schedule|leave|put|like|have|insert|log|record"
    r"|begin|generate|build|place|do|use"
    r"|new|register|file|enter|write|input|type|save|submit|establish|initiate|prepare|arrange|program|issue"
    r"|include|post|draft|note|jot|pop|stick|throw|arm|assign|prefer|love|require|appreciate|keep|hold|store)"
)

_FRAMES: tuple[tuple[re.Pattern[str], _Builder], ...] = tuple(
    (re.compile(pattern, re.DOTALL), builder)
    for pattern, builder in (
        # the plan comes first, the list refers back to it: "i need to do dishes put it on my list"
        (
            rf"{_WISH}(?P<plan>.+?) ?[,.;]? (?:so |and |then |please |can you |could you "
            rf"|will you ){{0,3}}{ADD_VERBS} {_PRONOUN}(?: down)? {_ONTO}(?: the (?:top|bottom|end) of)? @list.*",
            _from_plan,
        ),
        (
            rf"{_WISH}(?P<plan>.+?) ?[,.;]? (?:so |and |then |please |can you |could you "
            rf"|will you ){{0,3}}(?:{ADD_VERBS} {_PRONOUN}(?: down)?|remind me"
            rf"|(?:set|make|create|add|give|put|i need|i want)(?: me| up| in)* @task(?: (?:for|about|to) (?:it|that"
            rf"|this|me))*)(?: please)?",
            _from_plan,
        ),
        (
            r"(?P<plan>.+?) ?[,.;]? (?:so |and |then |please |can you |could you "
            rf"|will you ){{0,3}}{ADD_VERBS} {_PRONOUN}(?: down)? {_ONTO}(?: the (?:top|bottom|end) of)? @list.*",
            _from_plan,
        ),
        # "to my list add X"
        (
            r"(?:up |also )?(?:to|on|onto|in|into|for|under) @list ?[,:;]? ?(?:can you |could you |will you "
            r"|would you |i (?:need|want|would like) (?:you )?to |please |you can |let us |just "
            rf"|also )*{ADD_VERBS}(?: down| in| up)?\b(?: for)? ?[:,]? ?(?P<x>.+)",
            _from_x,
        ),
        (
            r"(?:to|on|in) @list ?[,:;]? ?(?:i (?:also )?(?:need|want|would like) |there (?:should|needs to"
            r"|must) be |should be )(?P<x>.+)",
            _from_x,
        ),
        # "add X to my list"
        (rf"{ADD_VERBS} {_ONTO} @list ?[,:;-]? ?(?P<x>.+)", _from_x),
        (
            rf"(?!make sure|get rid){ADD_VERBS}(?: down| in| up| on)?\b ?(?P<x>.*?) ?(?:down |up |in |back |over "
            rf"|it )?{_ONTO} (?:the (?:top|bottom|end|rest|start|beginning) of )?(?:@list|@tasks)\b ?(?P<tail>.*)",
            _from_x_and_tail,
        ),
        (
            r"(?:also |and )?(?:one more|another|a new|new)(?: (?:new|more))?(?: (?:thing|item|entry|one|addition"
            r"|@task))? (?:for|to|on) @list ?[:,-]? ?(?P<x>.+)",
            _from_x,
        ),
        # "X needs to be on my list"
        (
            r"(?:i (?:also |really )?(?:need|want|would like|would love|have|got) |there (?:should|needs to"
            r"|must) be |let us (?:get|have|put) )(?!to\b)(?P<x>.+?)(?: to be| to go| to get| to)?(?: put| added"
            r"| placed| included| written| listed| go| inserted| jotted| noted)?(?: down| back)? (?:on|to|onto|in"
            r"|into) @list(?P<tail>.*)",
            _from_x_and_tail,
        ),
        (
            r"(?!(?:make sure|is|are|was|does|did|has|what|which|how|who|should|if|whether|i|do i|have i"
            r"|can i)\b)(?P<x>.+?) (?:needs?|has|have|should|must|ought|can|could|belongs?|goes|go|wants|is"
            r"|are)(?: also)?(?: to)?(?: be| go| get)?(?: put| added| placed| included| written| listed| inserted"
            r"| noted)?(?: down)? (?:on|to|onto|in|into) @list(?P<tail>.*)",
            _from_x_and_tail,
        ),
        (
            r"(?:can|could|should|may|might|would) (?P<x>.+?)(?: please)? (?:go|get|be)(?: (?:added|put|placed"
            r"|included|written|listed))?(?: down)? (?:to|on|in|onto) @list(?P<tail>.*)",
            _from_x_and_tail,
        ),
        (
            r"@list (?:should|needs? to|must|has to|ought to)(?: also)? (?:include|have|contain|list|say"
            r"|mention)(?P<x>.+?)(?: (?:on|in|added to) it)?",
            _from_x,
        ),
        (
            r"(?:i (?:want|need|would like) |have |make |get |let )@list (?:to )?(?:include|have|contain|say|list"
            r"|mention|show)(?P<x> .+?)(?: (?:on|in) it)?",
            _from_x,
        ),
        (r"@list needs?(?P<x>.+?)(?: (?:added|put|included))?(?: (?:on|in|to)(?: it)?)?", _from_x),
        (
            r"(?:update|change|edit|modify|extend|expand|amend) @list (?:to (?:include|add|have|say|contain)|with"
            r"|by (?:adding|including|putting)|so (?:that )?it (?:includes|has))(?P<x>.+?)(?: (?:on|to|in) it)?",
            _from_x,
        ),
        (r"(?:make|do|put)(?: me)? an? (?:addition|entry|item|note)(?: to| on| in)? @list ?[:,]?(?P<x>.+)", _from_x),
        # "make a reminder to X"
        (
            r"(?:i (?:just |really |also |do )?(?:need|want|would like|would love|require|would appreciate"
            r"|could use|will need|prefer|have to have) |there (?:should|needs to|must) be |how about |what about "
            rf"|is it possible to get |may i have |i could use |could use |go for )?(?:{_MAKE} )?(?:up |me |us |in "
            rf"|out |down |myself |a |set |to |for |it |as ){{0,3}}(?P<x>@task\b.*)",
            _from_x,
        ),
        (rf"{_MAKE}(?: up| in| me| us)* (?:an?|the|another|some) (?:\w+ ){{1,3}}(?P<x>@task\b.*)", _from_x),
        (r"(?:put|set|add|get|have)(?: up| in)? \w+ (?P<x>@task\b.*)", _from_x),
        (rf"{_MAKE}(?: up| me| us)* (?P<x>.+?)(?: as| into) @task", _from_x),
        # "remind me to X"
        (
            r"(?:i (?:just |really |also )?(?:need|want|would like|would love|have|wish|like"
            r"|prefer)(?: for)?(?: you)? (?:to (?:be |get )?|a )?|help |do |you (?:can|should|must|need to) "
            r"|be sure to |make sure (?:to|you|that you) |remember to |do not forget to |could i be |can i be "
            r"|may i be |send me a |set (?:up )?a )?(?:please )?(?:(?:remind|reminded|reminding)|(?:notify|notified"
            r"|alert|alerted|nudge|nudged|prompt|prompted|ping|pinged)(?=(?: me| us)?(?: (?:at|on|in|before|after"
            r"|every|next|this|tomorrow|tonight|today|later)\b.*)? to\b)|(?P<soft>tell"
            r"|ask)(?= (?:me|us) to\b))(?P<who> me| us| myself)?(?: please)?\b(?P<x>.*)",
            _from_reminding,
        ),
        (
            r"(?P<pre>(?!(?:i |you |there is )?(?:do not|no longer|never|no need|need not)(?: (?:need|want|have|like"
            r"|you|to|a|for))*"
            r" (?:be )?remind)"
            r"(?!(?:what|which|who|did|do|does|is|are|was|were|have|has"
            r"|how)\b)(?:\S+ ){1,16}?),? ?(?:please |can you |could you |will you |i (?:need|want"
            r"|would like) (?:you )?to (?:be )?){0,3}(?:(?:remind|reminding) (?:me|us)|be reminded"
            r"|get reminded)\b(?P<x>.*)",
            _from_reminding,
        ),
        (
            r"make sure (?:that )?(?P<x>.+?) (?:is|are|gets?|goes)(?: put| added| placed| written"
            r"| included)?(?: down)? (?:on|to|onto|in) @list(?P<tail>.*)",
            _from_x_and_tail,
        ),
        (
            r"let me know (?:at|in|on|by|when it is) (?P<pre>(?:\S+ ){1,5}?)(?:that i (?:need|have) to|to) (?P<x>.+)",
            _from_reminding,
        ),
        # remembering and notes
        (
            r"(?P<verb>(?:(?:you |to )?(?:also )?(?:do not|never) (?:let me |let us )?forget"
            r"|(?:make sure|make it so)(?: that)? (?:i|we) (?:do not forget|remember|never forget)|(?:i |we )?(?:better not"
            r"|can not|must not|should not|do not want to|had better not|dare not) forget|(?:help me |help "
            r"|i (?:really )?(?:need|want|have|got|ought|would like)(?: you)?(?: to)? (?:to )?|i (?:must|should"
            r"|better|gotta) |let me |make me |it is (?:very |really |super )?(?:important|essential|crucial|vital"
            r"|necessary|critical)"
            r"(?: that)?(?: for me)? (?:i |to )|i need (?:some )?help |help me (?:in "
            r"|with )?)(?:help me )?(?:to )?(?:remember|remembering|not forget)|(?:always )?remember"
            r"|keep in mind)(?: for me)?(?: to| about| that)?) (?P<x>.+)",
            _from_remembering,
        ),
        (r"(?:note to self|self note|memo(?: to self)?|mental note) ?[:,-]? ?(?P<x>.+)", _from_note),
        (
            r"(?:please )?(?:make|take|leave|add|write|create|jot|put)(?: me| down)*(?: a| another)? ?(?:quick "
            r"|mental |new )?(?:note|memo)(?: down)?(?: for me| to self| to myself)?(?P<x>.*)",
            _from_note,
        ),
        (r"note (?:that )?i (?:need|have|must|got)(?: to)? (?P<x>.+)", _from_note),
        (r"(?:jot|write|note) (?:down|this down|that down)(?: for me)? ?[:,]? ?(?:that )?(?P<x>.+)", _from_note),
    )
)
_ADD = re.compile(r"(?:add|append|new|also add|add in)(?: also| in)? ?:? (?P<x>.+)", re.DOTALL)
_ELSEWHERE = re.compile(rf"{ADD_VERBS}(?: down)? (?P<x>.+?) {_ONTO} (?P<list>@other)(?: too| also)?")
_ADD_ALONE = re.compile(
    r"(?:add|create|make|new)(?: (?:something|one|an item|a new one|another|another one|a new item|stuff|an entry"
    r"|a thing|items?|things))*(?: for me)?"
    r"|(?:set|make|create|add|do)(?: up| me| some| any| new)* @tasks(?: for me)?"
)


def creation(line: Line, *, wish: bool) -> Intent | None:
    """The task that `line` asks to add. `wish`: an "i need to" stood before it, so that a bare verb is no request."""
    text = line.text
    for pattern, build in _FRAMES:
        match = pattern.fullmatch(text)
        if match:
            return build(line, match)
    match = _ELSEWHERE.fullmatch(text)
    if match:
        thing = description(line.group(match, "x"))
        return Offer(thing, line.group(match, "list").original) if thing else None
    match = _ADD.fullmatch(text)
    if match and not _ADD_ALONE.fullmatch(text):
        return _from_bare_add(line, match)
    if _ADD_ALONE.fullmatch(text) and not wish:
        return Create(None)
    return None
