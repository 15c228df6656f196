"""Sentences that ask what is on the list."""

from __future__ import annotations

import re

from graph_agent.rules_model.duties import asks_for_duties
from graph_agent.rules_model.intents import Intent, Show, Status
from graph_agent.rules_model.naming import description, names_nothing
from graph_agent.rules_model.phrases import ADDS_IT, asks_for_a_service
from graph_agent.rules_model.text import Line, read_line
from graph_agent.rules_model.vocabulary import QUESTION_STARTS, READ_VERBS, TIME_WORDS, words

MAX_LENGTH = 400
"""A longer sentence is no question about the list."""
_WANT = (
    r"(?:i (?:really |just |also )?(?:would like|want|need|wish|would love|would appreciate|am trying|am curious"
    r"|am wondering|wonder"
    r"|do not know|do not remember|do not recall|forgot|forget|can not remember|can not recall|lost track of"
    r"|am interested|have|am not sure)(?: you)?(?: to| in| about| if)? )?"
)
_TODAY = (
    r"(?: ,| (?:my list|according to @list|(?:off|per|on|from) @list|still|else|left|remaining|due|pending|please"
    r"|again|exactly|right|yet|work|home|rest|me|" + "|".join(sorted(TIME_WORDS)) + r")\b)*"
)
_NOT_READING = (
    r"(?!remind (?:me|us|myself) (?:to|that|about|i|later|at|on|in|tomorrow)\b|get (?!me\b|us\b|my\b|the\b|@|a list"
    r"|all\b|every|out\b|up\b)|list (?!@|me\b|out\b|off\b|all\b|every|what|the\b|my\b|any|for\b|down\b|things|items"
    r"|each|some|your|our|only|tasks)|make |take (?!me\b|a\b|us\b)|help (?:me )?(?:to )?(?:remember to|remind)"
    r"|call (?!out\b|off\b|up\b|@)|tell me to\b|update (?!me\b|us\b)|see (?:that|to it)\b|i (?:want|need"
    r"|would like) to make an?\b|(?:how|what) about |use |do not |name )"
)
_LEAD = (
    rf"{_NOT_READING}(?:{_WANT}(?:{READ_VERBS}|what|which|when|where|how|if|whether|(?:remember|recall|figure out"
    rf"|see) (?:what|which|if|whether))|{QUESTION_STARTS})\b"
)
_GENERAL = re.compile(
    rf"(?:please )?{_LEAD}.*(?:@list|@tasks)\b.*|(?:on|in|from|off|about|regarding|for|of) (?:@list"
    r"|@tasks)\b ?,? ?(?:what|which|is|are|do|does|did|how|tell|read|show|list|give|check|look).*",
    re.DOTALL,
)
_WH_LATE = re.compile(
    r"(?:the )?(?:items|contents?|things|stuff|tasks|everything|anything|all|entries|rundown|summary|status"
    r"|@tasks)\b.*?(?:on|in|from|of|off) @list\b.*|(?:@tasks|@list)(?: (?:please|now|today|for today|for tomorrow"
    r"|tomorrow|contains what|is what|includes what|has what|status|this week|for this week|again|items|summary"
    r"|read out|contents?))?|(?:.* )?(?:@list|@tasks)(?: for \w+)? (?:is|are|includes?|contains?|has) what.*|@tasks of @list.*"
    r"|i (?:just )?(?:need|want|would like) (?:@list|@tasks)(?: now| for the day| for today)?|i .*\bwhat (?:is"
    r"|was) on @list.*|.*@list.* did i"
    r"|i (?:want|need|would like|would love) (?:an? |the )?(?:quick )?(?:run ?down|run through|summary|recap|overview|list"
    r"|look|breakdown|update"
    r"|report|review|status|items|contents?|reading|read ?out) (?:of|on|at|about|for|in) (?:@list|@tasks)\b.*"
    r"|i (?:had|have|made|gave you|set|need|want|would like) (?:@list|@tasks)\b ?,?(?: .*\bwhat|(?: to be)? (?:read"
    r"|shown|displayed|listed|recited|repeated|told|opened|pulled up|brought up)).*"
    rf"|@tasks(?: (?:been )?(?:set up|set|saved|scheduled|made|coming up|there|for us))*{_TODAY}"
)
_SHOW_ALL = re.compile(
    r"(?:show|list|view|display|see|read)(?: me| us)? (?:all|everything|it all|all of (?:it|them)|(?:completed"
    r"|finished|done|pending|open"
    r"|unfinished)(?: ones| stuff| things| items)?)|(?:which|what) ones are (?:done|left|open|pending|finished|completed|due)"
    r"|(?:have|are|were) (?:there )?(?:any )?@tasks (?:been )?(?:set|saved|made|added|there)"
)
_SINGLE = re.compile(
    r"(?:is there|are there|was there|do i|did i|have i|have i got|has|when is|when was|when did|when do|when will|what time is"
    r"|(?:at|for) what time is|what is|which|what(?! about)|how many|do you have|did you|have you|tell me (?:if|whether"
    r"|about|when|what|which|how|my|the)"
    r"|let me know (?:if|whether|when)|check (?:if|whether|for)|see if|show(?: me)?|read(?: me)?|view|find|look (?:for|up)"
    r"|is)\b(?!.*\b(?:mean|means|app|apps|definition|best)\b).*@task\b.*",
    re.DOTALL,
)
_CHECK = re.compile(
    rf"(?:{_WANT}(?:(?:tell me|let me know|check|see|find out|verify|confirm|know|make sure|be sure|look)(?: (?:and|to|see"
    rf"|check|if"
    r"|whether|that))* )(?:i (?:have|had|set|made|put|added|created|already)|there (?:is|was|are)|you (?:have|set|made|put"
    r"|added))\b"
    r".*(?:@list|@tasks?)\b.*|.*(?:@list|@tasks?)\b.*? (?:did|do|have|is|was|has) (?:not )?(?:i|it|there|you)"
    r"(?: not)?(?: (?:there|on it|on there|in there|right))?"
    r"|.*(?:@list|@tasks?)\b.* (?:is (?:that|it) (?:right|correct|true)|can you (?:check|see|look|confirm|verify))"
    r"|i (?:(?:am|do|can|not) )*(?:wonder|wondering|curious|forget|forgot|sure|remember|recall|know) (?:if|whether) (?:i"
    r"|there|you)\b.*(?:@list|@tasks?)\b.*)",
    re.DOTALL,
)
"""What is to be made sure of, and what ends in doubt: "i think i put laundry on my list, did i"."""
_CAPABILITY = re.compile(
    r".*\b(?:can|could|do|are|will|would|does|may) (?:you|u|this|the app|it) ?(?:able to )?(?:do|handle|perform|set|make"
    r"|create|keep|remember|store"
    r"|help|support|take|complete|manage|offer|for)\b.*|how (?:do|can|should|would|to|does)\b.*"
)

