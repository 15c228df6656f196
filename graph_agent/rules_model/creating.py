"""Sentences that ask for a new task."""

from __future__ import annotations

import re

from graph_agent.rules_model.intents import Create, Intent, Offer
from graph_agent.rules_model.naming import WHEN, belongs_elsewhere, description
from graph_agent.rules_model.reminding import ENSURE, REMINDING, Builder
from graph_agent.rules_model.text import Line
from graph_agent.rules_model.vocabulary import ACTION_VERBS, ADD_VERBS, NUMBERS, QUESTION_WORDS, TIME_WORDS, words

_WISH = (
    r"(?:i (?:really |also |still )?(?:need|have got|have|want|got|ought|would like|am going)(?: to)? |i (?:must|should) "
    r"|i (?:keep|always|often|usually|tend to) (?:forget|forgetting)(?: to| about)? )"
)
_ONTO = r"(?:to|on|among|amongst|as (?:a )?part of|onto|in|into|at|under|down on|down in|up on|in on|for|of|with|too)"
_NEED = (
    r"i (?:(?:am|will|would|could|can|may|might|do|just|really|also|still|going|to|have) )*(?:need|needing|want|wanting"
    r"|like|love|require"
    r"|appreciate|use|prefer|desire|to have)"
)
_PRONOUN = r"(?:it|that|this|them|those|these|that one)"


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
    r"|^(?:an? |the )?(?:quick |full |short )?(?:run|read|look|list|recap|peek|glance|breakdown|copy|report|sense|idea)$"
)


_NEGATED = re.compile(
    r"^(?:no|nothing|none|clean slate|fresh start)\b|^an? (?:clean slate|fresh start|end)\b|[,;] ?(?:so |and )?(?:delete"
    r"|remove|erase|clear|wipe)\b|"
    r"\b(?:do not|does not|did not|should not|need not|must not|will not|no longer)$"
)
_MEDIA = re.compile(r"(?:this|that|these|those|the)(?: \w+)? (?:songs?|tracks?|album|tune|music|artist|band|movie|video)")
"""What is playing, never a task."""


def _from_task(line: Line, match: re.Match[str]) -> Intent | None:
    """A task for "set the reminder for noon" and "reminder pay rent", none for a remark: "my reminder was late"."""
    asked = line.group(match, "x")
    if not match["lead"] and (_DEFINITE.match(asked.original.lower()) or _REMARK.match(asked.text)):
        return None
    sent = _SENT.match(asked.text)
    if line.text.startswith("send ") and sent and sent[1] not in ACTION_VERBS:
        return Offer(line.original)
    return Create(description(asked))


_SENT = re.compile(r"@task to (?!me\b|us\b|myself\b)(\w+)")
"""Who gets a reminder, where it is sent: "send a reminder to bob"."""
_DEFINITE = re.compile(r"(?:my|our|the|this|that|your|every|each|any|some)\b")
_REMARK = re.compile(
    r"@task (?:is|was|are|were|did|does|do not|has|had|have|never|always|can|will|should|would(?! be (?:great|nice|good|helpful"
    r"|appreciated|awesome)))\b"
)


def _from_unknown_verb(line: Line, match: re.Match[str]) -> Intent | None:
    """A task for "conjure up a reminder to sweep", but not for what is done with "the reminder to sweep"."""
    asked = line.group(match, "x")
    verb = line.tokens[0].norm
    if verb in QUESTION_WORDS or not re.match(
        r"(?:an?|another|one|some)\b", line.between(match.start("x"), match.start("x") + 5).original.lower()
    ):
        return None
    return Create(description(asked))


def _from_either(line: Line, match: re.Match[str]) -> Intent | None:
    return Create(description(line.group(match, "x" if match["x"] else "y")))


def _from_bare_name(line: Line, match: re.Match[str]) -> Intent | None:
    """An offer for "milk to my list": nobody said that it is to be added."""
    asked = line.group(match, "x").trimmed()
    named = description(asked)
    first = asked.tokens[0].norm.split()[0] if asked.tokens else ""
    if named is None or len(asked.tokens) > 8 or first in QUESTION_WORDS | _GOING or "@" in asked.text:
        return None
    return Offer(named)


_GOING = words(
    "go listen back return switch take get look jump open scroll navigate show tell read refer according regarding i let"
)
"""What goes to a list without being put on it."""


def _from_plan(line: Line, match: re.Match[str]) -> Intent | None:
    return Create(description(line.group(match, "plan")))


def _from_bare_add(line: Line, match: re.Match[str]) -> Intent | None:
    """A task for "add milk", where no list is named, unless a sum or something that is kept elsewhere is added."""
    asked = line.group(match, "x").trimmed()
    words = [token.norm for token in asked.tokens]
    text = asked.text
    if (
        not words
        or belongs_elsewhere(asked)
        or all(word[0].isdigit() or word in NUMBERS or word in {"and", "to", "plus", "+", "with"} for word in words)
    ):
        return None
    if words[0] == "up" or {"plus", "user"}.intersection(words) or words[-1] == "up":
        return None
    if words[0].isdigit() and re.search(r"\b(?:to|and|plus) [\d.]+", text):
        return None
    if _KEPT_APART.search(text) or "@other" in text or _SHOWN_HERE.match(text):
        return None
    if words[0] == "my" or (words[0] not in ACTION_VERBS and "appointment" in words):
        return Offer(asked.original)
    return Create(description(asked))


