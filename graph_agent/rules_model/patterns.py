"""The reader of the cues: cues in a short notation, translated to regular expressions."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

from graph_agent.rules_model.requests import Request
from graph_agent.rules_model.wording import EMPTY, Clause
from graph_agent.rules_model.words import CARDINALS, ORDINALS

CUES: Final = Path(__file__).with_name("cues")

_PARTS: Final = {
    "WORD": r"[\w'-]+",
    "NAME": r"[a-z]+",
    "CARDINAL": "|".join(CARDINALS),
    "ORDINAL": "|".join(ORDINALS),
    "QUOTE": r"[\"']",
    "FACE": r"(?:[:;]-?[()dp](?!\w)|[^\w\s\x21-\x7e£€–—…✅✔☑\ufe0f])",
}
"""Parts that are regular expressions already."""
_END: Final = re.compile(r"(?:[\s.!?,]|[:;]-?[()dp]$|[^\w\s\x21-\x7e✅✔☑\ufe0f])+$")
_TOKEN: Final = re.compile(r"\.\.|\\.|\(\?(?:<?[!=]|P<\w+>|P=\w+)|<(\w+)>|<(\w+): |\{([A-Z_]+)\}|.")

Row = tuple[str, str]
Groups = defaultdict[str, Clause]
Builder = Callable[[Clause, Groups], Request | None]


@cache
def tables() -> dict[str, tuple[Row, ...]]:
    """Return the tables of cues: pairs of a builder's name and a pattern in the notation, in their order."""
    rows: dict[str, list[Row]] = {}
    table = section = ""
    for line in _lines():
        if line.startswith(":"):
            table = line[1:]
        elif line.startswith(" "):
            rows.setdefault(table, []).append((section, line.strip()))
        else:
            section = line
    return {name: tuple(patterns) for name, patterns in rows.items()}


@cache
def compiled(notation: str) -> re.Pattern[str]:
    """Compile a pattern. Each is compiled when it is first tried: together they take longer than the start of a process."""
    return re.compile(_regex(notation), re.DOTALL)


def part(name: str) -> re.Pattern[str]:
    """Return one of the parts, as a pattern of its own."""
    return compiled(f"{{{name}}}")


def matches(clause: Clause, *names: str) -> Iterator[tuple[str, Groups]]:
    """Yield the section and the groups of each cue in the tables `names` that fits the clause."""
    key = clause.key.rstrip(" .!?,")
    if names[0] == "talk" or (names[0] in {"change", "report"} and key.count(" ") > 1):
        key = _END.sub("", key)
    for section, notation in (row for name in names for row in tables()[name]):
        pattern = compiled(notation)
        if found := pattern.fullmatch(key):
            spans = {name: found.span(name) for name in pattern.groupindex if found.start(name) >= 0}
            groups = {name: clause.cut(start, _end(clause, end, len(key))) for name, (start, end) in spans.items()}
            yield section, defaultdict(lambda: EMPTY, groups)


def _end(clause: Clause, end: int, matched: int) -> int:
    """A group at the end of the match takes the punctuation with it: it may belong to an abbreviation."""
    return len(clause.key) if end == matched and not clause.key.endswith("?") else end


def one_of(groups: Groups, *names: str) -> Clause:
    return next((groups[name] for name in names if groups[name].key), EMPTY)


@cache
def _parts() -> dict[str, str]:
    lines = (line.partition(" = ") for line in _lines() if not line.startswith((" ", ":")))
    return {name: definition for name, _, definition in lines if definition}


def _lines() -> Iterator[str]:
    """Join each pattern with its further lines, which are indented more."""
    joined = ""
    for line in (line for file in sorted(CUES.glob("*.txt")) for line in file.read_text(encoding="utf-8").splitlines()):
        indent = len(line) - len(line.lstrip())
        if not line.strip() or line.startswith("#"):
            continue
        if joined and indent > (0 if " = " in joined and joined[0] != " " else 4):
            joined += line.strip() if line.strip().startswith(("|", "[", "\\", "(")) else f" {line.strip()}"
            continue
        if joined:
            yield joined
        joined = line
    yield joined


def _regex(notation: str) -> str:
    """Translate the notation. A part becomes a group."""
    pieces: list[str] = []
    capturing = False
    for token in _TOKEN.finditer(notation):
        match token[0]:
            case "(":
                pieces.append("(?:")
            case "[":
                pieces.append("(?:")
            case "]":
                pieces.append(")?")
            case "..":
                pieces.append(".*?")
            case ">" if capturing:
                pieces.append(")")
                capturing = False
            case _ if token[1]:
                pieces.append(f"(?P<{token[1]}>.+?)")
            case _ if token[2]:
                pieces.append(f"(?P<{token[2]}>")
                capturing = True
            case _ if token[3]:
                name = token[3]
                pieces.append(f"(?:{_PARTS[name] if name in _PARTS else _regex(_parts()[name])})")
            case plain:
                pieces.append(plain)
    return "".join(pieces)
