"""The keys of `_meta` by which a server and the runtime understand each other."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from graph_agent.models.base import Frozen
from graph_agent.models.decision import StorableText

LEDGER_META = "graph_agent/ledger"
"""In a tool's `_meta`: the server keeps an operation ledger for it. A key takes effect at most once, and `settle` works."""
PREVIEW_META = "graph_agent/preview"
"""In a tool's `_meta`: the URI template, filled from the arguments, of a resource that describes the target of a call."""
ACTION_META = "graph_agent/action"
"""In a tool's `_meta`, beside the preview: one word for the action, such as "Delete"."""
USER_META = "graph_agent/user"
"""In a request's `_meta`: the user for whom the call is made."""
OPERATION_META = "graph_agent/operation"
"""In a request's `_meta`: `{"key": text, "mode": "run" | "settle"}`."""
ATTEMPT_META = "graph_agent/attempt"
"""In the `_meta` of a change: `{"decision": text, "sequence": number, "attempt": number}`, for a server that fences.

A server that has seen an attempt of a decision may refuse the calls of earlier ones, which come from a paused process.
"""


def change_meta(preview: str | None = None, action: str | None = None) -> dict[str, Any]:
    """Return the `_meta` of a tool that changes something under the ledger."""
    return {LEDGER_META: True, **({PREVIEW_META: preview} if preview else {}), **({ACTION_META: action} if action else {})}


Storable = Annotated[StorableText, Field(strict=True, min_length=1, max_length=255)]


class OperationMeta(Frozen):
    """The value of `graph_agent/operation` in a request's `_meta`."""

    key: Storable
    mode: Literal["run", "settle"]


class UserMeta(Frozen):
    """The value of `graph_agent/user` in a request's `_meta`."""

    user_id: Storable
