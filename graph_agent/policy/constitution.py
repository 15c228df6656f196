"""The constitution: the system prompt and the policy in one text.

The text is the prompt, verbatim but for its section `## Facts` (`fact_lines.py`). Its section `## Available Tools` is also
parsed into the whitelist and the rules of each tool, so that prompt and enforcement cannot drift apart:

    ## Available Tools
    - list_tasks: View user's tasks (reads)
    - update_task: "Rename task[ {preview or task_id}][ to {description}]" (without confirmation) (at most 3 per message)
    - delete_task: "Delete task[ {preview or task_id}]" (requires confirmation)
    <!-- a note for the reader -->
    - ask_question: "Ask (almost) anything"
    - rename_task: "Call task {task_id} '{title}'" (requires confirmation)

The section has such lines, one-line comments and blank lines only. Anything else (a misspelt marker, an indented line, a grant
in a comment, a look-alike letter) is an error with its line number: it could have been meant as a restriction, so it is never
ignored. Only markers restrict: a summary is text, with or without double quotes. Without them it has nothing that looks like a
marker. In quotes it may have every character; braces and brackets are places for the values of a call (`sentence.py`).

A second section, `## Available Prompts`, may name prompts of MCP servers, which the gateway then offers:
`- files.review: Review a file`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from graph_agent.errors import ConfigurationError, ConstitutionError
from graph_agent.models.canonical import digest
from graph_agent.policy.fact_lines import FACTS_SECTION, NO_FACTS, read_facts, read_of_call
from graph_agent.policy.facts import Fact
from graph_agent.policy.key_location import LOCATION, KeyLocation
from graph_agent.policy.sentence import Sentence, SentenceError, escaped
from graph_agent.policy.sentence_reads import PLAIN_PATH, ReadForSentence, reads_for_sentence
from graph_agent.reply.forms import ALL_FORMS
from graph_agent.reply.text import visible

SECTION = "## Available Tools"
PROMPTS_SECTION = "## Available Prompts"
MAX_CHARACTERS = 256 * 1024
"""The constitution is part of every request to the model; a longer text is a wrong file. Also the limit of `policy.cedar`."""
MARKERS = (
    "(requires confirmation), (without confirmation), (reads), (trusted results), (at most N per message), "
    "(ARGUMENT is the signed-in user), (operation key in ARGUMENT), (operation key in header HEADER), "
    "(operation key in _meta NAME), (done if FACT PATH), (complete), (complete after N minutes), "
    "(undone by TOOL(PARAMETER = WHERE) for N minutes), (in plans), (in plans, only with a form)"
)

LEAST_DELAY = 30
"""The seconds after which a call that was sent is not on its way any more."""
MOST_DELAY = 600
"""The seconds for which reads look for what a call did."""

_NAME = r"[A-Za-z][A-Za-z0-9_.-]{0,127}"
# MCP allows names that could be read as something else here, such as "1st: tool"; ASCII, so that none is a look-alike.
_QUOTED_NAME = r'"(?=[^"]*[!#-~])[ !#-~]{1,192}"'
_WHERE = r"[A-Za-z_][A-Za-z0-9_-]* = [A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_-]*|\[[0-9]+\])*"
_ENTRY = re.compile(rf"- (?P<name>{_NAME}|{_QUOTED_NAME}): (?P<rest>\S.*)")
_MARKER = re.compile(
    r"(?P<before>.*?) "
    r"\((?P<words>requires confirmation|without confirmation|reads|trusted results"
    r"|at most (?P<limit>[1-9][0-9]{0,2}) per message|(?P<argument>[A-Za-z_][A-Za-z0-9_-]*) is the signed-in user"
    rf"|operation key in {LOCATION}"
    r"|done if (?P<fact>[A-Za-z_][A-Za-z0-9_]*)(?: (?P<path>\$[!#-'*-~ ]*))?"
    r"|complete(?: after (?P<delay>[1-9][0-9]{0,2}) (?P<unit_of_delay>second|minute)s?)?"
    rf"|undone by (?P<undo>{_NAME}|{_QUOTED_NAME})\((?P<wheres>{_WHERE}(?:, {_WHERE})*)\)"
    r" for (?P<number>[1-9][0-9]{0,3}) (?P<unit>minute|hour|day)s?"
    r"|(?P<plans>in plans)(?:, (?P<form>only with a form))?)\)"
)
_HEADINGS = ("# ", "## ")
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
    """A fact that shows whether a change was made: it was, if the path selects a value in the result of its read."""

    fact: str
    tool: str
    parameters: tuple[tuple[str, str], ...]
    """The parameters of the read, each with the argument of the change that fills it."""
    path: str
    complete_after: int | None = None
    """The seconds after which the read finds every change: one that it does not find was not made. None if it may miss some."""


class Where(NamedTuple):
    """The place of a value: an argument of a call, or a path in its result or in a fact that was read before it."""

    root: str
    """"arguments", "result", or the name of a fact."""
    path: str
    """For a fact the path in the result of its read."""

    @property
    def is_fact(self) -> bool:
        return self.root not in ("arguments", "result")

    def __str__(self) -> str:
        return f"{self.root}.{self.path}"


@dataclass(frozen=True, slots=True)
class BeforeRead:
    """A read of what a change is about, made before and after it."""

    tool: str
    parameters: tuple[tuple[str, str], ...]
    """The parameters of the read, each with the argument of the change that fills it."""


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
        return tuple(dict.fromkeys(where.path for _, where in self.parameters if where.is_fact))


class InPlans(StrEnum):
    """The plans that may have lines for a tool."""

    ANY = "any"
    WITH_FORM = "with a form"
    """Only those in which each value from a result has a form, or a place in the result."""


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
    """The read that shows whether a call was made whose answer was lost."""
    undone_by: UndoneBy | None = None
    """The call that undoes one of this tool."""
    in_plans: InPlans | None = None
    """The plans that may cover calls of the tool; None if each call that needs a yes needs one of its own."""
    sentence: Sentence | None = field(default=None, compare=False)
    """The parsed summary, if it is in quotes."""
    reads_for_sentence: tuple[ReadForSentence, ...] = field(default=(), compare=False)
    """The reads that the sentence of a call needs."""
    line: int = field(default=0, compare=False)
    """The number of the line, counted from 1."""

    @property
    def title(self) -> str:
        """The summary in words alone."""
        return self.summary if self.sentence is None else self.sentence.title

    @property
    def facts(self) -> frozenset[str]:
        """The facts that its markers and its sentence name."""
        restored = () if self.undone_by is None else self.undone_by.parameters
        found = {where.root for _, where in restored if where.is_fact}
        if self.sentence is not None:
            found |= {place.root for place in self.sentence.places if place.is_fact}
        return frozenset(found if self.done_if is None else {*found, self.done_if.fact})


@dataclass(frozen=True)
class Constitution:
    """A parsed constitution."""

    text: str
    grants: tuple[ToolGrant, ...]
    prompts: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The prompts of MCP servers that the gateway offers, each as `server.prompt`, with the text of its line."""
    facts: Mapping[str, Fact] = field(default_factory=lambda: NO_FACTS, hash=False)
    """The facts that the runtime reads, by name."""

    @cached_property
    def prompt(self) -> str:
        """The system prompt: the text without the section of the facts, which only code reads."""
        lines = self.text.split("\n")
        start = _find_section([line.removesuffix("\r") for line in lines], FACTS_SECTION)
        if start is None:
            return self.text
        end = next((n for n, line in enumerate(lines[start:], start) if line.startswith(_HEADINGS)), len(lines))
        kept = "\n".join([*lines[: start - 1], *lines[end:]])
        return kept if end < len(lines) else f"{kept.rstrip()}\n"

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
        start, grants, facts = listed_in(lines)
        if not grants:
            raise ConstitutionError(f"'{SECTION}' lists no tool", start)
        prompts_start = _find_section(lines, PROMPTS_SECTION)
        prompts = () if prompts_start is None else _read_entries(lines, prompts_start, None)
        for prompt in prompts:
            if "." not in prompt.name:
                raise ConstitutionError(f"a prompt is named with its server: 'server.{prompt.name}'", prompt.line)
            if prompt != ToolGrant(prompt.name, prompt.summary):
                raise ConstitutionError("a prompt has no markers", prompt.line)
        return cls(text, grants, {prompt.name: prompt.summary for prompt in prompts}, facts)

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


