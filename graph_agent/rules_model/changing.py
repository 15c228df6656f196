"""Sentences that say a task is done, or should say something else."""

from __future__ import annotations

import re

from graph_agent.rules_model.intents import Change, Complete, Each, Intent, Named, Position, Referent, Refuse, Unnamed
from graph_agent.rules_model.naming import belongs_elsewhere, description, position, target
from graph_agent.rules_model.phrases import asks_for_a_service
from graph_agent.rules_model.text import QUOTE, Line
from graph_agent.rules_model.vocabulary import QUESTION_WORDS, words

MAX_LENGTH = 400
"""A longer sentence says of no task that it is done."""
_DONE = (
    r"(?:done|complete|completed|finished|accomplished|as (?:being )?(?:done|complete|completed|finished"
    r"|accomplished)|to (?:done|completed|complete|finished))"
)
_LISTED = r"(?: (?:off|on|from|in|off of)(?: of)? @list)?"
_ALL = re.compile(
    r"(?:all|everything|every thing|all of (?:it|them|those)|@tasks|all @tasks|the whole list|@list|each one"
    r"|every one)(?: (?:on|in|from|of) @list)?"
)

_COMPLETE = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        r"(?:mark|check|tick|set|flag|update|put|log|change|consider|cross|note"
        rf"|make) (?:off )?(?P<x>.+?)(?: (?:off|down))?{_LISTED} {_DONE}{_LISTED}",
        rf"(?:check|tick|mark|checkmark) (?:off )(?P<x>.+?){_LISTED}",
        rf"(?:check|tick|checkmark) (?P<x>.+?) off(?: of)?(?: @list|{_LISTED})",
        rf"(?:mark|check|tick) (?:as )?(?:done|complete|completed|finished|off) ?:? (?P<x>.+?){_LISTED}",
        r"(?:close|close out|resolve|complete|finish|finish up|wrap up|mark|tick"
        r"|be done with) (?:with )?(?P<x>(?:.*@task\b.*|@quote.*|(?:the|my|that|this) .+ (?:one|item)))",
        r"(?:i |we )?(?:am|are|have|has)? ?(?:(?:already|just|now|finally|all) )*(?:done with|finished with"
        r"|through with) (?P<x>.+?)",
        r"(?:i|we) (?:have |had )?(?:(?:already|just|now|finally) )*(?:finished|completed|accomplished|took care of"
        r"|taken care of|got done with|wrapped up|knocked out|did(?! not\b)"
        rf"|done)(?: with)?(?: doing)? (?P<x>.+?){_LISTED}(?: (?:already|today|yesterday|now|just now|this morning"
        rf"|last night|earlier))*(?: ?[,.;]? (?:so |and |please |you can |can you ){{0,3}}(?:cross|check|tick|mark"
        r"|scratch|take|strike|remove|delete)\b.*)?",
        r"(?:i |we )(?:have |had )?(?:(?:already|just|now|finally) )*(?P<x>[a-z]+(?:ed|ght|id|ent|ade|ook|ut|ot|aid"
        r"|ote|an|ove|old|et)\b.+?)(?: (?:already|today|now|yesterday))* ?[,.;]? (?:so |and |please |you can "
        r"|can you |just |now ){0,3}(?:cross|check|tick|mark|scratch|strike)(?: that| it| this| them)+(?: one"
        r"| task)?(?: (?:off|done|complete|completed|finished|as done|as complete|as completed|as finished))+.*",
        r"(?!(?:what|which|is|are|how|when|who|why|where|you|i)\b)(?P<x>.+?) (?:is|are|has been|have been|was|were"
        r"|got) (?:(?:now|already|all|finally) )*(?:done|completed|complete|finished|taken care of|accomplished"
        r"|done now|checked off)(?: now| already)?(?: ?[,.;]? (?:so |and |please |you can |can you "
        r"|now ){0,3}(?:cross|check|tick"
        r"|mark) (?:it|that|this|them)(?: one)? (?:off|done|as done|complete|as complete|completed|as completed))?",
        r"(?P<x>.+?) ?[-:,]? (?:done|completed|finished)(?: already| now)?",
        r"(?:done|completed|finished) ?[:,-] ?(?P<x>.+)",
    )
)
_COMPLETE_PLACE = re.compile(
    r"(?:complete|finish|close|resolve|do|mark|check|tick|completed|finished|done(?: with)?)(?: off)? (?P<x>.+)"
)
_COMPLETE_BARE = re.compile(r"(?:complete|completed|finished|done with) (?P<x>.+)")
_CROSS_IT = re.compile(
    r"(?P<x>.+?) ?[,.;] ?(?:so |and |please |you can |can you ){0,3}(?:cross|check|tick|mark) (?:it|that"
    r"|this)(?: one)? (?:off|done|as done|complete|as complete|completed|as completed)\b.*"
)

