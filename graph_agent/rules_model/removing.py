"""Sentences that take a task off the list."""

from __future__ import annotations

import re

from graph_agent.rules_model.intents import Delete, DeleteEvery, Each, Intent, Named, Position, Referent, Refuse, Unnamed
from graph_agent.rules_model.naming import belongs_elsewhere, names_nothing, target
from graph_agent.rules_model.phrases import ADDS_IT
from graph_agent.rules_model.text import Line
from graph_agent.rules_model.vocabulary import DELETE_VERBS, EMPTY_VERBS, REMOVE_VERBS

_ALL = (
    r"(?:everything|every thing|all|all of it|all of them|all of the (?:items|things|tasks)|(?:all )?@tasks|(?:all|every|each"
    r"|all the|all of the|all of my|the) (?:items?|things?|entries|entry|stuff|contents?|single (?:item|thing"
    r"|entry)|one)|it all|them all|the whole thing|whatever is|anything|the (?:entire|whole) (?:thing|contents?)"
    r"|any(?: and all)? items?|contents)"
)
_OFF = r"(?:off of|off from|off|from|out of|out|on|in|of|down from|away from|within|inside)"
_EITHER_WAY = r"(?:throw|toss|drop|leave|keep|pull|kick|bump|take|cast|rub|get(?! rid)|mark|put)"
"""Verbs that put on a list as well as take off it: what follows decides."""
_DATA = re.compile(
    rf"(?:{REMOVE_VERBS}|{EMPTY_VERBS})(?: out| all)?\b.*\b(?:(?:all|my|the|your|entire|whole|every)(?: of)?(?: my"
    r"| the| your)?(?: \w+)?? (?:data|database|information|info|history|records|memory)|my account"
    r"|all my accounts)\b.*"
    rf"|(?:{EMPTY_VERBS}) (?:everything|it all)(?: (?:permanently|forever|now|for good|at once|completely|about me"
    r"|you know.*|you have.*|please))*"
    rf"|drop (?:all |the )?(?:@?\w+ )?tables?\b.*|rm -.*"
)
_EVERYTHING = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        rf"(?:{REMOVE_VERBS}|{EMPTY_VERBS})(?: out| off| up| away| down| clean)* {_ALL}(?: (?:that|which|i have|is"
        rf"|are|currently|listed|i put|i added|there|left|written|from|out|off))* ?{_OFF} @list\b.*",
        rf"(?:{REMOVE_VERBS}|{EMPTY_VERBS})(?: out| off| up| away| down| clean)* {_ALL} (?:(?:that|which) (?:is|are)"
        r"|(?:that )?i have) .*@list\b.*",
        rf"{EMPTY_VERBS}(?: out| off| up| away| down| clean| over)* (?:(?:all|everything|every item|items|contents"
        r"|the contents|the items|all items|all the items|all of the items) (?:on|of|in|from|off)? ?)?(?:@list"
        r"|@tasks)(?: (?:out|off|clean|completely|entirely|please|now|for me|all|and start.*|up|blank|empty"
        r"|for today|today|right now|of (?:all|everything|its|any).*|permanently|again|altogether|totally"
        r"|as a whole|in its entirety|so.*))*",
        r"(?:i (?:would )?)?(?:make|leave|have|get|keep|turn|set|render|be|want|need|like)(?: sure)? @list(?: to be"
        r"| is| be| gets)?(?: completely| totally| all| fully| entirely)? (?:blank|empty|clear|clean|cleared"
        r"|emptied|erased|wiped|deleted|cleared out|empty again|wiped clean|gone|blank again|reset|to zero|removed"
        r"|to nothing)\b.*",
        r"(?:i (?:want|need|would like|would prefer) )?@list (?:needs to be|should be|must be|has to be|to be"
        r"|can be|is to be|ought to be|be|needs) (?:blank|empty|clear(?:ed)?|emptied|erased|wiped|deleted"
        r"|cleared out|removed|clearing|reset|blanked|blank|gone|purged)\b.*",
        r"(?:i )?(?:do not|no longer) (?:need|want) (?:@list|@tasks)(?: any ?more)?",
        rf"{_ALL}(?: that is)? (?:on|in|from) @list (?:should|can|could|must|needs? to|has to|have to|may) (?:be|go"
        r"|get|come)\b.*",
        rf"(?:i (?:want|need|would like) |let us (?:get|have) |get )(?:to (?:have|get) )?{_ALL}(?: that is"
        r"| i have)? (?:(?:off|off of|out of|from) @list(?: (?:to be )?(?:deleted|removed|gone|erased|cleared|wiped"
        r"|taken off|crossed off"
        r"|dropped))?|(?:on|in) @list (?:to be )?(?:deleted|removed|gone|erased|cleared|wiped|taken off|crossed off"
        r"|dropped)).*",
        r"(?:make sure (?:that )?)?(?:nothing|there (?:is|should be|must be|needs to be) nothing)(?: is"
        r"| should be)?(?: left)? (?:on|in) @list.*"
        r"|(?:set|put|turn|bring|reset) @list (?:back )?(?:to (?:zero|blank|empty|nothing|scratch)|in the (?:trash|bin"
        r"|garbage))\b.*"
        rf"|(?:@list|(?:all )?@tasks) ?[,:]? ?(?:{EMPTY_VERBS}) (?:it|them|that|all of (?:it|them)"
        rf"|everything)(?: all)?(?: out| off)?"
        rf"|{_ALL} (?:off|off of|out of) @list"
        rf"|.*@list\b.* (?:{EMPTY_VERBS}) (?:it|them) all|.*[,;] ?(?:so )?(?:{EMPTY_VERBS}) (?:everything|it all|all) (?:on"
        rf"|in|off"
        rf"|from) @list"
        r"|(?:all )?@tasks (?:should|can|must|need to|have to|could) (?:be|get|go)(?: all)? ?(?:erased|deleted|removed"
        r"|cleared|wiped|gone|away|off)?"
        r"|(?:start|begin"
        r"|go)(?: over| again| fresh)? (?:with|from) (?:a |an )?(?:blank|clean|empty|fresh|new) (?:@list|todo list"
        r"|to do list|list).*",
        r"start (?:over|fresh|again|anew)(?: with)? ?@list.*|start (?:a )?(?:new|fresh|blank|clean) @list.*"
        r"|(?:start|begin) @list (?:over|again|fresh|from scratch)\b.*",
        r"(?:i )?(?:do not|no longer) (?:need|want)(?: to have)? (?:anything|any of the (?:items|things)|any items"
        r"|everything|any thing|any of that)(?: that is| i have)? (?:on|in) @list.*|nothing (?:should"
        r"|needs to) be on @list.*",
        r"(?:complete |whole |total )?(?:deletion|removal|erasure|erasing|clearing|deleting"
        r"|removing) of (?:everything on |all items on )?(?:@list|@tasks).*",
        rf"(?:from|off|off of|on) @list ,? ?(?:please |can you )?{REMOVE_VERBS}(?: off| out)? {_ALL}(?: please)?",
        rf"{REMOVE_VERBS} (?:off )?(?:all (?:of )?)?@tasks",
    )
)
_OFF_LIST = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        r"(?:i )?(?:do not|no longer|never|can not|will not|am not going|decided not|decided against|have decided not"
        r"|am not)(?: (?:need|want|have"
        r"|wanna|going|wish|plan))*(?: to)? (?P<x>.+?)(?: any ?more| now)? ?[,.;]? (?:so |and |please |can you "
        rf"|could you |you can |just |then ){{0,3}}{REMOVE_VERBS} (?:it|that|this|them)(?: off| out)? {_OFF} @list.*",
        r"(?:off|from|off of|out of|on|in) @list ?,? ?(?:please |can you |i (?:want|need|would like) (?:you )?to "
        rf"|just |go ahead and |you can |let us )*{REMOVE_VERBS}(?: off| out| away)?\b(?P<x>.*)",
        rf"(?!{_EITHER_WAY}\b(?!.* (?:off|from|out of)(?: of)? @list))(?:{REMOVE_VERBS}|get|mark|put|want|need"
        rf"|like) (?:off|out|away)?(?: of)? ?(?P<x>.*?) ?\b{_OFF} (?:the top of |the bottom of )?@list\b(?P<tail>.*)",
        rf"(?:{REMOVE_VERBS}) (?:it |that |this )?(?:off|out|from)(?: of| from)? @list ?[:,]? ?(?P<x>.+)",
        r"(?:(?:i )?(?:do not|no longer|never)|there is no|i have no|no) (?:need for|use for|more|need|want|have|keep|leave"
        r"|wanna)(?: to have)?(?: to)? ?(?P<x>.+?)(?: to be"
        r"| being)?(?: (?:listed|included|any ?more|anymore|still))* (?:on|in|to stay on|to be on|from) @list\b.*",
        r"(?:(?:can|could|should|may|will|would) |i (?:want|need|would like|would love|prefer) |let us (?:get"
        r"|have) )?(?:to (?:have|get|see) |have "
        r"|get )?(?P<x>.+?) (?:(?:can|should|could|must|needs to|has to|may|ought to|is to|to|needs|being) ?(?:come"
        r"|be|get|go|gets)?|be|taken|is|gets|get|go|comes?)? ?(?:removed|deleted|taken|erased|crossed|scratched"
        r"|struck|dropped|cleared|eliminated|wiped|gone|cut|come|pulled|marked|thrown|stricken|tossed|canceled"
        r"|cancelled)?(?: off of| off| from| out of| off from) @list\b.*",
        r"(?:stop|quit|do not|never) (?:reminding|remind) (?:me|us)(?: to| about| of| that)? (?P<x>.+?)(?: any ?more| again)?",
        r"(?:i )?(?:do not|no longer|never)(?: (?:need|want|have|like))+(?: you)?(?: to be| to get| to)? (?:reminded|reminding"
        r"|remind(?: me| us))(?: to| about| of| that| for)?(?P<x>.*?)(?: any ?more| again)?",
        r"(?:i (?:want|need|would like) )?(?:\w+ )?@list (?:to )?(?:not|no longer|exclude|omit|leave out)(?: needs?"
        r"| have| include"
        r"| contain| show| list| say)?(?P<x> .+?)(?: (?:on|in) it)?",
        r"(?:\w+ )?@list (?:by|and) (?:removing|deleting|dropping|erasing|clearing|taking off|crossing off|getting rid of"
        r"|taking out)(?P<x> .+)",
        r"(?P<x>.+?) (?:do not|does not|should not|need not|no longer|must not)(?: needs?| has| have| belongs?| ought)?(?: to)?"
        r"(?: be)?(?: listed)? (?:on|in) @list.*",
        r"i (?:want|need|would like) (?P<x>(?!to ).+?) (?:off of|off|out of|gone from) @list.*",
        r"@list (?:no longer|does not) needs?(?: to (?:have|include))?(?P<x> .+?)(?: (?:on|in) it)?",
        r"make sure (?:that )?(?P<x>.+?) (?:is|are) (?:not|no longer|off)(?: on| of| from)? @list.*",
        r"make (?P<x>.+?) (?:disappear|vanish|go away|come off)(?: from| off(?: of)?)? @list.*",
        r"(?:rid|relieve|strip|purge|clear|cleanse|free) @list of (?P<x>.+)",
        r"put an end to (?P<x>.*(?:@task|@list).*)",
        rf"(?:go|get|look|head)(?: back)?(?: in)? ?(?:to|into|in) @list and (?:please )?{REMOVE_VERBS}(?: off| out"
        rf"| away)? (?P<x>.+)",
        rf"(?:off|from|off of|out of) @tasks ?,? ?(?:please )?{REMOVE_VERBS}(?: off| out| away)? (?P<x>.+)",
        r"(?:i (?:want|need|would like) |get |have )(?P<x>.*@task.*?) (?:to be )?(?:gone|removed|deleted|erased|off|cleared"
        r"|taken off)",
        r"(?P<x>.+?) (?:is|are) (?:not|no longer) (?:needed|wanted|necessary|required"
        r"|supposed to be)(?: any ?more)? (?:on|in) @list.*",
        r"(?:@list|it) (?:should not|should no longer|must not|must no longer|does not need to|no longer needs to"
        r"|need not) (?:have|include|contain"
        r"|list)(?P<x> .+?)(?: (?:on|in) it)?",
    )
)
_OF_TASK = re.compile(
    rf"(?:{DELETE_VERBS}|turn off|stop|unset|deactivate|disable)(?: off| out| away| up)? (?P<x>.*@tasks?\b.*)"
    r"|(?:i )?(?:do not|no longer) (?:need|want)(?: the| my| that)? (?P<y>.*@task\b.*?)(?: any ?more| anymore)?",
    re.DOTALL,
)
_BARE = re.compile(
    r"(?:delete|remove|erase|get rid of|scratch|cross off|cross out|cross(?= .* (?:off|out)$)|(?:take|get|pull)(?= .* off$)"
    r"|knock(?= .* off$)|scrap|strike|strike out|take off|trash)(?: off| out)? (?P<x>.+?)(?: off| out)?",
    re.DOTALL,
)
_PLACED = re.compile(rf"(?:{DELETE_VERBS})(?: off| out)? (?P<x>.+?)(?: off| out)?")
_ALONE = re.compile(
    r"(?:delete|remove|erase)(?: (?:something|an item|one|one item|some items|items|things|a thing))?(?: for me)?"
)