def require_readable(text: str, what: str) -> str:
    """Return a text that a command has written. Raises `ConfigurationError` if it is too long for those that read it."""
    if len(text) > MAX_CHARACTERS:
        raise ConfigurationError(
            f"the {what} for these tools would have more than {MAX_CHARACTERS:,} characters: name fewer servers or tools"
        )
    return text


def shipped_constitution() -> Path:
    """Return the path of the shipped text: inside the package if installed, next to the package in a checkout."""
    package = Path(__file__).parent.parent
    installed = package / "constitution.md"
    return installed if installed.exists() else package.parent / "constitution.md"


def grant_line(name: str, summary: str, markers: str = "") -> str:
    """Return a line that grants the tool `name`, with `summary` as free text; the name is quoted if it has to be."""
    return sentence_line(name, escaped(summary), markers)


def sentence_line(name: str, sentence: str, markers: str = "") -> str:
    """Return a line that grants the tool `name`, with a sentence for its calls."""
    shown = name if re.fullmatch(_NAME, name) else f'"{name}"'
    return f'- {shown}: "{sentence}"{markers and " "}{markers}'


class ListedTools(NamedTuple):
    """The section of the tools."""

    heading: int
    """The number of the line of its heading, from 1."""
    grants: tuple[ToolGrant, ...]
    facts: Mapping[str, Fact]
    """The facts that the lines may name."""