_SHOWN_HERE = re.compile(r"(?:this|that|these|those|it)\b.* to\b|to\b")
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

_FRAMES: tuple[tuple[re.Pattern[str], Builder], ...] = tuple(
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
            r"(?:to|on|in|for) @list ?[,:;]? ?(?:i (?:also )?(?:need|want|would like) |there (?:should|needs to"
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
        (
            r"(?:(?:i have (?:got )?|here is |there is )?(?:one more|another|something(?: else)?|a new|new|(?:the "
            r"|my )?(?:first|next|last|other))"
            r"(?: (?:new|more|thing|item|entry|addition|job|@task))*(?: i (?:need|want|have))?(?: to (?:go|put|be"
            r"|add))? (?:for|to|on|in) @list"
            r"(?: (?:for )?(?:today|tomorrow|tonight|this week))?(?: ?[:,;-]| (?:is|should be|will be|needs to be"
            r"|would be))+ (?P<x>.+)"
            r"|@list ?[:-] ?(?P<y>.+))",
            _from_either,
        ),
        (
            rf"@list ?, ?(?P<x>(?!check|tell|find|read|see|show|list|look|repeat|review"
            rf"|go)(?:{'|'.join(sorted(ACTION_VERBS))})\b.+)",
            _from_x,
        ),
        # an unknown verb: "squeeze a nap into my list", and none: "milk to my list please"
        (
            r"(?!(?:go|listen|look|peek|dive|get|take|switch|turn|hop|jump|insight|please)\b)\w+(?: down| in"
            r"| up)? (?P<x>.+?) (?:into|onto)"
            r" @list(?P<tail>.*)",
            _from_x_and_tail,
        ),
        (r"(?P<x>.+) (?:onto|to) @list", _from_bare_name),
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
            r"|can i)\b)(?P<x>.+?) (?:needs?|has|have|should|must|ought|can|could|belongs?|goes|go|wants|(?:is|are)"
            r"(?= (?:to|going|also to)\b))(?: also)?(?: to)?(?: be| go| get| going)?(?: put| added| placed| included"
            r"| written| listed| inserted"
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
        (
            rf"{ENSURE} (?P<x>.+?) (?:is|are|gets?|goes)(?: put| added| placed| written"
            r"| included)?(?: down)? (?:on|to|onto|in) @list(?P<tail>.*)",
            _from_x_and_tail,
        ),
        # "make a reminder to X"
        (
            rf"(?P<lead>(?:{_NEED} |there (?:should|needs to|must) be |how about |what about "
            rf"|is it possible to get |may i have |could use |go for )?(?:{_MAKE} )?(?:up |me |us |in "
            rf"|out |down |myself |a |set |to |for |it |as ){{0,3}})(?P<x>@task\b.*)",
            _from_task,
        ),
        (rf"{_MAKE}(?: up| in| me| us)* (?:an?|the|another|some) (?:\w+ ){{1,3}}(?P<x>@task\b.*)", _from_x),
        (r"(?:put|set|add|get|have)(?: up| in)? \w+ (?P<x>@task\b.*)", _from_x),
        (
            r"(?!(?:i|you|it|we|they|he|she|this|that|my|no)\b)[a-z]+(?: (?:me|us|up|on|in|out|off"
            r"|over))* (?P<x>@task (?:to|for|about|that)\b .+)",
            _from_unknown_verb,
        ),
        (
            rf"(?:{_NEED}|give|send|shoot|drop|throw|set|make|create|add)(?: up)?(?: me| us)? an? (?:quick "
            rf"|little )?(?:nudge|ping|poke|buzz|shout|holler"
            rf"|heads up|alert)(?: for me)?"
            rf"(?: (?:at|by|in|on) {WHEN})? (?:to|so (?:that )?i (?:remember|do not forget)(?: to)?) (?P<x>(?!wake|notify"
            rf"|tell|let|warn).+)",
            _from_x,
        ),
        (rf"{_MAKE}(?: up| me| us| down)* (?P<x>.+?)(?: as| into) @task", _from_x),
    )
)
_ADD = re.compile(r"(?:add|append|new|also add|add in)(?: also| in)? ?:? (?P<x>.+)", re.DOTALL)
_ELSEWHERE = re.compile(rf"{ADD_VERBS}(?: down)? (?P<x>.+?) {_ONTO} (?P<list>@other)(?: too| also)?")
_ADD_ALONE = re.compile(
    r"(?:add|create|make|new)(?: (?:something|one|an item|a new one|another|another one|a new item|stuff|an entry"
    r"|a thing|items?|things))*(?: for me)?"
    r"|(?:set|make|create|add|do)(?: up| me| some| any| new| a few| a couple of| several| two| three)* @tasks(?: for me)?"
)


def creation(line: Line, *, wish: bool) -> Intent | None:
    """The task that `line` asks to add. `wish`: an "i need to" stood before it, so that a bare verb is no request."""
    text = line.text
    for pattern, build in (*_FRAMES, *REMINDING):
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