_TO_DELETE = rf"(?!cross|scratch|strike){REMOVE_VERBS}"
"""What is done and crossed off is done; what is done and removed is gone."""
MAX_REPORT = 400
"""A longer sentence is no report of a single task."""
_FRESH = re.compile(
    r"(?:(?:start|begin)(?: with| on)?|i (?:want|need|would like)|make (?:me )?a (?:clean slate|fresh start"
    r"|blank page) (?:of|on|with)) @list"
    r"(?: over)?"
)
_FRESH_WORDS = re.compile(r"\b(?:new|fresh|blank|clean|empty|over)\b", re.IGNORECASE)
_SO = r"(?:so |and |please |can you |could you |you can |just |then |now |go ahead and ){0,4}"
_IT_OFF = rf"(?:it|that|this|them)(?: one)?(?: {_OFF})*(?: @list)?(?: now| for me)*"
_REPORTED = tuple(
    re.compile(rf"{pattern} ?[,.;]? {_SO}{verbs} {_IT_OFF}", re.DOTALL)
    for pattern, verbs in (
        (
            r"(?:(?:i|we) )?(?:(?:have|am|just|already|now) )*(?:changed my mind about|decided not to|decided against"
            r"|do not need to"
            r"|do not have to|do not want to|no longer need to|not going to)(?: doing)? (?P<x>.+?)(?: any ?more| now)?",
            REMOVE_VERBS,
        ),
        (
            r"(?:(?:i|we) )?(?:(?:have|had|am|just|already|finally|now|all) )*(?:done with|finished with|finished"
            r"|completed|did|done"
            r"|got done with|took care of)(?: doing)? (?P<x>.+?)(?: already| today| now)*",
            _TO_DELETE,
        ),
        (
            r"(?:(?:i|we) )?(?:(?:have|had|just|already|finally|now) )*(?P<x>[a-z]+(?:ed|ght|id|ent|ade|ook|ut|ot|aid|ote"
            r"|an|ove|old|et)"
            r"\b .+?)(?: already| today| now)*",
            _TO_DELETE,
        ),
        (
            r"(?P<x>(?!i |we |what |which |is |are ).+?) (?:is|are|was|were|has been|have been|got)(?: already| all"
            r"| now)* (?:done"
            r"|finished|completed|complete|over|taken care of)(?: already| now)?",
            _TO_DELETE,
        ),
    )
)
"""What became of a thing, and an order to strike it: "i mowed the lawn so take it off my list"."""


