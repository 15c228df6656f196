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
_TOKEN: Final = re.compile(r"\.\.|\\.|\(\?(?:<?[!=]|P=\w+)|<(?P<group>\w+)(?:>|: )|\{(?P<part>[A-Z_]+)\}|[()\[\]>]")
_SIGNS: Final = {"(": "(?:", "[": "(?:", "]": ")?", "..": ".*?", ">": ")"}

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
    # A group may occur several times, but a regular expression needs different names: "text", "text__1" ...
    first, *others = re.split(r"(?<=\(\?P<)(\w+)>", _regex(notation))
    names = [f"{name}__{number}" if name in others[: 2 * number : 2] else name for number, name in enumerate(others[::2])]
    return re.compile(first + "".join(f"{name}>{rest}" for name, rest in zip(names, others[1::2], strict=True)), re.DOTALL)


def part(name: str) -> re.Pattern[str]:
    """Return one of the parts, as a pattern of its own."""
    return compiled(f"{{{name}}}")


def matches(clause: Clause, *names: str) -> Iterator[tuple[str, Groups]]:
    """Yield the section and the groups of each cue in the tables `names` that fits the clause."""
    key = clause.key.rstrip(" .!?,")
    if names[0] == "talk" or (names[0] in {"change", "report"} and key.count(" ") > 1):
        key = _END.sub("", key)
    for section, notation in (row for name in names for row in tables()[name]):
        if found := compiled(notation).fullmatch(key):
            groups = defaultdict(lambda: EMPTY)
            for name in found.re.groupindex:
                if found.start(name) >= 0:
                    # A group at the end takes the punctuation with it: it may belong to an abbreviation.
                    last = found.end(name) == len(key) and not clause.key.endswith("?")
                    groups[name.partition("__")[0]] = clause.cut(found.start(name), None if last else found.end(name))
            yield section, groups


@cache
def _parts() -> dict[str, str]:
    lines = (line.partition(" = ") for line in _lines() if not line.startswith((" ", ":")))
    return {name: definition for name, _, definition in lines if definition}


@cache
def _lines() -> tuple[str, ...]:
    """Return the lines of all files; each pattern is joined with its further lines, which are indented more."""
    lines: list[str] = []
    for file in sorted(CUES.glob("*.txt")):
        for line in file.read_text(encoding="utf-8").splitlines():
            if not line.strip() or line.startswith("#"):
                continue
            if lines and len(line) - len(line.lstrip()) > (0 if re.match(r"[A-Z_]+ = ", lines[-1]) else 4):
                lines[-1] += ("" if line.strip().startswith(("|", "[", "\\", "(")) else " ") + line.strip()
            else:
                lines.append(line)
    return tuple(lines)


def _regex(notation: str) -> str:
    """Translate the notation. A part becomes a group."""
    return _TOKEN.sub(_translated, notation)


def _translated(token: re.Match[str]) -> str:
    if name := token["part"]:
        return f"(?:{_PARTS[name] if name in _PARTS else _regex(_parts()[name])})"
    if token["group"]:
        return f"(?P<{token['group']}>" + (".+?)" if token[0].endswith(">") else "")
    return _SIGNS.get(token[0], token[0])
