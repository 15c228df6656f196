"""The constitution: the system prompt and the policy in one text.

The whole text is the prompt, verbatim. Its section `## Available Tools` is also parsed into the whitelist and the rules of each
tool, so that prompt and enforcement cannot drift apart:

    ## Available Tools
    - list_tasks: View user's tasks (reads)
    - update_task: Modify task descriptions (without confirmation) (at most 3 per message)
    - delete_task: Remove tasks (requires confirmation)
    <!-- a note for the reader -->
    - ask_question: "Ask (almost) anything"

The section has such lines, one-line comments and blank lines only. Anything else (a misspelt marker, an indented line, a grant
in a comment, a look-alike letter) is an error with its line number: it could have been meant as a restriction, so it is never
ignored. Only markers restrict: a summary is text, with or without double quotes. Quotes allow every character; without them it
has nothing that looks like a marker.

A second section, `## Available Prompts`, may name prompts of MCP servers, which the gateway then offers:
`- files.review: Review a file`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from graph_agent.errors import ConfigurationError, ConstitutionError
from graph_agent.models.canonical import digest
from graph_agent.policy.key_location import LOCATION, KeyLocation
from graph_agent.reply.forms import REPLY_FORMS
from graph_agent.reply.text import visible

SECTION = "## Available Tools"
PROMPTS_SECTION = "## Available Prompts"
MAX_CHARACTERS = 256 * 1024
"""The constitution is part of every request to the model; a longer text is a wrong file. Also the limit of `policy.cedar`."""
MARKERS = (
    "(requires confirmation), (without confirmation), (reads), (trusted results), (at most N per message), "
    "(ARGUMENT is the signed-in user), (operation key in ARGUMENT), (operation key in header HEADER), "
    "(operation key in _meta NAME), (done if TOOL(PARAMETER = ARGUMENT) PATH), (complete), "
    "(complete after N minutes), "
    "(undone by TOOL(PARAMETER = WHERE) for N minutes), (before is TOOL(PARAMETER = arguments.ARGUMENT))"
)

LEAST_DELAY = 30
"""The seconds after which a call that was sent is not on its way any more."""
MOST_DELAY = 600
"""The seconds for which reads look for what a call did."""

_NAME = r"[A-Za-z][A-Za-z0-9_.-]{0,127}"
# MCP allows names that could be read as something else here, such as "1st: tool"; ASCII, so that none is a look-alike.
_QUOTED_NAME = r'"(?=[^"]*[!#-~])[ !#-~]{1,192}"'
_FILLED = r"[A-Za-z_][A-Za-z0-9_-]* = [A-Za-z_][A-Za-z0-9_-]*"
_WHERE = (
    r"[A-Za-z_][A-Za-z0-9_-]* = "
    r"(?:arguments\.[A-Za-z_][A-Za-z0-9_-]*|(?:result|before)\.[A-Za-z_][A-Za-z0-9_-]*(?:\.[A-Za-z_][A-Za-z0-9_-]*|\[[0-9]+\])*)"
)
_ENTRY = re.compile(rf"- (?P<name>{_NAME}|{_QUOTED_NAME}): (?P<rest>\S.*)")
_MARKER = re.compile(
    r"(?P<before>.*?) "
    r"\((?P<words>requires confirmation|without confirmation|reads|trusted results"
    r"|at most (?P<limit>[1-9][0-9]{0,2}) per message|(?P<argument>[A-Za-z_][A-Za-z0-9_-]*) is the signed-in user"
    rf"|operation key in {LOCATION}"
    rf"|done if (?P<reader>{_NAME}|{_QUOTED_NAME})\((?P<filled>{_FILLED}(?:, {_FILLED})*)\) (?P<path>\$[!#-'*-~ ]*)"
    r"|complete(?: after (?P<delay>[1-9][0-9]{0,2}) (?P<unit_of_delay>second|minute)s?)?"
    rf"|undone by (?P<undo>{_NAME}|{_QUOTED_NAME})\((?P<wheres>{_WHERE}(?:, {_WHERE})*)\)"
    r" for (?P<number>[1-9][0-9]{0,3}) (?P<unit>minute|hour|day)s?"
    rf"|before is (?P<look>{_NAME}|{_QUOTED_NAME})\((?P<looked>{_WHERE}(?:, {_WHERE})*)\))\)"
)
_QUOTED = re.compile(r'"(?P<summary>[^"]*)"')
# Without look-alike letters of other scripts, which could hide a misspelt marker from a human reader.
_LATIN = re.compile(r"[ -~À-ɏ]*")
# Brackets, the syntax of comments, strike-through and HTML in Markdown and in programming languages, markers without brackets.
_SYNTAX = re.compile(
    r"[()\[\]{}<>~`|\\\"]|//|/\*|\*\*|__|--|(?:^|\s)#|&#?\w+;|\bconfirm\w*|per message|signed-in user|operation key|undone by",
    re.IGNORECASE,
)
# A grant or another comment in it is an error: it would look like a line that is in force.
_COMMENT = re.compile(r"<!-- (?![\s-])[^<>]+(?<!-) -->")


@dataclass(frozen=True, slots=True)
class DoneIf:
    """A read that tells whether a change was made: it was, if the path selects a value in the result."""

    tool: str
    parameters: tuple[tuple[str, str], ...]
    """The parameters of the read, each with the argument of the change that fills it."""
    path: str
    complete_after: int | None = None
    """The seconds after which the read finds every change: one that it does not find was not made. None if it may miss some."""


class Where(NamedTuple):
    """The place of a value: an argument of a call, or a path in its result or in what was read before it."""

    root: str
    """"arguments", "result" or "before"."""
    path: str

    def __str__(self) -> str:
        return f"{self.root}.{self.path}"


@dataclass(frozen=True, slots=True)
class BeforeRead:
    """A read of what a change is about, made before and after it."""

    tool: str
    parameters: tuple[tuple[str, Where], ...]


@dataclass(frozen=True, slots=True)
class UndoneBy:
    """The call that undoes a change, for a time after it."""

    tool: str
    parameters: tuple[tuple[str, Where], ...]
    """The parameters of the call, each with the place of its value."""
    lifetime: timedelta
    before: BeforeRead | None = None

    @property
    def restored(self) -> tuple[str, ...]:
        """The paths in what was read before the change that the call restores. A later change of one of them prevents it."""
        return tuple(dict.fromkeys(where.path for _, where in self.parameters if where.root == "before"))


@dataclass(frozen=True, slots=True)
class ToolGrant:
    """One line of the section: a tool that may be called, and its rules."""

    name: str
    summary: str
    requires_confirmation: bool = False
    without_confirmation: bool = False
    """The operator accepts that a tool which its server marks as destructive runs without confirmation."""
    reads: bool = False
    """The tool only reads: it may run any number of times and leaves no receipt."""
    trusted_results: bool = False
    """The results of the tool decide about calls as those of a trusted server do."""
    max_per_message: int | None = None
    """The number of calls that one message of the user permits."""
    bound_argument: str | None = None
    """The argument that the runtime sets to the id of the signed-in user."""
    key: KeyLocation | None = None
    """The part of a request that the runtime sets to the operation key: the server promises that a key takes effect once."""
    done_if: DoneIf | None = None
    """The read that tells whether a call was made whose answer was lost."""
    undone_by: UndoneBy | None = None
    """The call that undoes one of this tool."""
    line: int = field(default=0, compare=False)
    """The number of the line, counted from 1."""


@dataclass(frozen=True)
class Constitution:
    """A parsed constitution; `text` is the system prompt."""

    text: str
    grants: tuple[ToolGrant, ...]
    prompts: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The prompts of MCP servers that the gateway offers, each as `server.prompt`, with the text of its line."""

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the text, in hex; stored with every decision."""
        return digest(self.text)

    @property
    def whitelist(self) -> tuple[str, ...]:
        """The names of the granted tools, in the order of the text."""
        return tuple(grant.name for grant in self.grants)

    @classmethod
    def parse(cls, text: str) -> Constitution:
        """Parse `text`. Raises `ConstitutionError` with the number of the first invalid line."""
        if len(text) > MAX_CHARACTERS:
            raise ConstitutionError(f"it has more than {MAX_CHARACTERS:,} characters")
        lines = [line.removesuffix("\r") for line in text.split("\n")]
        start = _find_section(lines, SECTION)
        if start is None:
            raise ConstitutionError(f"there is no section '{SECTION}'")
        grants = _read_entries(lines, start)
        if not grants:
            raise ConstitutionError(f"'{SECTION}' lists no tool", start)
        prompts_start = _find_section(lines, PROMPTS_SECTION)
        prompts = () if prompts_start is None else _read_entries(lines, prompts_start)
        for prompt in prompts:
            if "." not in prompt.name:
                raise ConstitutionError(f"a prompt is named with its server: 'server.{prompt.name}'", prompt.line)
            if prompt != ToolGrant(prompt.name, prompt.summary):
                raise ConstitutionError("a prompt has no markers", prompt.line)
        return cls(text, grants, {prompt.name: prompt.summary for prompt in prompts})

    @classmethod
    def load(cls, path: Path | None = None) -> Constitution:
        """Parse the file at `path`, or the shipped constitution. Raises `ConfigurationError`."""
        return cls.parse(read_limited("constitution", path or shipped_constitution()))


def read_limited(what: str, path: Path) -> str:
    """Return the text of a file, at most one character more than `MAX_CHARACTERS`. Raises `ConfigurationError`."""
    try:
        with path.open(encoding="utf-8") as file:
            return file.read(MAX_CHARACTERS + 1)
    except OSError as exc:
        raise ConfigurationError(f"the {what} {path} cannot be read") from exc
    except UnicodeDecodeError as exc:
        raise ConfigurationError(f"the {what} {path} is not UTF-8 text") from exc


def shipped_constitution() -> Path:
    """Return the path of the shipped text: inside the package if installed, next to the package in a checkout."""
    package = Path(__file__).parent.parent
    installed = package / "constitution.md"
    return installed if installed.exists() else package.parent / "constitution.md"


def grant_line(name: str, summary: str, markers: str = "") -> str:
    """Return a line that grants the tool `name`, with `summary` as free text; the name is quoted if it has to be."""
    shown = name if re.fullmatch(_NAME, name) else f'"{name}"'
    return f'- {shown}: "{summary}"{markers and " "}{markers}'


def _find_section(lines: list[str], section: str) -> int | None:
    """Return the line number of the heading, counted from 1; None if there is none."""
    heading = section.removeprefix("## ").casefold()
    found = None
    fenced = commented = False
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        commented = (commented or "<!--" in line) and "-->" not in line.rpartition("<!--")[2]
        words = unicodedata.normalize("NFKC", line).strip("#*_ \t").casefold()
        if words != heading:
            continue
        if line.rstrip() != section or fenced or commented:
            raise ConstitutionError(f"the heading must be exactly '{section}', outside fences and comments", number)
        if found is not None:
            raise ConstitutionError(f"'{section}' appears twice", number)
        found = number
    return found


def _read_entries(lines: list[str], start: int) -> tuple[ToolGrant, ...]:
    """Return the lines of a section, which begins after line `start` and ends at the next heading."""
    entries: dict[str, ToolGrant] = {}
    for number, line in enumerate(lines[start:], start + 1):
        if line.startswith(("# ", "## ")):
            break
        if not line.strip() or (_COMMENT.fullmatch(line.rstrip()) and line.isprintable()):
            continue
        entry = _read_entry(line, number)
        if entry.name in entries:
            raise ConstitutionError(f"'{entry.name}' is listed twice", number)
        entries[entry.name] = entry
    return tuple(entries.values())


def _read_entry(line: str, number: int) -> ToolGrant:
    match = _ENTRY.fullmatch(line.rstrip())
    if match is None:
        raise ConstitutionError(f"expected '- name: summary', optionally followed by markers: {MARKERS}", number)
    name = match["name"].strip('"')
    if name in REPLY_FORMS:
        raise ConstitutionError(f"'{name}' is a reply form and cannot be granted", number)
    summary, markers = _split_markers(match["rest"], number)
    if (seconds := markers.pop("complete", None)) is not None:
        if "done_if" not in markers:
            raise ConstitutionError("(complete) stands beside (done if ...), about its read", number)
        if not LEAST_DELAY <= seconds <= MOST_DELAY:
            raise ConstitutionError(f"(complete after ...) takes {LEAST_DELAY} seconds to {MOST_DELAY // 60} minutes", number)
        markers["done_if"] = replace(markers["done_if"], complete_after=seconds)
    if (before := markers.pop("before", None)) is not None:
        if "undone_by" not in markers:
            raise ConstitutionError("(before is ...) stands beside (undone by ...), which restores what it reads", number)
        markers["undone_by"] = replace(markers["undone_by"], before=before)
    if (undone_by := markers.get("undone_by")) is not None:
        _require_before(undone_by, number)
    if not summary:
        raise ConstitutionError(f"'{name}' has no summary", number)
    grant = ToolGrant(name, summary, line=number, **markers)
    if grant.key is not None and grant.key.is_reserved:
        raise ConstitutionError(f"the operation key cannot be in {grant.key}, which is reserved", number)
    if grant.requires_confirmation and grant.without_confirmation:
        raise ConstitutionError("a line cannot have both (requires confirmation) and (without confirmation)", number)
    if grant.reads and (grant.key is not None or grant.done_if is not None or grant.undone_by is not None):
        text = "a line with (reads) has none of (operation key in ...), (done if ...) and (undone by ...)"
        raise ConstitutionError(text, number)
    return grant


def _split_markers(text: str, number: int) -> tuple[str, dict[str, Any]]:
    """Return the summary of a line, and its markers as fields of `ToolGrant`."""
    markers: dict[str, Any] = {}
    # From the end of the line: a marker elsewhere stays in the summary, where its brackets are an error.
    while marker := _MARKER.fullmatch(text):
        text, words = marker["before"].rstrip(), marker["words"]
        name, value = _field_of(marker)
        if name in markers:
            raise ConstitutionError(f"the marker ({words}) is repeated or contradicts another one", number)
        markers[name] = value
    if quoted := _QUOTED.fullmatch(text):
        if visible(text) != text or "\t" in text:
            raise ConstitutionError("a summary contains no hidden characters", number)
        return quoted["summary"].strip(), markers
    _require_plain_text(text, number)
    return text, markers


def _field_of(marker: re.Match[str]) -> tuple[str, Any]:
    if marker["limit"]:
        return "max_per_message", int(marker["limit"])
    if marker["words"].startswith("complete"):
        return "complete", int(marker["delay"] or LEAST_DELAY) * (60 if marker["unit_of_delay"] == "minute" else 1)
    if (key := KeyLocation.found(marker)) is not None:
        return "key", key
    if marker["reader"]:
        filled = tuple(
            (parameter, name) for parameter, _, name in (one.partition(" = ") for one in marker["filled"].split(", "))
        )
        return "done_if", DoneIf(marker["reader"].strip('"'), filled, marker["path"].strip())
    if marker["undo"]:
        lifetime = timedelta(**{f"{marker['unit']}s": int(marker["number"])})
        return "undone_by", UndoneBy(marker["undo"].strip('"'), _places(marker["wheres"]), lifetime)
    if marker["look"]:
        return "before", BeforeRead(marker["look"].strip('"'), _places(marker["looked"]))
    return ("bound_argument", marker["argument"]) if marker["argument"] else (marker["words"].replace(" ", "_"), True)


def _places(filled: str) -> tuple[tuple[str, Where], ...]:
    pairs = (one.partition(" = ") for one in filled.split(", "))
    return tuple((parameter, Where(*where.split(".", 1))) for parameter, _, where in pairs)


def _require_before(undone_by: UndoneBy, number: int) -> None:
    if undone_by.before is None and undone_by.restored:
        text = f"before.{undone_by.restored[0]} needs (before is TOOL(PARAMETER = arguments.ARGUMENT)) beside it"
        raise ConstitutionError(text, number)
    if undone_by.before is not None and not undone_by.restored:
        raise ConstitutionError("(before is ...) stands beside (undone by ...) that restores a before.PATH", number)
    read = () if undone_by.before is None else undone_by.before.parameters
    if any(where.root != "arguments" for _, where in read):
        raise ConstitutionError("(before is ...) is read before the call: its values are arguments.ARGUMENT", number)
    for named in (undone_by.parameters, read):
        names = [parameter for parameter, _ in named]
        if repeated := [name for name in names if names.count(name) > 1]:
            raise ConstitutionError(f"the parameter '{repeated[0]}' is filled twice", number)


def _require_plain_text(summary: str, number: int) -> None:
    if not _LATIN.fullmatch(summary):
        raise ConstitutionError("this section may contain only Latin letters, digits and plain punctuation", number)
    if (found := _SYNTAX.search(summary)) is not None:
        raise ConstitutionError(
            f"'{found.group().strip()}' looks like a misspelt or misplaced marker; the markers are {MARKERS}, at the end of "
            "the line, and a summary in double quotes may contain any text",
            number,
        )
