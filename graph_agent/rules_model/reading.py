"""From a message to what is meant by it: one intent for small talk, several for "add milk and show my list"."""

from __future__ import annotations

import re
from collections.abc import Sequence

from graph_agent.rules_model.changing import alteration, completion
from graph_agent.rules_model.clauses import pieces, series
from graph_agent.rules_model.creating import creation
from graph_agent.rules_model.intents import (
    Change,
    Command,
    Complete,
    Create,
    Dangling,
    Delete,
    Intent,
    Offer,
    Referent,
    Refuse,
    Show,
    Unclear,
    Unnamed,
)
from graph_agent.rules_model.naming import description, position
from graph_agent.rules_model.phrases import asks_for_a_service, marked
from graph_agent.rules_model.politeness import WISH, readings, without_politeness
from graph_agent.rules_model.removing import removal
from graph_agent.rules_model.showing import showing
from graph_agent.rules_model.smalltalk import small_talk
from graph_agent.rules_model.text import QUOTE, Line, read_line
from graph_agent.rules_model.vocabulary import FOREIGN_TOPICS, FOREIGN_VERBS, PRONOUNS, QUESTION_WORDS

_STRONG = re.compile(
    r".*(?:@list|@tasks?\b).*|(?:please |also |then )*(?:add|show|remind me|what do i|do not forget|list)\b.*"
    r"|.*\b(?:first|second|third|last|fourth|fifth|newest|oldest) (?:one|item|@task)\b.*|.*(?:number|#) ?\d.*"
    r"|.*@quote.*|(?:complete|finish|delete|remove|check|tick|mark|close) the .+ one|(?:mark|check|tick"
    r"|cross)\b.*\b(?:done|complete|completed|finished|off)\b.*|rename .* to .*|.*\b(?:it|that"
    r"|this)(?: one)?(?: off| as done| done| as complete| as completed)?",
    re.DOTALL,
)
_COLON = re.compile(
    r"(?:please )?(?:(?:add|create|make|new|set|put)(?: me| up)* )?(?:a |an )?(?:@task|todo|note to self|note"
    r"|memo)(?: (?:called|named|to|on|@list|for me))* ?: .*",
    re.DOTALL,
)


def read(message: str) -> tuple[Intent, ...]:
    """What `message` means, in its order; never empty. Only commands come in company."""
    plain = read_line(message)
    if not any(token.norm[0].isalnum() or token.norm == QUOTE for token in plain.tokens):
        return (Refuse("unreadable"),)
    talk = small_talk(plain.trimmed().text)
    if talk:
        return (talk,)
    if _foreign_writing(message):
        return (Refuse("language"),)
    line = _without_please(marked(plain))
    several = series(line)
    if several:
        return several
    commands = _commands(line)
    if commands:
        return commands
    return (_talk(line),)


def _without_please(line: Line) -> Line:
    return Line(line.source, tuple(token for token in line.tokens if token.norm != "please"))


def _foreign_writing(message: str) -> bool:
    """Whether most letters are of an alphabet that English does not use."""
    letters = [char for char in message if char.isalpha()]
    return sum(char > "\u024f" for char in letters) * 2 > len(letters)


def _commands(line: Line) -> tuple[Command, ...]:
    whole = line.trimmed()
    if _COLON.fullmatch(without_politeness(whole).text):
        named = next(filter(None, (creation(each, wish=wish) for each, wish in readings(whole))), None)
        return (named,) if isinstance(named, Command) else ()
    parts = pieces(whole)
    found: list[Command] = []
    at = 0
    while at < len(parts):
        # the longest stretch from here whose continuation does not stand as a command of its own
        end = at + 1
        shows = isinstance(_command(parts[at].trimmed()), Show)
        while end < len(parts) and not _stands_alone(parts[end], behind_show=shows):
            end += 1
        stretch = Line(line.source, tuple(token for piece in parts[at:end] for token in piece.tokens))
        one = _command(stretch.trimmed())
        if one is None and len(parts) > 1 and end - at > 1:
            for piece in parts[at:end]:
                one = _command(piece.trimmed())
                if isinstance(one, Command):
                    break
        if isinstance(one, Command):
            found.append(one)
        at = end
    if len(found) < 2:
        one = _command(whole)
        if isinstance(one, Command):
            return (one,)
        if found and not _names_domain(whole):
            return ()
    return _settled(found, told=bool(_TOLD.match(without_politeness(whole).text)))


def _names_domain(line: Line) -> bool:
    """Whether a task, a list or the user's memory is named: what saves a command behind an unknown sentence."""
    return "@list" in line.text or "@task" in line.text or "remind me" in line.text or "forget" in line.text


def _stands_alone(piece: Line, *, behind_show: bool) -> bool:
    """`behind_show`: an act on a task cannot be part of a description there, as it could behind "add ..."."""
    bare = without_politeness(piece)
    if behind_show and isinstance(_command(bare), Complete | Delete | Change):
        return True
    return bool(_STRONG.fullmatch(bare.text)) and isinstance(_command(bare), Command)


