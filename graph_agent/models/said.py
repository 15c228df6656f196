"""A call as people read it: one sentence, and the details beside it. `words/said.py` is the only module that composes it."""

from __future__ import annotations

from enum import StrEnum
from operator import not_

from pydantic import Field

from graph_agent.models.base import Frozen


class SaidPart(Frozen):
    """A part of a sentence: words of the operator or of code, or a value."""

    text: str
    value: str = Field(default="", exclude_if=not_)
    """The place of the value, such as `due` or `loan_record.item`; empty for words."""
    shown: str = Field(default="", exclude_if=not_)
    """A text without its quotes, for a client that sets values apart by their look."""
    length: int = Field(default=0, exclude_if=not_)
    """The number of characters of a value that is not shown in full; else 0."""


class SaidCell(Frozen):
    """One value of a table."""

    text: str
    """Empty if its row has no such value."""
    shown: str = Field(default="", exclude_if=not_)
    """As in `SaidPart`."""


class SaidTable(Frozen):
    """A list of objects, with a row for each. Each client draws it in its way."""

    columns: tuple[str, ...]
    rows: tuple[tuple[SaidCell, ...], ...]
    """As many cells in each as there are columns."""
    more: str = Field(default="", exclude_if=not_)
    """The words of code for what it leaves out."""


class SaidRow(Frozen):
    """One detail of a call."""

    label: str
    text: str
    shown: str = Field(default="", exclude_if=not_)
    """As in `SaidPart`."""
    was: str = Field(default="", exclude_if=not_)
    """The value that this one replaces."""
    quiet: bool = Field(default=False, exclude_if=not_)
    """True for what was read about the call."""
    described: bool = Field(default=False, exclude_if=not_)
    """True for an argument for which the sentence says the description of its object, by its own server, or the only one beside
    that: the text of a question leaves it out."""
    length: int = Field(default=0, exclude_if=not_)
    """The number of characters of a value that is not shown in full; else 0."""
    table: SaidTable | None = Field(default=None, exclude_if=not_)
    """For a list of objects in a result: the list, of which `text` says only how long it is."""
    prose: str = Field(default="", exclude_if=not_)
    """For a long text in a result: the text with its lines, of which `text` says only the start."""
    more: str = Field(default="", exclude_if=not_)
    """The words of code for what the `prose` leaves out."""


class Said(Frozen):
    """A call as people read it."""

    parts: tuple[SaidPart, ...]
    rows: tuple[SaidRow, ...] = Field(default=(), exclude_if=not_)
    undoes: str = Field(default="", exclude_if=not_)
    """For an undo: the sentence of the change that it undoes."""
    time_zone: str = Field(default="", exclude_if=not_)
    """The name of the time zone in which its times are said; empty for that of each value."""

    @property
    def sentence(self) -> str:
        return "".join(part.text for part in self.parts)

    @property
    def text(self) -> str:
        """The sentence, and each detail on a line of its own, which its value cannot end."""
        shown = (row for row in self.rows if not row.described)
        return "\n".join([self.sentence, *(f"  {row.label}: {f'{row.was} → ' if row.was else ''}{row.text}" for row in shown)])

    @property
    def is_complete(self) -> bool:
        """True if nothing of the call is left out."""
        return not any(row.length for row in self.rows)


class SaidState(StrEnum):
    """The outcome of a call that people read about."""

    ASKED = "asked"
    """The question about it is the end of the turn."""
    WAITS = "waits"
    """It waits for the approval of other people."""
    DONE = "done"
    NOT_DONE = "not_done"
    REFUSED = "refused"
    """A rule has refused it."""
    UNKNOWN = "unknown"
    """It is not known whether it was done."""


class SaidCall(Frozen):
    """A call of a turn as people read it afterwards."""

    sequence: int
    state: SaidState
    said: Said
    result: tuple[SaidRow, ...] = Field(default=(), exclude_if=not_)
    """The values of the result that the call does not say."""
    why: str = Field(default="", exclude_if=not_)
    """The rule that refused it, or the reason for which it was not done, as a clause."""
