"""The questions this adapter asks, each beside the pattern by which it knows its own question again in the next turn.

Nothing else is remembered: the wording carries what is needed to act on the answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from graph_agent.rules_model.intents import (
    Change,
    Command,
    Complete,
    Create,
    Delete,
    Exact,
    Intent,
    Named,
    Position,
    Referent,
    Refuse,
    Show,
    Target,
    Unclear,
)
from graph_agent.rules_model.intents import Chat as ChatIntent
from graph_agent.rules_model.matching import Task, find, item_at
from graph_agent.rules_model.naming import description, position, target
from graph_agent.rules_model.phrases import marked
from graph_agent.rules_model.reading import read
from graph_agent.rules_model.text import Line, read_line
from graph_agent.rules_model.vocabulary import QUESTION_WORDS

_A = TypeVar("_A", bound=Complete | Delete | Change)
MAX_OPTIONS = 10
WHAT_TO_ADD = "What should I add?"


def add_or_find(phrase: str) -> str:
    return f"Would you like to add '{phrase}' as a new task, or are you looking for an existing task about {phrase}?"


def offer(phrase: str) -> str:
    return f"Would you like me to add '{phrase}' as a task?"


def which(act: Command, options: Sequence[Task], *, first: bool = False) -> str:
    """The question which task `act` is about, with numbered options."""
    question = f"Which task should I {_verb(act)}{' first' if first else ''}?"
    lines = [f"{number}. {task.shown}" for number, task in enumerate(options[:MAX_OPTIONS], 1)]
    return "\n".join([question, *lines])


def what_instead(task: Task) -> str:
    return f"What should '{task.shown}' say instead?"


def _verb(act: Command) -> str:
    if isinstance(act, Complete):
        return "mark as done"
    if isinstance(act, Change):
        return f"change to '{act.text}'" if act.text else "change"
    return "delete"


_ADD_OR_FIND = re.compile(
    r"^Would you like to add '(?P<x>.+)' as a new task, or are you looking for an existing task about .+\?$", re.MULTILINE
)
_OFFER = re.compile(r"^(?:.*\. )?Would you like me to add '(?P<x>.+)' as a task\?$", re.MULTILINE)
_WHICH = re.compile(
    r"^(?:.*[.:] )?Which task should I (?P<verb>mark as done|delete|change)(?: to '(?P<text>.+)')?(?: first)?\?$", re.MULTILINE
)
_WHAT_INSTEAD = re.compile(r"^What should '(?P<x>.+)' say instead\?$", re.MULTILINE)
_NUMBERED = re.compile(r"^(?P<n>\d{1,4})\. (?:\[[ x]\] )?(?P<x>.+)$", re.MULTILINE)

_YES = re.compile(
    r"(?:(?:yes|yeah|yep|yup|sure|okay|please|correct|right|exactly|absolutely|definitely|of course|go ahead|do it"
    r"|please do|that is right|affirmative|that one|it|that|ya|yea|y|sounds good)(?: |$)(?:, )?)+"
)
_NO = re.compile(
    r"(?:no|nope|nah|neither|none|none of (?:them|these|those)|never ?mind|cancel|nothing|forget it|stop|no thanks"
    r"|no thank you|nvm|leave it|do not|not now|n)(?: (?:,|thanks|thank you|of them|please|that|it|cancel"
    r"|never mind))*"
)
_ADD_IT = re.compile(
    r"(?:(?:yes|yeah|yep|sure|okay|please|oh|no|i want to|i would like to|can you|could you|just|the|a|as|it is"
    r"|that is|make|create|add|put|save|set)(?: ,)? )*"
    r"(?:add|add (?:it|that|this|them|one)|create|create (?:it|one)|new|new one|new task|(?:a |the )?new|@task"
    r"|a @task|as @task|(?:the )?(?:first|former|1st)(?: (?:one|option))?|1|one|(?:add|put|save) (?:it|that"
    r"|them) (?:to|on) @list|(?:as )?a new one|it new|it as (?:a )?@task|it as new|it)(?: please| now| to @list"
    r"| as @task| as new| as a new one)*"
)
_FIND_IT = re.compile(
    r"(?:(?:i am|i was|yes|no|just|please|the|an?|it is|look for|looking for|find|for|show(?: me)?|see|search"
    r"|check)(?: ,)? )*(?:existing|existing one|existing @task|find|find it|look|look for it|looking|looking for it"
    r"|search|search for it|(?:the )?(?:second|latter|2nd|last)(?: (?:one|option))?|2|two|an existing|@task|it"
    r"|i already have it|already there)(?: please)?"
)
_ALL = re.compile(
    r"(?:all|both|all of (?:them|it|these|those)|both of them|everything|every one|each|all (?:two|three|four|five"
    r"|\d+))(?: of them)?(?: please)?"
)


def answered(asked: str, message: str) -> tuple[Intent, ...] | None:
    """What `message` means as the answer to `asked`, the assistant's last text; None if it answers nothing."""
    line = marked(read_line(message)).trimmed()
    line = Line(line.source, tuple(token for token in line.tokens if token.norm != "please"))
    for pattern, meaning in (
        (_ADD_OR_FIND, _answer_add_or_find),
        (_OFFER, _answer_offer),
        (_WHAT_INSTEAD, _answer_what_instead),
        (_WHICH, _answer_which),
    ):
        found = _last(pattern, asked)
        if found:
            return meaning(found, asked, line)
    if asked.rstrip().endswith(WHAT_TO_ADD):
        return _answer_what_to_add(line)
    return None


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    return next(reversed(list(pattern.finditer(text))), None)