_ON = (
    r"(?:on|in|part of|one of|included (?:in|on)|listed (?:on|in)|among|added to|put on|within|already on|already in"
    r"|currently on|at|inside|included on|written on|noted on|present on|mentioned on|a part of|something on"
    r"|set (?:on|in)|down on)"
)
_ABOUT = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        r"(?:.*?\b(?:if|whether|that|see|confirm|verify|sure|know) )?(?:is|are|was|does|do|has"
        r"|have)?\b ?(?P<x>(?!i\b|help\b|add\b|do i\b|there\b|you\b|we\b|my\b.*\bhave\b|what\b"
        r"|look\b|go\b|check\b|tell\b|show\b|read\b.*\btell\b|run\b|open\b|pull\b).+?) (?:(?:is|are"
        r"|was|has been|been|appear|appears|show up|exist|have been)\b ?)?(?:already |currently |still |even "
        rf"|listed |also |now |yet |anywhere |present |set )*{_ON} (?:@list|@tasks)\b.*",
        r"(?:.*?\b(?:if|whether|that) )?(?:do i|did i|have i|i have|i|i already have|do we|is there|are there"
        r"|was there|there is|there are|has there|have i got|i have got|you have|do you have|did you)(?: already"
        r"| currently| still| ever| remember to| even| got| have)*(?: have| add| put| set| set up| include| added"
        r"| put in| write| wrote| jot|jotted| make| create| list| placed?| note| included| listed| down| got| get"
        r"| enter| entered| mention| log| schedule| save| store| need)*(?: a| an| any| any thing| anything"
        r"| something| down| in| up| about| for)*(?P<x>(?! ?(?:on|in|to) @).+?) (?:down |listed |included |saved "
        r"|already |set |written |noted )*(?:on|in|to|into|onto|as|as part of|among|under|from) (?:@list"
        r"|@tasks?)\b.*",
        r"(?:check|search|scan|look (?:at|in|on|through|up|over)|look|see|view|examine|review|browse|inspect"
        r"|consult|go through|find)(?: on| in| at| through| up| over)? (?:@list"
        r"|@tasks)(?: and)?(?: please)?(?: (?:tell me|let me know|see|find out|check|look))?(?: (?:for|about"
        r"|to see if|to find|to see|to check if|to check|regarding|if|whether|see if|and see if|to make sure"
        r"|to verify|to know if|to see whether|for any|to look for|to find out if|to confirm|to ensure))+(?: i have"
        r"| there is| there are| i need to| i had| i put| i added| it has| it includes| any)?(?P<x> .+?)(?:(?: is"
        r"| are| was| has been| being)? (?:listed|there|on it|on there|included|in there|added|in it|present"
        r"|on @list|in @list|mentioned|is on it))?",
        r"(?:find|look for|search for|search|check for|see|locate)(?: if)? (?P<x>.+?) (?:on|in|from) (?:@list|@tasks)\b.*",
        r"(?:does|do|did|is|are) (?:@list|@tasks)(?: currently| already| still)? (?:have|include|contain|say|show"
        r"|list|mention|feature|cover|including|containing)(?: a| an| any| anything| something| about| for"
        r"| to)*(?P<x> .+)",
        r"(?:do i|did i|have i|is there|are there|was there|do i already|have i already|(?:.*\b(?:if|whether)) (?:i"
        r"|there))(?: already| currently| still| even| ever)*(?: is| are| was)?(?: have| set| set up| make| made"
        r"| create| created| add| added| got| put| put in| get| leave| left| need| had| write| wrote| give you"
        r"| gave you)*(?: up| in| a| an| any| the| me| to)* (?:@tasks?|@list)(?: set| set up| already| listed"
        r"| saved| scheduled| in place| on there)*(?: (?:to|for|about|regarding|that|called|of|on|named|concerning"
        r"|relating to|with|saying|where|telling me to))+(?P<x> .+?)(?: (?:on|in) (?:@list|@tasks))?",
    )
)
_ABOUT_LEAD = re.compile(
    r"(?:on|in) (?:@list|@tasks) ?,? ?(?:is|are|do i have|did i (?:put|add)|is there)(?: a| an| any| anything)*(?P<x> .+)"
)