def listed_in(lines: list[str]) -> ListedTools:
    """Return the section of the tools, which may be empty. Raises `ConstitutionError`."""
    start = _find_section(lines, SECTION)
    if start is None:
        raise ConstitutionError(f"there is no section '{SECTION}'")
    facts_start = _find_section(lines, FACTS_SECTION)
    facts = NO_FACTS if facts_start is None else read_facts(_lines_of(lines, facts_start))
    return ListedTools(start, _read_entries(lines, start, facts), facts)


def split_line(line: str) -> tuple[str, list[str]]:
    """Return the line of a tool without its markers, and the markers as they are written there."""
    markers: list[str] = []
    while marker := _MARKER.fullmatch(line):
        line = marker["before"].rstrip()
        markers.insert(0, f"({marker['words']})")
    return line, markers


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


def _lines_of(lines: list[str], start: int) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines of a section but for comments; it begins after line `start` and ends at the next heading."""
    for number, line in enumerate(lines[start:], start + 1):
        if line.startswith(_HEADINGS):
            return
        if line.strip() and not (_COMMENT.fullmatch(line.rstrip()) and line.isprintable()):
            yield number, line


def _read_entries(lines: list[str], start: int, facts: Mapping[str, Fact] | None) -> tuple[ToolGrant, ...]:
    """Return the lines of a section; `facts` are those that a tool's line may name, and None for prompts."""
    entries: dict[str, ToolGrant] = {}
    for number, line in _lines_of(lines, start):
        entry = _read_entry(line, number, facts)
        if entry.name in entries:
            raise ConstitutionError(f"'{entry.name}' is listed twice", number)
        entries[entry.name] = entry
    return tuple(entries.values())


def _read_entry(line: str, number: int, facts: Mapping[str, Fact] | None) -> ToolGrant:
    match = _ENTRY.fullmatch(line.rstrip())
    if match is None:
        raise ConstitutionError(f"expected '- name: summary', optionally followed by markers: {MARKERS}", number)
    name = match["name"].strip('"')
    if name in ALL_FORMS:
        raise ConstitutionError(f"'{name}' is a reply form and cannot be granted", number)
    summary, markers, quoted = _split_markers(match["rest"], number, facts or NO_FACTS)
    if (seconds := markers.pop("complete", None)) is not None:
        if "done_if" not in markers:
            raise ConstitutionError("(complete) goes with (done if ...), about its read", number)
        if not LEAST_DELAY <= seconds <= MOST_DELAY:
            raise ConstitutionError(f"(complete after ...) takes {LEAST_DELAY} seconds to {MOST_DELAY // 60} minutes", number)
        markers["done_if"] = replace(markers["done_if"], complete_after=seconds)
    if not summary:
        raise ConstitutionError(f"'{name}' has no summary", number)
    sentence = _sentence(summary, facts, number) if quoted and facts is not None else None
    reads = reads_for_sentence(sentence, _replacing(name, markers.get("undone_by")), facts or NO_FACTS, number)
    grant = ToolGrant(name, summary, sentence=sentence, reads_for_sentence=reads, line=number, **markers)
    if grant.key is not None and grant.key.is_reserved:
        raise ConstitutionError(f"the operation key cannot be in {grant.key}, which is reserved", number)
    if grant.requires_confirmation and grant.without_confirmation:
        raise ConstitutionError("a line cannot have both (requires confirmation) and (without confirmation)", number)
    if grant.reads and (grant.key is not None or grant.done_if is not None or grant.undone_by is not None):
        text = "a line with (reads) has none of (operation key in ...), (done if ...) and (undone by ...)"
        raise ConstitutionError(text, number)
    return grant


