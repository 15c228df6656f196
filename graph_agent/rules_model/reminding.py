"""Sentences that ask to be reminded, to remember, or to take a note."""

from __future__ import annotations

import re
from collections.abc import Callable

from graph_agent.rules_model.intents import Create, Intent, Offer, Unclear
from graph_agent.rules_model.naming import WHEN, belongs_elsewhere, description
from graph_agent.rules_model.text import Line
from graph_agent.rules_model.vocabulary import ACTION_VERBS, CARDINALS, FOREIGN_VERBS, QUESTION_WORDS, words

Builder = Callable[[Line, re.Match[str]], Intent | None]
"""Makes an intent of a line that has matched a frame; None where the frame promised too much."""
ENSURE = r"(?:make sure|make certain|make it so|be sure|be certain|see to it|see|ensure)(?: that)?"
_NUMBER = "|".join(CARDINALS)
_REMIND_OF_EVENT = re.compile(
    r"\b(?:appointments?|meetings?|birthdays?|anniversary|class|classes|interview|party|game|date|dinner|lunch"
    r"|deadline|event|trip|visit|call"
    r"|wedding|concert|exam|test|practice|rehearsal|holiday|graduation|medicine|medication|pills?|meds)\b"
)
_LOOKS_BACK = re.compile(
    r"(?:how|who|whose|where|why|which|what|whether|if i|if (?:\w+ ){1,2}(?:is|are|was|were|do|does)\b(?!.* to )"
    r"|when (?!.* to \w)(?:is|are|was|were|do|does|did|will|my|the|i (?:last|did)|(?:[\w']+ ){1,4}(?:is|are|was|were|starts?"
    r"|ends?)\b))\b"
)


def _from_reminding(line: Line, match: re.Match[str]) -> Intent | None:
    """A task for "remind me of the meeting" and "remind me to ...", none for "remind me of the total": that asks to be told."""
    asked = line.group(match, "x").trimmed()
    if "pre" in match.groupdict() and match["pre"]:
        before = line.group(match, "pre").trimmed()
        if _SAYING.match(before.text) or _COMPLAINT.fullmatch(before.text):
            return None
        named = description(asked)
        if named is None:
            return Create(description(_without_alarm(before)))
        when = _without_alarm(before)
        return Create(f"{named} {when.original}" if when.tokens and not names_nothing_but_asking(when) else named)
    text = asked.text
    if text.startswith(("your ", "you ")):
        return None
    if text.startswith("when ") and not _LOOKS_BACK.match(text) and " to " not in text:
        return Create(None)
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


_SAYING = re.compile(
    r"(?:send|text|email|message|write|tweet|post|reply|say|tell|ask)\b(?! (?:me|us)\b).*|.*\b(?:saying|says)$"
)
"""What stands before "remind me" where others are to read it: "text mom saying remind me to bake"."""
_COMPLAINT = re.compile(
    r"(?:you|nobody|no one|it|this|that)\b.*\b(?:not|never|forgot to|failed to)|.*\b(?:thanks?|thank you|sorry)\b.*"
)
"""What stands before it where it was done, or was not: "you did not remind me"."""
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
    if re.match(r"(?:of |that |down |on |in |to |for |about )?(?:my|the|your)\b", asked.text) and belongs_elsewhere(asked):
        return None
    if not asked.text.startswith("to ") and _ON_ACCOUNT.search(asked.text) and belongs_elsewhere(asked):
        return Offer(description(asked) or asked.original)
    return Create(description(asked))


_ON_ACCOUNT = re.compile(r"\b(?:on|in|to|for) (?:my|the|your)\b")
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
        match["verb"].startswith("i ")
        and not asked_for
        and first not in QUESTION_WORDS | _PERSONS
        and not belongs_elsewhere(asked)
    ):
        named = description(asked)
        return Offer(named) if named else Create(None)
    if (
        match["verb"] == "remember to"
        and (first in FOREIGN_VERBS - ACTION_VERBS or first == "turn")
        and "@other" not in asked.text
    ):
        return Offer(asked.original)
    if (
        not asked_for
        or "@other" in asked.text
        or (not match["verb"].endswith(" to") and belongs_elsewhere(asked))
        or (first in QUESTION_WORDS and not match["verb"].endswith(" to"))
    ):
        return None
    return Create(description(asked))


REMINDING: tuple[tuple[re.Pattern[str], Builder], ...] = tuple(
    (re.compile(pattern, re.DOTALL), builder)
    for pattern, builder in (
        # "remind me to X"
        (
            r"(?:i (?:just |really |also )?(?:need|want|would like|would love|have|wish|like"
            r"|prefer)(?: for)?(?: you)? (?:to (?:be |get )?|a )?|help |do |have (?:me|us) |you (?:can|should|must|need to) "
            rf"|be sure to |{ENSURE}(?: to| (?:i|you|we)(?: (?:am|are|get|will|be))*) |remember to |do not forget to "
            rf"|could i be |can i be "
            r"|may i be |send me a |set (?:up )?a )?(?:please )?(?:(?:remind|reminded|reminding)|(?:notify|notified"
            r"|alert|alerted|nudge|nudged|prompt|prompted|ping|pinged|poke|buzz|bug)(?=(?: me| us)?(?: (?:at|on|in|before|after"
            r"|every|next|this|tomorrow|tonight|today|later)\b.*)? to\b(?! (?:any|all|the|an?|changes)\b))|told(?= to\b)"
            r"|(?P<soft>tell"
            rf"|ask)(?= (?:me|us)(?: (?:(?:at|by|in|on|around|every|after|before) )?(?:{WHEN}|(?:{_NUMBER})\b)| (?:when"
            rf"|once|as soon"
            r" as) i (?:\w+ ){1,4}?)? ?to\b))(?P<who> me| us| myself)?(?: please)?\b(?P<x>.*)",
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
            r"let me know (?:at|in|on|by|when it is) (?P<pre>(?:\S+ ){1,5}?)(?:that i (?:need|have) to|to) (?P<x>.+)",
            _from_reminding,
        ),
        # remembering and notes
        (
            r"(?P<verb>(?:(?:you |to )?(?:also )?(?:do not|never) (?:let me |let us |(?:allow|permit) (?:me|us) to )?forget"
            r"|(?:keep|stop|prevent) (?:me|us) from forgetting|tell (?:me|us) not to forget"
            rf"|{ENSURE} (?:i|we) (?:will |can )?(?:do not forget|remember|never forget)|(?:i |we )?(?:better not"
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