_TOLD = re.compile(r"(?!(?:mark|check|complete|finish|tick|cross|close|set|list|show)\b)")
"""How a report begins, in which a task is not yet to be marked: what follows says what to do with it."""


def _settled(found: Sequence[Command], *, told: bool) -> tuple[Command, ...]:
    """Without repetitions: "tell me my list, what is on my list", "i did the dishes, remove it from my list"."""
    kept: list[Command] = []
    for one in found:
        if isinstance(one, Delete) and isinstance(one.target, Referent) and kept and isinstance(kept[-1], Complete) and told:
            kept[-1] = Delete(kept[-1].target)
        elif isinstance(one, Complete) and isinstance(one.target, Referent) and kept and isinstance(kept[-1], Complete):
            continue
        elif one not in kept and not (isinstance(one, Create) and one.description is None and kept):
            kept.append(one)
    return tuple(kept)


def _command(line: Line) -> Intent | None:
    """The one command that `line` is, if it is one."""
    possible = readings(line.trimmed())
    for reader in _READERS:
        for candidate, wish in possible:
            intent = reader(candidate, wish=wish)
            if intent is not None:
                return intent
    return None


_READERS = (removal, completion, alteration, showing, creation)
"""In this order: "remove the reminder to add milk" is about removing."""


def _talk(line: Line) -> Intent:
    """What a message without any command is."""
    line = line.trimmed()
    intent = _command(line)
    if intent is not None:
        return intent
    bare = without_politeness(line).trimmed()
    talk = small_talk(bare.text)
    if talk:
        return talk
    text = bare.text
    words = [token.norm for token in bare.tokens]
    if not words or text in PRONOUNS:
        return Dangling()
    if position(text) is not None:
        return Dangling(known=True)
    if asks_for_a_service(bare) or _REMARK.fullmatch(text):
        return Refuse("out_of_scope")
    hint = _hint(text)
    if hint:
        return hint
    wish = WISH.match(text)
    if wish:
        plan = bare.after(wish.end())
        if (
            plan.tokens
            and _plain(plan)
            and plan.tokens[0].norm
            not in {"know", "be", "see", "hear", "find", "say", "ask", "talk", "speak", "understand", "learn"}
        ):
            return Offer(plan.original)
        return Refuse("out_of_scope")
    if len(words) <= 3 and words[-1] in {"it", "that", "this", "them"}:
        return Dangling()
    if len(words) <= 5 and _plain(bare):
        return Unclear(description(bare) or bare.original)
    return Refuse("out_of_scope")


_REMOVES = re.compile(
    r"\b(?:remov\w+|delet\w+|clear\w*|eras\w+|empty|emptied|blank|wip(?:e|ed|ing)|cancel\w*|cross\w*|scratch\w*"
    r"|(?<!go )(?<!goes )(?<!went )(?<!gone )off"
    r"|out of|(?:get )?rid|no longer|eliminat\w+|undo|trash|bin|gone|disappear|nothing|zero)\b"
)
_ADDS = re.compile(
    r"\b(?:add\w*|put\w*|includ\w+|plac(?:e|ed|ing)|remind|remember|forget|write|written|append\w*|insert\w*|new|missing"
    r"|addition|something for)\b"
)
_REMARK = re.compile(
    r"(?:@list|@tasks?) (?:is|are|was|were|looks?|seems?|feels?|keeps?|makes?|gets?|got|did|do|does|never"
    r"|always)\b(?! (?:what|it)\b).*"
    r"|(?:i|we|you) (?:really |just |also |do not |never )?(?:love|hate|like|dislike|enjoy|lost|made|wrote|built|shared?"
    r"|use|used|ignored?"
    r"|printed|missed|got|heard|see|saw) (?:@list|@tasks?)\b(?!.*\b(?:what|which|off|from|remov\w+|delet\w+)\b).*",
    re.DOTALL,
)
"""What is said of the list, or of a reminder, without asking for anything."""
_SETS = re.compile(r"\b(?:set|make|create|add|need|want|assign|appreciate|schedule|leave|get)\b(?: \w+){0,3} @task\b")


def _hint(text: str) -> Intent | None:
    """What a sentence of unknown form that names the list or a task is most likely about; it is asked, nothing is done."""
    if "@list" in text:
        if _REMOVES.search(text):
            return Delete(Unnamed())
        return Create(None) if _ADDS.search(text) else Show()
    if _SETS.search(text):
        return Create(None)
    return Delete(Unnamed()) if "@task" in text and _REMOVES.search(text) else None


def _plain(line: Line) -> bool:
    """Whether `line` could be the name of a task: no question, no service, no other errand."""
    words = [word for token in line.tokens for word in token.norm.split()]
    if words and words[0] in {"call", "pay"}:
        words = ["do", *words[1:]]
    return bool(words) and not (
        (words[0] in QUESTION_WORDS and words[0] != "do")
        or words[0] in FOREIGN_VERBS
        or FOREIGN_TOPICS.intersection(words)
        or {"you", "i", "am"}.intersection(words)
        or len(words) > 12
    )