def removal(line: Line, *, wish: bool) -> Intent | None:
    """What `line` wants gone: a task, or everything at once."""
    text = line.text
    if _DATA.fullmatch(text) and "@list" not in text and "@task" not in text:
        return Refuse("everything")
    if ADDS_IT.fullmatch(text):
        return None
    for pattern in _EVERYTHING:
        if pattern.fullmatch(text):
            return DeleteEvery()
    if _FRESH.fullmatch(text) and _FRESH_WORDS.search(line.original):
        return DeleteEvery()
    if len(text) <= MAX_REPORT:
        for pattern in _REPORTED:
            match = pattern.fullmatch(text)
            if match:
                return Delete(target(line.group(match, "x")))
    if "@list" in text or "@task" in text or "remind" in text:
        for pattern in _OFF_LIST:
            match = pattern.fullmatch(text)
            if match:
                asked = line.group(match, "x").trimmed()
                if asked.text in {"me", "us", "my name"}:
                    return None
                if asked.text == "@tasks" or (
                    asked.text.startswith(("everything", "all items", "all the items")) and len(asked.tokens) < 4
                ):
                    return DeleteEvery()
                return None if _reads(asked.text) else Delete(target(asked))
    match = _OF_TASK.fullmatch(text)
    if match:
        asked = line.group(match, "x" if match["x"] else "y").trimmed()
        if asked.text == "@tasks" or asked.text.startswith("all "):
            return DeleteEvery()
        return Delete(target(asked))
    if _ALONE.fullmatch(text):
        return Delete(Unnamed())
    match = _PLACED.fullmatch(text)
    if match and isinstance(target(line.group(match, "x")), Position | Each | Referent) and not wish:
        return Delete(target(line.group(match, "x")))
    match = _BARE.fullmatch(text)
    if match and not wish:
        asked = line.group(match, "x").trimmed()
        words = {token.norm for token in asked.tokens}
        if names_nothing(asked) and isinstance(target(asked), Named):
            return None
        if len(asked.tokens) <= 6 and not belongs_elsewhere(asked) and "from" not in words and "@other" not in words:
            return Delete(target(asked))
    return None


_READ_OUT = re.compile(r"(?:an?|the)? ?(?:quick )?(?:read|reading|list|look|run|run ?down|summary|recap|overview|breakdown)\b")


def _reads(text: str) -> bool:
    asking = ("to know", "to see", "to hear", "to read", "what ", "know what", "read ", "show ", "tell ")
    return bool(_READ_OUT.match(text)) or text.startswith(asking)