_TEXT = (
    r"(?:to (?:say|read|be|show|become|instead be)|so (?:that )?it (?:says|reads)|to|into|as|with|by|for|->"
    r"|, it should (?:say|read))"
)
_CHANGE_VERB = (
    r"(?:change|rename|update|edit|modify|replace|reword|rephrase|revise|alter|amend|swap|switch|correct|fix|adjust"
    r"|rewrite|move|reschedule|retitle)"
)
_CHANGE_WITH_TEXT = re.compile(
    rf"(?P<verb>{_CHANGE_VERB})(?: out)? (?P<x>.+?)(?: on @list| in @list| from @list| description| text| name"
    rf"| title| wording)? {_TEXT} (?P<y>.+)",
    re.DOTALL,
)
_CHANGE = re.compile(
    rf"(?P<verb>{_CHANGE_VERB})(?: out)? (?P<x>.+?)(?: on @list| in @list| from @list| description| text| name"
    r"| title| wording)?",
    re.DOTALL,
)
_SHOULD_SAY = re.compile(
    r"(?P<x>(?!is |are |do |did |what |which |was ).+?) should (?:say|read|be|actually be|actually say|really be|now say"
    r"|be changed to"
    r"|instead say) (?P<y>.+?)(?: instead)?"
)
_NO_TASK_ALONE = re.compile(
    r"(?:my|the|your|this|that) (?:appointment|time|date|day|color|title|subject|order|destination|background|address"
    r"|number|plan|seat|mind"
    r"|ringtone|theme|topic)"
)
_SURE_VERBS = words("rename reword rephrase retitle")
_NEVER_BARE = words("switch move adjust fix swap reschedule correct")


def completion(line: Line, *, wish: bool) -> Intent | None:
    """The task that `line` says is done."""
    text = line.text
    if len(text) > MAX_LENGTH or asks_for_a_service(line):
        return None
    for pattern in _COMPLETE:
        match = pattern.fullmatch(text)
        if not match:
            continue
        asked = line.group(match, "x").trimmed()
        if _ALL.fullmatch(asked.text):
            return Refuse("change_everything")
        if not _could_be_task(asked):
            return None
        return Complete(target(asked))
    match = _CROSS_IT.fullmatch(text)
    if match and not wish:
        return Complete(target(line.group(match, "x")))
    match = _COMPLETE_PLACE.fullmatch(text)
    if match:
        meant = target(line.group(match, "x"))
        if isinstance(meant, Position | Each | Referent):
            return Complete(meant)
    match = _COMPLETE_BARE.fullmatch(text)
    if match and not wish:
        asked = line.group(match, "x").trimmed()
        if _ALL.fullmatch(asked.text):
            return Refuse("change_everything")
        if len(asked.tokens) <= 8 and _could_be_task(asked):
            return Complete(target(asked))
    return None


_NO_TASK_BEGINS = QUESTION_WORDS | words(
    "remind add create please you i we me us show tell list view see display read give let if well"
)


_DAILY_LIFE = re.compile(
    r"(?:with )?(?:my |the )?(?:work|school|class|college|university|breakfast|lunch|dinner|supper|eating|talking|speaking"
    r"|working|shift)"
    r"(?: (?:early|late|for|today|now|already|at|in|on|yesterday|tonight|and|so|here|with|to|about)\b.*|$)"
)
"""What people finish every day without having it on a list: "i finished work early"."""


def _could_be_task(asked: Line) -> bool:
    words = {token.norm for token in asked.tokens}
    if asked.tokens and asked.tokens[0].norm.split()[0] in _NO_TASK_BEGINS:
        return False
    if _DAILY_LIFE.match(asked.text):
        return False
    if any(word.startswith("@task") or word in {"@list", QUOTE} for word in words):
        return True
    return (
        bool(words)
        and not belongs_elsewhere(asked)
        and asked.tokens[0].norm not in {"you", "what", "how", "who", "i", "if", "when", "well", "why"}
    )


def alteration(line: Line, *, wish: bool) -> Intent | None:
    """The task that `line` wants to say something else."""
    match = _CHANGE_WITH_TEXT.fullmatch(line.text)
    if match is None and "@task" in line.text:
        match = _SHOULD_SAY.fullmatch(line.text)
    if match and not match["x"].startswith("@list"):
        old, new = line.group(match, "x").trimmed(), line.group(match, "y").trimmed()
        verb = match.groupdict().get("verb") or "rename"
        if _ALL.fullmatch(old.text):
            return Refuse("change_everything")
        if not _means_task(old, new, verb, wish=wish):
            return None
        return Change(target(old), description(new) or new.original or None)
    match = _CHANGE.fullmatch(line.text)
    if not match:
        return None
    old = line.group(match, "x").trimmed()
    if old.text.startswith("@list"):
        return None
    if _ALL.fullmatch(old.text):
        return Refuse("change_everything") if "@" in old.text else None
    if not _means_task(old, None, match["verb"], wish=wish) or (
        "@" not in old.text and position(old.text) is None and match["verb"] not in _SURE_VERBS
    ):
        return None
    meant = target(old)
    return Change(meant, None) if isinstance(meant, Named | Position | Unnamed) else None


def _means_task(old: Line, new: Line | None, verb: str, *, wish: bool) -> bool:
    words = {token.norm for token in old.tokens}
    if old.text.split(" ")[0] in {"me", "us", "you"} or old.text in {"my", "the", "your", "this", "that"}:
        return False
    if verb in _NEVER_BARE and old.text.isdigit():
        return False
    if any(word.startswith("@task") or word == QUOTE for word in words) or position(old.text) is not None:
        return True
    if "@other" in words or old.tokens[0].norm[0].isdigit():
        return False
    if wish or verb in _NEVER_BARE or _NO_TASK_ALONE.fullmatch(old.text):
        return False
    strictly = verb not in _SURE_VERBS
    if new is not None and belongs_elsewhere(new, strictly=strictly):
        return False
    return not belongs_elsewhere(old, strictly=strictly) and len(old.tokens) <= 8
