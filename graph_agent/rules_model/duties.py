"""Questions about what there is to do or to remember that need not name a task or the list.

People ask them in any order of words: "what must i do today", "i had some things to do, what were they", "do i have much
left to get done". So most are known by their words and not by their form: all of them are everyday words, one asks, and
one tells of a duty. A single word that is not in the vocabulary makes it another question: "what do i need to do to get
a visa".
"""

from __future__ import annotations

import re

from graph_agent.rules_model.text import Line
from graph_agent.rules_model.vocabulary import READ_VERBS, TIME_WORDS, words

_EVERYDAY = TIME_WORDS | words(
    """
    what which how many much lot when is are was were am be been being do did does doing done have had has having
    i me my mine myself we us our you it they them that those these this there the a an and or so but not no
    thing things stuff item items job jobs work anything something everything any some all else more other others
    need needed needs got get getting gotten must should supposed meant ought left leave remaining remain still yet
    already just pending outstanding due open unfinished next planned planning plan plans trying try going want
    wanted wanting asked ask asking told tell telling said say saying show give let see hear know list read go check
    remember remembering remind reminded reminding reminds forget forgot forgotten forgetting recall wonder wondering
    curious if whether to of with accomplish accomplished complete completed finish finished tackle handle take care
    attend through up off please again exactly right okay hey would could can will like ahead back over out home
    earlier previously really also even ever help figure find pull bring afterwards think thought believe note @task @tasks
    """
)
_ASKS = re.compile(
    r"\b(?:what|which|how (?:many|much)|(?:is|are|was|were) there|(?:do|did|am|was|were|have|had|must) (?:i|we)|(?:do|did|are"
    r"|were|have) you|(?:tell|show|give) (?:me|us)|know (?:the|all|what|which|everything|any)|find out|(?:pull|bring) up"
    r"|remind (?:me"
    r"|us) (?:of|the|what|which"
    r"|about what)|let (?:me|us) (?:see|hear|know)|list|read|any ?thing|forg[eo]t\w*)\b"
)
_DUTY = re.compile(
    r"\bto (?:help me )?(?:be )?(?:do|doing|done|get done|get to|get through|accomplish|accomplished|complete|completed"
    r"|finish|finished"
    r"|remember|reminded|tackle|handle|attend to|take care of)\b(?! (?:it|that|so)\b| this$)|\bbe reminded\b"
    r"|\bneeds? (?:doing|to get done)\b|\bmust (?:i|we) do\b"
    r"|\b(?:i|we) (?:must do|should remember)\b|\byou\b.*\bremind(?:ing|ed)? (?:me|us)\b|\b(?:i|we) (?:was|were"
    r"|am) remembering\b"
    r"|\bforgetting\b|\bfor me today\b|\b(?:i|we) have for (?:today|tomorrow)$"
)
_NO_DUTY = re.compile(
    r"\b(?:can|could|should|would|like) (?:i|we|you|to) (?:do|like|remember)\b|\b(?:want\w*|try|trying|like) to (?:do"
    r"|get)\b"
    r"|\byou (?:have|had|need|like|want|supposed|going)(?: got| left)? to (?:do|get|finish)\b|\b(?:so|too) much to\b"
    r"|\b(?:can|could) you\b|\bable to\b|\b(?:am|are) (?:i|we) going to (?:do|get)\b"
)


_LEAD = rf"(?:(?:{READ_VERBS})\b(?: (?:me|us|out|up|over|about|on|of|know|see|hear))* )?"
_WHAT = r"(?:what|which)(?: all| else| other| exactly)*(?: @tasks?| things?| stuff| items?| jobs?| work| ones)?"
_WHEN = (
    r"(?: ,| (?:my list|according to @list|(?:off|per|on|from) @list|still|else|left|remaining|due|pending|again|exactly|right"
    r"|yet|work|home|rest|me|for me|to (?:do|be done|get done|complete|finish)|" + "|".join(sorted(TIME_WORDS)) + r")\b)*"
)
_STATE = re.compile(
    rf"{_LEAD}{_WHAT} (?:(?:is|are|was|were)(?: still| there| all| up)* (?:left|remaining|pending|due|outstanding|overdue|next"
    rf"|to do)|(?:do|did|have)? ?(?:i|we)(?: (?:still|have|got|left|yet|due|remaining))+){_WHEN}"
)
"""What is open, in the fewest of words: "what's left", "what else do i have tomorrow"."""
_REPORT = re.compile(
    rf"{_LEAD}{_WHAT}(?: (?:i|we|have|has|did|do|is|are|been|already|just|all|not|yet|got|gotten|get))+"
    rf" (?:done|completed?|finish(?:ed)?|accomplish(?:ed)?){_WHEN}"
)
_TOLD_BEFORE = re.compile(
    r"(?:did|have|was|were) (?:i|we|you)\b.*\b(?:ask|asked|tell|told|say|said|want|wanted|need|needed|supposed|meant)\b"
    r".*\b(?:remind|reminded|remember)\b.*|(?:are|were) you (?:going|supposed|set|scheduled|about) to remind (?:me|us)\b.*"
    r"|(?:is|was|are) .+ (?:something|one of the things|a thing|things) (?:that )?i (?:have|had|need|needed|am supposed"
    r"|was supposed) to (?:do"
    r"|remember|get done)\b.*",
    re.DOTALL,
)
"""Whether a reminder was asked for, whatever it is about."""


def asks_for_duties(line: Line) -> bool:
    """Whether `line` asks what the user has to do, has done or wanted to remember."""
    text = line.text
    if _STATE.fullmatch(text) or _REPORT.fullmatch(text) or _TOLD_BEFORE.fullmatch(text):
        return True
    said = [word for token in line.tokens for word in token.norm.split()]
    return (
        any(word in {"i", "we", "left", "there", "needs", "need", "remind", "reminding"} for word in said)
        and all(word in _EVERYDAY or not word[0].isalnum() for word in said)
        and bool(_ASKS.search(text) and _DUTY.search(text))
        and not _NO_DUTY.search(text)
    )
