"""The authors of the texts that a user reads."""

from __future__ import annotations

from enum import StrEnum
from operator import not_

from pydantic import Field

from graph_agent.models.base import Frozen
from graph_agent.models.said import SaidTable


class TextAuthor(StrEnum):
    """The author of a text."""

    MODEL = "model"
    """The language model, in its response."""
    CODE = "code"
    """The runtime, or a state that an application adds. What code takes from the arguments of a call is in quotes."""
    SERVER = "server"
    """A tool server, in the result of a call."""
    USER = "user"


class TextPart(Frozen):
    """A part of a text that has one author."""

    author: TextAuthor
    text: str
    table: SaidTable | None = Field(default=None, exclude_if=not_)
    """The table that `text` says line by line, for a client that can draw one."""


class TextAuthors(Frozen):
    """The authors of the texts of one decision. The parts of a text, joined, are that text."""

    message: TextAuthor
    """The user, or code for a decision without a model, whose message names its calls."""
    reply: list[TextPart]
    # Left out of the JSON if they are empty, as the texts themselves are.
    effects: list[list[TextPart]] = Field(default_factory=list, exclude_if=not_)
    notices: list[list[TextPart]] = Field(default_factory=list, exclude_if=not_)
