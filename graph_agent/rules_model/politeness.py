"""The words around a request: politeness and wishes in front of it."""

from __future__ import annotations

import re

from graph_agent.rules_model.text import Line, Token

_POLITE = re.compile(
    r"(?:double(?= check\b)|(?:hey|hi|hello|yo|okay|alright|all right|well|um|uh|uhm|oh|hmm|and|also|then|now|actually"
    r"|great|thanks"
    r"|thank you|sure|yes|yeah|yep|no(?! need| longer)|nope|good morning|good evening|so|but"
    r"|ai|alexa|siri|google|cortana|olly|bixby|jarvis|echo|assistant|computer|bot|buddy|there(?! (?:is|are|was|were|should"
    r"|needs?|must|will|has)\b)|dude|friend|quick question"
    r"|next(?! (?:\w+day|week|weekend|month|year|item|thing|task|one|on|up|@task)\b)|finally"
    r"|first(?! (?:thing|item|one|task|@task|on|of|in)\b)|afterwards|after that|after this|lastly|secondly|firstly|again"
    r"|plus|maybe|perhaps|quickly|immediately"
    r"|urgently|right now|for now)\b ?[,.!;:-]*"
    r"|(?:can|could|would|will|wo) (?:not )?(?:you|u|we)(?: (?:be able to|like to|mind|possibly|also|just|quickly"
    r"|maybe|please|help me to|help me|help|be so kind as to|be kind enough to|go ahead and|for me))*"
    r"|(?:can|may|could|might) i (?:please )?(?:have|get) you(?: to)?"
    r"|(?:can|may|could|might) i(?: (?:please|just|possibly|also))*(?= (?:add|create|make|set|put|see|view|hear"
    r"|delete|remove|get|have|check|mark|change|rename|update|know))"
    r"|are you able to"
    r"|(?:is|would) it (?:be )?(?:at all )?possible (?:for (?:you|me) )?to|is there (?:a|any) way (?:to|you can"
    r"|you could|i can)"
    r"|i (?:really |also |just |still )?(?:want|need|would like|would love|would appreciate|would prefer|require"
    r"|am asking|am going to need|am needing|am wanting|wish|expect)(?: for)? you to(?: (?:please|also|just"
    r"|go ahead and|help me))*"
    r"|i would (?:really )?appreciate it if you (?:could|would|can)|it would be (?:great|nice|good"
    r"|helpful) if you (?:could|would)|i was (?:wondering|hoping) (?:if )?you (?:could|can|would)"
    r"|i wonder if you (?:could|can)|do you think you (?:could|can)|if you (?:could|can|would"
    r"|do not mind)(?: please)? ?,?|when you (?:can|get a chance|have time) ?,?"
    r"|(?:do not forget|remember) to(?= (?:set|add|remind|put|make|create)\b.*(?:@task|@list|remind))"
    r"|(?:how|what) about(?: (?:you|we))?(?= (?:\w+ing|remind|add|set|put|make|create|clear|remove|delete)\b)"
    r"|why do not (?:you|we)"
    r"|let me(?= (?:add|put|create|make|set|include|write)\b)|let us(?: (?:go ahead and|just|please))*|go ahead and"
    r"|go (?:on )?and|hurry up and|hurry and|hurry"
    r"|do me a favor (?:and|,)|do me a favor|help me(?: to)?(?= (?!(?:to )?(?:remember|remind)\b)\w)|make sure (?:to|you"
    r"|that you)|be sure (?:to|and)|try to|try and|feel free to|proceed to|start by|you (?:can|could|should|need to"
    r"|must|have to|may|will)|just|simply|quick|would you mind|do you mind|mind"
    r"|i (?:just )?(?:remembered|realized|realised|noticed|forgot)(?: that)?(?= i (?:need|have|must|should|want"
    r"|got))|i (?:think|guess|believe)(?: that)?(?= i (?:need|have to|must|should|want))|i am (?:trying|looking"
    r"|going|hoping|wanting|asking)(?: for you)? to|please|,|\.|!|:|-|;|\?|\n|\+)(?: |$)"
)
WISH = re.compile(
    r"(?:i (?:really |also |just |still )?(?:need|want|would like|would love|have|got|wish|ought|will need|am going"
    r"|like|have got|had better|better|plan|hope)(?: you)? to|i (?:must|should|will|shall)|we (?:need|have|should"
    r"|must) ?(?:to)?|got to|have to|need to|want to|would like to)(?: (?:also|just|please|really|go ahead and))* "
)


def without_politeness(line: Line) -> Line:
    """`line` without the politeness in front of it."""
    for _ in range(12):
        match = _POLITE.match(line.text)
        if not match or match.end() == 0:
            return line
        rest = line.after(match.end())
        if not rest.tokens:
            return line
        line = rest
    return line


def readings(line: Line) -> list[tuple[Line, bool]]:
    """`line` as it stands without politeness, and without an "i need to" in front."""
    bare = _imperative(without_politeness(line))
    readings = [(bare, False)]
    wish = WISH.match(bare.text)
    if wish:
        readings.append((without_politeness(bare.after(wish.end())), True))
    return readings


def _imperative(line: Line) -> Line:
    """The line with its verb as a command: of "would you mind adding ..." the politeness is gone, now "adding" is "add"."""
    verb = _GERUNDS.get(line.tokens[0].norm) if line.tokens else None
    if verb is None:
        return line
    first = line.tokens[0]
    return Line(line.source, (Token(verb, first.start, first.end), *line.tokens[1:]))


_GERUNDS = {
    "adding": "add",
    "putting": "put",
    "including": "include",
    "creating": "create",
    "making": "make",
    "setting": "set",
    "reminding": "remind",
    "removing": "remove",
    "deleting": "delete",
    "erasing": "erase",
    "clearing": "clear",
    "wiping": "wipe",
    "emptying": "empty",
    "getting": "get",
    "taking": "take",
    "crossing": "cross",
    "showing": "show",
    "reading": "read",
    "telling": "tell",
    "listing": "list",
    "checking": "check",
    "marking": "mark",
}
