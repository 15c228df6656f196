"""The rule of one tool that may be called, as the guard applies it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from graph_agent.models.llm import ToolDeclaration
from graph_agent.models.tools import ToolTraits
from graph_agent.policy.constitution import ToolGrant
from graph_agent.policy.operation_key import OperationKey
from graph_agent.policy.schema.check import ArgumentCheck
from graph_agent.reply.text import in_plain_words

_MAX_SERVER_TEXT = 4_000
"""The number of characters of a server's text that are kept and searched for tool names, so that a long text costs little."""


class EffectProof(StrEnum):
    """The way to learn whether a change was made whose answer was lost."""

    LEDGER = "ledger"
    KEY = "key"
    """The same call is sent again under its operation key."""
    READ = "read"
    """A read finds it."""
    NONE = "none"
    """It is not learned: the outcome stays unknown."""


@dataclass(frozen=True, slots=True)
class ToolRule:
    """One tool that may be called: its grant, declaration, traits and argument check."""

    grant: ToolGrant
    declaration: ToolDeclaration
    traits: ToolTraits
    check: ArgumentCheck
    """Checks arguments against the schema and its strict copy; the model gets the original schema."""

    served: ToolDeclaration
    """The declaration of the server: `declaration` leaves out an argument that the runtime fills with the operation key."""
    key: OperationKey | None = None
    """The operation key as the server takes it."""
    takes_user_id: bool = False
    """True if the schema declares a property `user_id`: then it is an argument like any other."""
    hidden: frozenset[str] = frozenset()
    """The names of all tools; no text for the user contains one of them."""

    @property
    def mutating(self) -> bool:
        """True unless the constitution or the server declares that the tool only reads."""
        return not (self.grant.reads or self.traits.read_only)

    @property
    def proof(self) -> EffectProof | None:
        """The way to learn the outcome of a call whose answer was lost; None for a read."""
        if not self.mutating:
            return None
        if self.traits.ledger:
            return EffectProof.LEDGER
        return EffectProof.KEY if self.key is not None else EffectProof.READ if self.grant.done_if else EffectProof.NONE

    @property
    def asks_without_message(self) -> bool:
        """True if the constitution makes each call that belongs to no message of the user ask first."""
        return self.grant.requires_confirmation or self.grant.max_per_message is not None

    @property
    def title(self) -> str:
        """The tool's action in words for the user: the server's title, or the summary in the constitution."""
        return self.user_text(self.traits.title or "").strip() or self.grant.title

    def definition_json(self) -> dict[str, Any]:
        """Return what the server declares about the tool, as plain JSON."""
        return {"declaration": self.served.to_json(), "traits": self.traits.to_json()}

    def user_text(self, text: str) -> str:
        """Return a server's `text` without tool names."""
        return in_plain_words(text[:_MAX_SERVER_TEXT], self.hidden)
