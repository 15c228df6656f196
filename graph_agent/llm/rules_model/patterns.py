"""The reader of the cues: patterns in a short notation (`cues/common.txt`), translated to regular expressions."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

from graph_agent.llm.rules_model.requests import Request
from graph_agent.llm.rules_model.wording import EMPTY, Clause
from graph_agent.llm.rules_model.words import CARDINALS, ORDINALS

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

Groups = defaultdict[str, Clause]
Builder = Callable[[Clause, Groups], Request | None]


@cache
def cues() -> tuple[dict[str, str], dict[str, list[tuple[str, str]]]]:
    """Return the parts by their names, and the tables: for each pattern the name of its builder and the notation."""
    parts: dict[str, str] = {}
    tables: dict[str, list[tuple[str, str]]] = defaultdict(list)
    table = builder = ""
    for file in sorted(CUES.glob("*.txt")):
        # A line with eight spaces continues the one before it.
        text = re.sub(r"\n {8}(\|?)", lambda more: more[1] or " ", file.read_text(encoding="utf-8"))
        for line in filter(None, text.splitlines()):
            name, defines, definition = line.partition(" = ")
            match line[0]:
                case "#":
                    pass
                case ":":
                    table = line[1:]
                case " ":
                    tables[table].append((builder, line.strip()))
                case _ if defines:
                    parts[name] = definition
                case _:
                    builder = line
    return parts, tables


@cache
def compiled(notation: str) -> re.Pattern[str]:
    """Compile a pattern. Each is compiled when it is first tried: together they take longer than the start of a process."""
    # A group may occur several times, but a regular expression needs different names: "text", "text__1" ...
    names: list[str] = []

    def unique(group: re.Match[str]) -> str:
        names.append(group[1])
        return f"(?P<{group[1]}__{len(names)}>" if group[1] in names[:-1] else f"(?P<{group[1]}>"

    return re.compile(re.sub(r"\(\?P<(\w+)>", unique, _TOKEN.sub(_translated, notation)), re.DOTALL)


def part(name: str) -> re.Pattern[str]:
    """Return one of the parts, as a pattern of its own."""
    return compiled(f"{{{name}}}")


def matches(clause: Clause, *names: str) -> Iterator[tuple[str, Groups]]:
    """Yield the builder and the groups of each cue in the tables `names` that fits the clause."""
    key = clause.key.rstrip(" .!?,")
    if names[0] == "talk" or (names[0] in {"change", "report"} and key.count(" ") > 1):
        key = _END.sub("", key)
    for builder, notation in (row for name in names for row in cues()[1][name]):
        if found := compiled(notation).fullmatch(key):
            groups = defaultdict(lambda: EMPTY)
            for name in found.re.groupindex:
                if found.start(name) >= 0:
                    # A group at the end takes the punctuation with it: it may belong to an abbreviation.
                    last = found.end(name) == len(key) and not clause.key.endswith("?")
                    groups[name.partition("__")[0]] = clause.cut(found.start(name), None if last else found.end(name))
            yield builder, groups


def _translated(token: re.Match[str]) -> str:
    if name := token["part"]:
        return f"(?:{_PARTS.get(name) or _TOKEN.sub(_translated, cues()[0][name])})"
    if token["group"]:
        return f"(?P<{token['group']}>" + (".+?)" if token[0].endswith(">") else "")
    return _SIGNS.get(token[0], token[0])
