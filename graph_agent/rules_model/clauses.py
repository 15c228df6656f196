"""A message in parts: where one request ends and the next begins, and the items of an enumeration."""

from __future__ import annotations

import re
from itertools import pairwise

from graph_agent.rules_model.intents import Create
from graph_agent.rules_model.naming import description
from graph_agent.rules_model.politeness import without_politeness
from graph_agent.rules_model.text import Line, Token

_COMMAND_START = re.compile(
    r"(?:please |also |then |now |next |just |go ahead and |hurry and |can you |could you |would you |you can "
    r"|after that |finally |to )*(?:add|create|make|set|put|remind|show|list|read|tell|give|display|view|see|delete"
    r"|remove|erase|take|cross|scratch|strike|clear|mark|check|complete|finish|close|tick|rename"
    r"|change|update|edit|replace|do not forget|remember|what|which|is|do i|how many|new|cancel|let me|i finished"
    r"|i completed|i am done|get rid|wipe|empty|drop|let us|note|go over|pull|include|done|in the list|delte|i need"
    r"|on @list|to @list|i want)\b"
)
_BREAK = re.compile(
    r"(?:,|;|\.|!|\?|\n)(?: (?:and|then|also|but|after that|next|finally|afterwards|please|-))*(?: |$)|(?:and|then"
    r"|also|but|plus|so)(?: (?:then|also|after that|please|finally|afterwards))* |(?:& )"
)
_MAX_PIECES = 24
_SEPARATE = re.compile(
    r"(?: ?,)? (?:as |into )?(?:(?:two|three|four|five|six|seven|separate|individual|different|several|multiple"
    r"|own) )+(?:@tasks?|items|entries|ones)(?: (?:to|on) @list)?(?: please)?$|(?: ?,)? (?:separately|individually"
    r"|one by one|each as (?:a |its own )?(?:separate )?@task)$"
)
_SERIES = re.compile(
    r"(?:add|create|make|put|new)(?: me)?(?: (?:the|these|those|a few|some|two|three|four|five|six|seven|eight"
    r"|several|multiple|couple|of|new|separate|all|both|\d))*(?: following)?(?: (?:@tasks|items|things"
    r"|@task))?(?: (?:to|on|in) @list)? ?: ?(?P<x>.+)|(?:(?:add|create|make)(?: me)?(?: (?:the|these|those"
    r"|a few|some|two|three|four|five|six|seven|eight|several|multiple|couple|of|new|separate|following"
    r"|\d))+ (?:@tasks|items|things)(?: (?:to|on|in) @list)?(?: ?[:,-]| for| to| named| called)?) (?P<y>.+)",
    re.DOTALL,
)
_PLURAL = re.compile(r"@tasks|\b(?:items|things|these|those|following|two|three|four|five|six|seven|several|multiple)\b")


def pieces(line: Line) -> list[Line]:
    """`line` cut where a new command may begin; the conjunction stays with what follows."""
    text, cuts = line.text, [0]
    for match in _BREAK.finditer(text):
        if (
            (match.start() == 0 or text[match.start() - 1] == " ")
            and _COMMAND_START.match(text, match.end())
            and len(cuts) < _MAX_PIECES
        ):
            cuts.append(match.start())
    cuts.append(len(text))
    return [line.between(start, end) for start, end in pairwise(cuts) if end > start]


def series(line: Line) -> tuple[Create, ...]:
    """One task for each item, where the sentence says so: "add these tasks: a, b and c", a list of lines."""
    text = without_politeness(line.trimmed())
    match = _SERIES.fullmatch(text.text)
    body: Line | None = None
    if match and match["x"] and (_PLURAL.search(match.group()[: match.start("x")]) or "\n" in match["x"]):
        body = text.group(match, "x")
    elif match and match["y"]:
        body = text.group(match, "y")
    else:
        tail = _SEPARATE.search(text.text)
        start = re.match(r"(?:add|create|make|put) ", text.text)
        if tail and start:
            body = text.between(start.end(), tail.start())
    if body is None:
        return ()
    items = [description(item) for item in _split_items(body)]
    named = tuple(Create(item) for item in items if item)
    return named if len(named) > 1 else ()


def _split_items(body: Line) -> list[Line]:
    tokens = body.tokens
    items: list[Line] = []
    current: list[Token] = []
    lines = any(token.norm == "\n" for token in tokens)
    for index, token in enumerate(tokens):
        breaks = (
            token.norm == "\n"
            if lines
            else token.norm in {",", ";"} or (token.norm in {"and", "&"} and index + 1 < len(tokens))
        )
        if breaks:
            items.append(Line(body.source, tuple(current)))
            current = []
        elif current or not (token.norm in {"-", "#"} or (lines and token.norm.isdigit())):
            current.append(token)
    items.append(Line(body.source, tuple(current)))
    return [item for item in (item.trimmed() for item in items) if item.tokens]
