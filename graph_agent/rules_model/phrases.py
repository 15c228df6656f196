"""Finds the nouns of the domain in a line and turns each into one token, so that the frames can be short.

@list    the task list: "my to do list", "the list of things to do", "my big project task list"
@tasks   tasks in general: "all my open tasks", "reminders", "chores"
@task    a single task: "a new task", "another reminder", "the chore"
@other   a list kept elsewhere: "my shopping list", "the playlist"
"""

from __future__ import annotations

import re

from graph_agent.rules_model.text import Line
from graph_agent.rules_model.vocabulary import FOREIGN_LISTS

LIST, TASKS, TASK, OTHER = "@list", "@tasks", "@task", "@other"

_ONE_OF = r"(?:(?:all|any|some|each|every|everything|none|rest|remainder|whole) (?:of )?)?"
_OWNER = (
    r"(?:my|our|the|this|that|these|those|your|his|her|today's|tomorrow's|tonight's|todays|tomorrows|monday's|friday's|weekly)"
)
_KIND = (
    r"(?:todo|todos|to do|to dos|task|tasks|chore|chores|reminder|reminders|remind|reminding|errand|errands"
    r"|housework|housekeeping"
    r"|duty|duties|thing to do|things to do|stuff to do|memo)"
)
_MODIFIER = (
    r"(?!(?:on|to|in|off|from|for|of|and|or|is|are|at|with|by|as|onto|into|it|that|out|up|down|do|have|has|list|lists|me|i|you"
    r"|please|about|regarding|add|put|if|so|then|my|our|the|this|your|a|an|so|what|where|when|was|were|has|can|delete"
    r"|remove|just"
    r"|also)\b)[\w'-]+"
)
_MATTER = (
    r"(?:tasks?|todos?|to dos?|things?|stuff|chores?|reminders?|items?|errands?|housework|jobs?|duties"
    r"|responsibilities|shit|crap|activities"
    r"|assignments?|goals|work|to do items|todo items|things to do)"
)
_PURPOSE = (
    r"(?: (?:(?:that )?i (?:really )?(?:need|have|want|wanted|got|must|should|ought|am supposed|asked you|told you"
    r"|plan)(?: to)? |"
    r"(?:that )?(?:need|needs|have|has|still need) (?:to )?|to |for me to |left to |still to |waiting to )"
    r"(?:be |get )?(?:do|complete|accomplish|finish|remember|done|completed|finished|get done|attend to|handle"
    r"|take care of|tackle|remind)"
    r"(?: for me)?(?: for later| later)?\b)?"
)
_LIST = re.compile(
    rf"\b{_ONE_OF}"
    rf"(?:"
    rf"(?:(?:{_OWNER}|a|an|any) (?:{_MODIFIER} ){{0,4}}?)?{_KIND} lists?(?: items?| entries)?(?: of {_MATTER})?"
    rf"|(?:(?:{_OWNER}|a|an|any) (?:{_MODIFIER} ){{0,2}}?)?lists? of (?!shopping\b)(?:(?:{_OWNER}|all|pending"
    rf"|{_MODIFIER}) ){{0,3}}?{_MATTER}{_PURPOSE}"
    rf"|(?:my|our) (?:{_MODIFIER} ){{0,3}}?lists?(?: to do| to dos| todo| todos)?(?! (?:of(?! mine)|price)\b)"
    rf"|(?:{_OWNER})(?: (?:whole|entire|full|current|complete|same|big|project))* lists?(?: to do| to dos| todo"
    r"| todos)?(?: of mine)?(?! (?:of|price)\b)"
    r"|my (?:stuff|things|work) to do"
    rf"|lists? to do"
    rf"|(?:my|our|the) (?:todo|to do)s?(?! (?:list|item|items|task|tasks)\b)"
    rf")\b"
)
_BARE_LIST = re.compile(
    r"(?<=^view )list$|(?<=^check )list$|(?<=^open )list$|(?<=^display )list$|(?<=^show )list$|(?<=^see )list$"
    r"|(?<=^read )list$|(?<=\bon )lists?\b|(?<=\bto )lists?\b|(?<=\boff )lists?\b|(?<=\bfrom )lists?\b"
    r"|(?:(?<=\bto )|(?<=\bon )|(?<=\boff )|(?<=\bfrom ))(?:the |all the |my )?(?:things"
    r"|stuff) (?:that )?i (?:still )?(?:need|have|got"
    r"|want) to (?:do|get done|remember)\b"
)
_STATE = (
    r"(?:current|currently|pending|open|completed|complete|finished|done|incomplete|unfinished|uncompleted"
    r"|outstanding|remaining|upcoming"
    r"|active|todo|to do|daily|other|new|existing|overdue|household|house|home|due|saved|scheduled|undone"
    r"|urgent|important|big|old)"
)
_TASKS = re.compile(
    rf"\b{_ONE_OF}(?:{_OWNER} )?(?:{_STATE} ){{0,2}}(?:tasks|todos|to dos|chores|reminders|errands|task items"
    r"|to do items|todo items)\b"
)
_TASK = re.compile(
    r"\b(?:(?:a|an|the|my|our|this|that|another|one|one more|some|any|each|every) )?"
    r"(?:(?:new|quick|other|recurring|daily|weekly|monthly|small|simple|extra|additional|single|completed|finished"
    r"|pending|important|urgent"
    r"|friendly|little|big|personal|open|existing|different|same) ){0,2}"
    r"(?:task|reminder|to do(?= :)|(?<=\ba )to do|(?<=\bnew )to do|(?<=\bnext )to do|todo item|to do item|todo|to do task"
    r"|todo task|chore|errand)(?: item| entry"
    r"| note| alert| task)?\b"
)
_OTHER = re.compile(
    rf"\b(?:(?:{_OWNER}|a|an) (?:{_MODIFIER} ){{0,2}}?)?(?:{'|'.join(sorted(FOREIGN_LISTS))}) lists?\b"
    rf"|\b(?:(?:{_OWNER}|a|an) (?:{_MODIFIER} ){{0,3}}?)?playlists?\b"
    rf"|\b(?:(?:{_OWNER}|a|an) )?lists? of (?:(?:my|the|all|some|any) )*(?:(?:things|stuff|items) to (?:buy|get"
    rf"|purchase|watch|read"
    r"|see|cook|eat)|groceries|songs|movies|books|contacts|friends|ingredients|recipes|guests|gifts|restaurants|hotels|flights"
    r"|transactions|purchases|charges)\b"
)
_PLACE = re.compile(
    r"(@list) (?:in|at|around|near|within) (?!the (?:morning|afternoon|evening|app)|order|there|total|full|detail|case|it)\w+"
)
_SOMEBODY_ELSES = re.compile(
    r"(?:(?:give|find|get|show|make|tell|read|need|want|i|do you have|can i have|what is)\b(?! (?:.* )?my\b).*?)?\b(?:an? "
    r"|some )?lists? of"
    r" (?:[\w-]+ ){0,2}?(?:things|stuff) to do\b.*?\b(?:in|at|near|around|when|while|with|for) (?!(?:the |my )?(?:mornings?"
    r"|afternoon"
    r"|evening"
    r"|night|day|weekend|week|month|house|home|today|tomorrow|tonight|me|us|work|order|full|detail|total|\w+day)\b|\d).*"
)
"""What there is to do in a place, which is no list of the user's."""
_KEPT_ELSEWHERE = re.compile(
    r"(?:tell me |show me |read me )?(?:what|which)(?: is| are)?(?: the)?(?: top| first| next| last| best)? (?:music"
    r"|groceries|songs?|movies?|wines?|books|contacts|guests|gifts|recipes|meals"
    r"|drinks|ingredients?|stations?|channels?)\b"
)
"""A question whose noun says that the list it asks about is another one: "what songs are on my list"."""
_SERVICE = re.compile(
    r"(?:e-?mail|text|fax|share|send|forward|message|post)\b(?! (?:me|us|myself)\b) (?:@list|@tasks|that|it|everything|all"
    r"|what|a)\b"
    r"(?!.*@task\b).*|(?:translate|spell|define|pronounce|order|buy|purchase|tweet|sing|google|say)\b(?! (?:out|what|the"
    r"|back|@|me|all|every)).*"
    r"|(?:make|create|start|build|begin|rename|name|sort|order|reorder|organi[sz]e|prioriti[sz]e|alphabeti[sz]e|archive"
    r"|back up)(?: me"
    r"| up| out)*(?: an?| another| new| separate)* @list\b(?! (?:include|have|contain|say|list|show|blank|empty|clear|over)).*"
    r"|(?:tweet|order|translate)\b.*|play(?! (?:back |me )?(?:@list|@tasks)).*"
    r"|(?:send|email|text|forward|mail) (?!me\b|us\b|@)\w+ (?:@list|@tasks)\b.*"
    r"|.*\b(?:meaning|definition|synonyms?|antonyms?|words?|plural|spelling) (?:of |for )?(?:@list|@tasks?)\b.*"
    r"|how (?:do|would|can|does) (?:you|i|we|one) (?:say|spell|write|pronounce)\b.*"
    r"|.*\b(?:jokes?|story|stories|songs?|poem|trivia|facts?|articles?) (?:about|on|regarding|with|of) (?:@list"
    r"|@tasks?)\b.*"
    r"|.*(?:@list|@tasks?) (?:apps?|applications?|templates?|software|tools?|in (?:french|spanish|german|italian|japanese"
    r"|chinese"
    r"|korean|russian|portuguese|hindi|arabic|dutch|polish|turkish|swedish|greek|latin|mandarin))\b.*",
    re.DOTALL,
)
"""What others do with the list's name: mail it, order what is on it, say it in French."""
ADDS_IT = re.compile(
    r"(?!(?:what|which|is|are|was|did|do|does|has|have)\b).+? (?:add|put|stick|write|include|place|throw|jot|note|save|log)"
    r" (?:it|that|this|them|those)(?: down)? (?:to|on|onto|in|into) (?:@list|@tasks)\b.*",
    re.DOTALL,
)
"""A plan to be put on the list: "i have to call mom, put that on my list"."""


def marked(line: Line) -> Line:
    """`line` with the domain's nouns as single tokens."""
    line = line.merged(_OTHER, OTHER)
    if not (_SOMEBODY_ELSES.fullmatch(line.text) or _KEPT_ELSEWHERE.match(line.text)):
        line = line.merged(_LIST, LIST).merged(_BARE_LIST, LIST)
    line = line.merged(_TASKS, TASKS)
    return line.merged(_TASK, TASK)


def asks_for_a_service(line: Line) -> bool:
    """Whether `line` only names the list, or a task, in asking for something that no task list does."""
    return bool(_SERVICE.fullmatch(line.text))
