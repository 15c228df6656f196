"""The constitution: system prompt and policy in one text.

The whole text is the prompt, verbatim. Its section `## Available Tools` is also parsed, strictly, into what may be called and
what needs the user's confirmation, so that prompt and enforcement cannot drift apart:

    ## Available Tools
    - add_task: Create new tasks
    - delete_task: Remove tasks (requires confirmation)

Blank lines aside nothing else may stand in that section. What looks like a slip (a misspelt marker, an indented line, a
comment, a look-alike letter) is an error with its line number, never ignored: it might have been meant as a restriction.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from graph_agent.errors import ConfigurationError, ConstitutionError
from graph_agent.models.canonical import digest
from graph_agent.reply.forms import REPLY_FORMS

SECTION = "## Available Tools"
CONFIRMATION_MARKER = "(requires confirmation)"

_NAME = r"[A-Za-z][A-Za-z0-9_.-]{0,127}"
_ENTRY = re.compile(rf"- (?P<name>{_NAME}): (?P<summary>\S.*)")
_PLAIN = re.compile(r"[ -~À-ɏ]*")
_MARKER_LIKE = re.compile(r"[()\[\]{}]|confirm|requir|approv", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ToolGrant:
    """One line of the section: a tool that may be called, and on which terms."""

    name: str
    summary: str
    requires_confirmation: bool


@dataclass(frozen=True)
class Constitution:
    """A parsed constitution; `text` is what the model reads."""

    text: str
    grants: tuple[ToolGrant, ...]

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the text, in hex; stands on every decision."""
        return digest(self.text)

    @property
    def whitelist(self) -> tuple[str, ...]:
        """The names that may be called, in the order of the text."""
        return tuple(grant.name for grant in self.grants)

    @classmethod
    def parse(cls, text: str) -> Constitution:
        """Read `text`. Raises `ConstitutionError` with the line of the first slip."""
        lines = [line.removesuffix("\r") for line in text.split("\n")]
        start = _find_section(lines)
        grants: dict[str, ToolGrant] = {}
        for number, line in enumerate(lines[start:], start + 1):
            if line.startswith(("# ", "## ")):
                break
            if not line.strip():
                continue
            grant = _read_entry(line, number)
            if grant.name in grants:
                raise ConstitutionError(f"'{grant.name}' is listed twice", number)
            grants[grant.name] = grant
        if not grants:
            raise ConstitutionError(f"'{SECTION}' lists no tool", start)
        return cls(text, tuple(grants.values()))

    @classmethod
    def load(cls, path: Path | None = None) -> Constitution:
        """Read the file at `path`, or the shipped constitution. Raises `ConfigurationError`."""
        source = path or shipped_constitution()
        try:
            return cls.parse(source.read_text(encoding="utf-8"))
        except OSError as exc:
            raise ConfigurationError(f"the constitution {source} cannot be read") from exc
        except UnicodeDecodeError as exc:
            raise ConfigurationError(f"the constitution {source} is not UTF-8 text") from exc


def shipped_constitution() -> Path:
    """Where the shipped text lies: inside the package when installed, beside it in a checkout."""
    package = Path(__file__).parent.parent
    installed = package / "constitution.md"
    return installed if installed.exists() else package.parent / "constitution.md"


def _find_section(lines: list[str]) -> int:
    """The number of the heading's line, from 1."""
    found = None
    fenced = commented = False
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        commented = (commented or "<!--" in line) and "-->" not in line.rpartition("<!--")[2]
        words = unicodedata.normalize("NFKC", line).strip("#*_ \t").casefold()
        if words != "available tools":
            continue
        if line.rstrip() != SECTION or fenced or commented:
            raise ConstitutionError(f"the heading must be exactly '{SECTION}', outside fences and comments", number)
        if found is not None:
            raise ConstitutionError(f"'{SECTION}' stands twice", number)
        found = number
    if found is None:
        raise ConstitutionError(f"there is no section '{SECTION}'")
    return found


def _read_entry(line: str, number: int) -> ToolGrant:
    if not _PLAIN.fullmatch(line):
        raise ConstitutionError("only Latin letters, digits and plain punctuation may stand in this section", number)
    match = _ENTRY.fullmatch(line.rstrip())
    if match is None:
        raise ConstitutionError(f"expected '- name: summary', optionally ending in '{CONFIRMATION_MARKER}'", number)
    name, summary = match["name"], match["summary"]
    if name in REPLY_FORMS:
        raise ConstitutionError(f"'{name}' is a reply form and cannot be granted", number)
    marked = summary.endswith(f" {CONFIRMATION_MARKER}")
    words = summary.removesuffix(CONFIRMATION_MARKER).rstrip() if marked else summary
    if slip := _MARKER_LIKE.search(words):
        raise ConstitutionError(
            f"'{slip.group()}' looks like a misspelt or misplaced marker: write '{CONFIRMATION_MARKER}' at the end",
            number,
        )
    if not words:
        raise ConstitutionError(f"'{name}' has no summary", number)
    return ToolGrant(name, words, marked)
