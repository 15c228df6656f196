"""The messages between the runtime and a server with a ledger: the keys of `_meta`, and the result of a call."""

from __future__ import annotations

import json
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, create_model

from graph_agent.errors import ToolErrorCode
from graph_agent.models.base import Frozen
from graph_agent.models.decision import StorableText

LEDGER_META = "graph_agent/ledger"
"""In a tool's `_meta`: the server keeps an operation ledger for it. A key takes effect at most once, and `settle` works."""
PREVIEW_META = "graph_agent/preview"
"""In a tool's `_meta`: the URI template, filled from the arguments, of a resource that describes the target of a call."""
UNREAD_META = "graph_agent/unread"
"""In a tool's `_meta`: the fields of its results that only programs read, such as `["user_id"]`: the model gets the others."""
USER_META = "graph_agent/user"
"""In a request's `_meta`: the user for whom the call is made."""
OPERATION_META = "graph_agent/operation"
"""In a request's `_meta`: `{"key": text, "mode": "run" | "settle"}`."""
ATTEMPT_META = "graph_agent/attempt"
"""In the `_meta` of a change: `{"decision": text, "sequence": number, "attempt": number}`, for a server that fences.

A server that has seen an attempt of a decision may refuse the calls of earlier ones, which come from a paused process.
"""


def change_meta(preview: str | None = None) -> dict[str, Any]:
    """Return the `_meta` of a tool that changes something under the ledger."""
    return {LEDGER_META: True, **({PREVIEW_META: preview} if preview else {})}


Storable = Annotated[StorableText, Field(strict=True, min_length=1, max_length=255)]


class OperationMeta(Frozen):
    """The value of `graph_agent/operation` in a request's `_meta`."""

    key: Storable
    mode: Literal["run", "settle"]


USER_ID: TypeAdapter[str] = TypeAdapter(Storable)
"""The value of `graph_agent/user` in a request's `_meta`."""


class ResultEnvelope(Frozen):
    """The result of a call, also of a failed one. `error` is a fixed sentence.

    The `data` of a change may have the `preview` of what it has changed, as that was before, which people read in the sentence
    of the call, and a `receipt`, which they read beside it.
    """

    success: bool
    data: dict[str, Any] | None = None
    error: str | None = None
    error_code: ToolErrorCode | None = None

    @classmethod
    def done(cls, **data: Any) -> ResultEnvelope:
        return cls(success=True, data=data)

    @classmethod
    def failed(cls, code: ToolErrorCode, error: str) -> ResultEnvelope:
        return cls(success=False, error=error, error_code=code)

    def to_text(self) -> str:
        """Return this result as JSON text for the ledger."""
        return json.dumps(self.to_json(), ensure_ascii=False)


@cache
def output_schema(data: Any) -> dict[str, Any]:
    """Return the JSON Schema of the results of a tool whose successful calls have `data` of this type."""
    kinds = {**{name: field.annotation for name, field in ResultEnvelope.model_fields.items()}, "data": data | None}
    fields: dict[str, Any] = {name: (kind, ...) for name, kind in kinds.items()}
    return create_model("Result", __base__=Frozen, **fields).model_json_schema()