_DONE = re.compile(
    r"\b(?:completed|finished|accomplished) (?:@?\w+)?|\b(?:have|did|has) (?:i|we) (?:already |just )?(?:completed?"
    r"|finish|finished|done|accomplish|accomplished|get done|gotten done|got done)\b"
    r"|\b(?:are|is|were|was|been|already|marked(?: as)?|i have|i) (?:done|completed|finished|crossed off"
    r"|checked off|complete)\b"
)
_OPEN = re.compile(
    r"(?<!\A)\b(?:pending|incomplete|unfinished|uncompleted|outstanding|remaining|undone|not done|not (?:yet )?(?:finished"
    r"|completed|complete|done)|open|left|yet to|still (?:need|have|to)|overdue|due)\b"
)


def showing(line: Line, *, wish: bool) -> Intent | None:  # noqa: ARG001 - "i want to see my list" asks as plainly as "show"
    """What `line` asks to see."""
    source = read_line(line.original).text if "@" in line.text else line.text
    text = line.text
    if len(text) > MAX_LENGTH or ADDS_IT.fullmatch(text) or asks_for_a_service(line):
        return None
    if _CHECK.fullmatch(text):
        return Show(about=_about(line))
    if text == "list" or _SHOW_ALL.fullmatch(text):
        return Show(status=_status(source))
    if asks_for_duties(line):
        return Show(status=_status(source))
    if "@task" not in text and "@list" not in text:
        return None
    if _CAPABILITY.fullmatch(text) and "i " not in text.split("@", 1)[0]:
        return None
    single = "@list" not in text and "@tasks" not in text
    if not (_SINGLE.fullmatch(text) if single else _GENERAL.fullmatch(text) or _WH_LATE.fullmatch(text)):
        return None
    return Show(status=_status(source), about=_about(line))


def _status(source: str) -> Status | None:
    if _OPEN.search(source):
        return "pending"
    return "completed" if _DONE.search(source) else None


def _about(line: Line) -> str | None:
    for pattern in (_ABOUT_LEAD, *_ABOUT):
        match = pattern.fullmatch(line.text)
        if not match:
            continue
        asked = line.group(match, "x").trimmed()
        words = {word for token in asked.tokens for word in token.norm.split()}
        if (
            not words
            or names_nothing(asked)
            or words & _NOT_A_THING
            or any(word.startswith("@") and word != "@quote" for word in words)
        ):
            continue
        return description(asked)
    return None


_NOT_A_THING = words("i what which many much everything all items listed left")