def _split_markers(text: str, number: int, facts: Mapping[str, Fact]) -> tuple[str, dict[str, Any], bool]:
    """Return the summary of a line, its markers as fields of `ToolGrant`, and True if the summary is in quotes."""
    markers: dict[str, Any] = {}
    # From the end of the line: a marker elsewhere stays in the summary, where its brackets are an error.
    while marker := _MARKER.fullmatch(text):
        text, words = marker["before"].rstrip(), marker["words"]
        name, value = _field_of(marker, number, facts)
        if name in markers:
            raise ConstitutionError(f"the marker ({words}) is repeated or contradicts another one", number)
        markers[name] = value
    if quoted := _QUOTED.fullmatch(text):
        if visible(text) != text or "\t" in text:
            raise ConstitutionError("a summary contains no hidden characters", number)
        return quoted["summary"].strip(), markers, True
    _require_plain_text(text, number)
    return text, markers, False


def _sentence(summary: str, facts: Mapping[str, Fact], number: int) -> Sentence:
    try:
        return Sentence.parse(summary, facts)
    except SentenceError as exc:
        raise ConstitutionError(f"in a quoted summary {exc}", number) from None


def _replacing(name: str, undone_by: UndoneBy | None) -> ReadForSentence | None:
    """Return the read of what a call replaces, which the same tool restores; None without one."""
    if undone_by is None or undone_by.tool != name or undone_by.before is None:
        return None
    replaced = tuple((parameter, where.path) for parameter, where in undone_by.parameters if where.is_fact)
    return ReadForSentence(undone_by.before.tool, undone_by.before.parameters, replaced=replaced)


def _field_of(marker: re.Match[str], number: int, facts: Mapping[str, Fact]) -> tuple[str, Any]:
    if marker["limit"]:
        return "max_per_message", int(marker["limit"])
    if marker["words"].startswith("complete"):
        return "complete", int(marker["delay"] or LEAST_DELAY) * (60 if marker["unit_of_delay"] == "minute" else 1)
    if (key := KeyLocation.found(marker)) is not None:
        return "key", key
    if marker["fact"]:
        read = read_of_call(facts, marker["fact"], "(done if ...)", number)
        path = read.path + (marker["path"] or "").strip().removeprefix("$")
        if path == "$":
            raise ConstitutionError(f"(done if {marker['fact']}) needs a path to what the change has made", number)
        return "done_if", DoneIf(marker["fact"], read.tool, read.parameters, path)
    if marker["plans"]:
        return "in_plans", InPlans.WITH_FORM if marker["form"] else InPlans.ANY
    if marker["undo"]:
        return "undone_by", _undone_by(marker, number, facts)
    return ("bound_argument", marker["argument"]) if marker["argument"] else (marker["words"].replace(" ", "_"), True)


def _undone_by(marker: re.Match[str], number: int, facts: Mapping[str, Fact]) -> UndoneBy:
    lifetime = timedelta(**{f"{marker['unit']}s": int(marker["number"])})
    pairs = [one.partition(" = ") for one in marker["wheres"].split(", ")]
    places: dict[str, Where] = {}
    reads: dict[BeforeRead, str] = {}
    for parameter, _, text in pairs:
        if parameter in places:
            raise ConstitutionError(f"the parameter '{parameter}' is filled twice", number)
        root, path = re.fullmatch(r"([A-Za-z0-9_]+)(.*)", text).groups()  # type: ignore[union-attr]  # by the marker
        if root in ("arguments", "result"):
            if not path.startswith(".") or (root == "arguments" and not re.fullmatch(r"\.[A-Za-z0-9_-]+", path)):
                raise ConstitutionError(f"'{text}' is no place of a value: arguments.NAME, result.PATH or FACT.PATH", number)
            places[parameter] = Where(root, path[1:])
            continue
        read = read_of_call(facts, root, "(undone by ...)", number)
        whole = f"{read.path}{path}".removeprefix("$").removeprefix(".")
        if not PLAIN_PATH.fullmatch(whole):
            raise ConstitutionError(f"(undone by ...) restores one value, and '{text}' is none", number)
        places[parameter] = Where(root, whole)
        reads[BeforeRead(read.tool, read.parameters)] = root
    if len(reads) > 1:
        raise ConstitutionError(f"(undone by ...) restores from one read, and not from {' and '.join(reads.values())}", number)
    return UndoneBy(marker["undo"].strip('"'), tuple(places.items()), lifetime, next(iter(reads), None))


def _require_plain_text(summary: str, number: int) -> None:
    if not _LATIN.fullmatch(summary):
        raise ConstitutionError("this section may contain only Latin letters, digits and plain punctuation", number)
    if (found := _SYNTAX.search(summary)) is not None:
        raise ConstitutionError(
            f"'{found.group().strip()}' looks like a misspelt or misplaced marker; the markers are {MARKERS}, at the end of "
            "the line, and a summary in double quotes may contain any text",
            number,
        )