def _answer_add_or_find(found: re.Match[str], _asked: str, line: Line) -> tuple[Intent, ...] | None:
    phrase, text = found["x"], line.text
    if _NO.fullmatch(text):
        return (ChatIntent("dropped"),)
    if _ADD_IT.fullmatch(text) or (_YES.fullmatch(text) and "it" not in text.split()):
        return (Create(phrase),)
    if _FIND_IT.fullmatch(text):
        return (Show(about=phrase),)
    return _about(phrase, line)


def _answer_offer(found: re.Match[str], _asked: str, line: Line) -> tuple[Intent, ...] | None:
    text = line.text
    if _NO.fullmatch(text):
        return (ChatIntent("dropped"),)
    if _YES.fullmatch(text) or _ADD_IT.fullmatch(text):
        return (Create(found["x"]),)
    return _about(found["x"], line)


def _about(phrase: str, line: Line) -> tuple[Intent, ...] | None:
    """A command on "it", which is what the question was about."""
    intents = read(line.source)
    if not any(isinstance(_target_of(intent), Referent) for intent in intents):
        return None
    return tuple(
        with_target(intent, Named(phrase))
        if isinstance(intent, Complete | Delete | Change) and isinstance(intent.target, Referent)
        else intent
        for intent in intents
    )


def _answer_what_to_add(line: Line) -> tuple[Intent, ...] | None:
    if _NO.fullmatch(line.text):
        return (ChatIntent("dropped"),)
    intents = read(line.source)
    if any(isinstance(intent, Command | ChatIntent) for intent in intents):
        return None
    first = line.tokens[0].norm.split()[0] if line.tokens else ""
    if (
        first in QUESTION_WORDS
        or line.source.rstrip().endswith("?")
        or intents == (Refuse("language"),)
        or intents == (Refuse("everything"),)
    ):
        return None
    named = description(line)
    return (Create(named),) if named else None


def _answer_what_instead(found: re.Match[str], _asked: str, line: Line) -> tuple[Intent, ...] | None:
    if _NO.fullmatch(line.text):
        return (ChatIntent("dropped"),)
    intents = read(line.source)
    if any(isinstance(intent, Command | ChatIntent) for intent in intents) or line.source.rstrip().endswith("?"):
        return None
    text = re.sub(r"^(?:to|it should (?:say|be)|make it|change it to|say)\b[ :]*", "", line.original, flags=re.IGNORECASE)
    return (Change(Exact(found["x"]), text),) if text else None


def _answer_which(found: re.Match[str], asked: str, line: Line) -> tuple[Intent, ...] | None:
    text = line.text
    act: Complete | Delete | Change
    if found["verb"] == "delete":
        act = Delete(Referent())
    elif found["verb"] == "change":
        act = Change(Referent(), found["text"])
    else:
        act = Complete(Referent())
    options = shown_list(asked[found.end() :])
    if _NO.fullmatch(text):
        return (ChatIntent("dropped"),)
    if len(options) == 1 and _YES.fullmatch(text):
        return (with_target(act, Exact(options[0])),)
    if _ALL.fullmatch(text) and options:
        if isinstance(act, Complete):
            return tuple(Complete(Exact(option)) for option in options)
        return (with_target(act, Referent()),)
    intents = read(line.source)
    own = next((_target_of(intent) for intent in intents if type(intent) is type(act)), None)
    meant: Target | None = own
    if own is None:
        if not isinstance(intents[0], Unclear | Refuse) and position(text) is None and not _names_one(line):
            return None
        if line.source.rstrip().endswith("?") or (line.tokens and line.tokens[0].norm.split()[0] in QUESTION_WORDS):
            return None
        meant = target(line)
    if isinstance(meant, Position):
        option = item_at(meant.number, options)
        return (with_target(act, meant if option is None else Exact(option)),)
    if isinstance(meant, Named):
        matches = find(meant.words, [Task(str(number), option, False) for number, option in enumerate(options)])
        if len(matches.sure) == 1:
            return (with_target(act, Exact(matches.sure[0].description)),)
        if own is None and isinstance(intents[0], Refuse) and not matches.sure:
            return None
        return (with_target(act, meant),)
    return None


def _names_one(line: Line) -> bool:
    return len(line.tokens) <= 6 and line.text.endswith((" one", " @task"))


def _target_of(intent: Intent) -> Target | None:
    return intent.target if isinstance(intent, Complete | Delete | Change) else None


def with_target(intent: _A, meant: Target) -> _A:
    """`intent` on another task."""
    return replace(intent, target=meant)


def shown_list(text: str) -> tuple[str, ...]:
    """The descriptions of the numbered list in a text of the assistant, in its order."""
    numbered = [(int(match["n"]), match["x"].removesuffix(" (done)")) for match in _NUMBERED.finditer(text)]
    return tuple(shown for expected, (number, shown) in enumerate(numbered, 1) if number == expected)


_RECEIPT = re.compile(
    r"^(?:Added|Marked|Changed|Yes, '|'|I (?:couldn't|don't know)|What should '|Would you like).*$", re.MULTILINE
)
_MENTIONED = re.compile(r"'(.+?)'(?=$|[ .,?!:])")


_ABSENT = re.compile(r"^(?:No, I don't see|I can't find a task about) '(?P<x>.+?)' on your list\.", re.MULTILINE)


def absent(text: str) -> str | None:
    """What a text of the assistant said is not on the list."""
    found = _last(_ABSENT, text)
    return found["x"] if found else None


def mentioned(text: str) -> str | None:
    """The one task that a text of the assistant was about: what "it" means."""
    listed = shown_list(text)
    if listed:
        return listed[0] if len(listed) == 1 else None
    names = [name for line in _RECEIPT.findall(text) for name in _MENTIONED.findall(line)]
    return names[-1] if len(names) == 1 or (names and text.startswith("Changed ")) else None
