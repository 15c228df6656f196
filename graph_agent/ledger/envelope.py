"""The result of a tool call, as a server with a ledger sends and stores it."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from pydantic import create_model

from graph_agent.errors import ToolErrorCode
from graph_agent.models.base import Frozen


class ResultEnvelope(Frozen):
    """The result of a call, also of a failed one. `error` is a fixed sentence; the `data` of a change has a `receipt`."""

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
    fields: dict[str, Any] = {
        "success": (bool, ...),
        "data": (data | None, ...),
        "error": (str | None, ...),
        "error_code": (ToolErrorCode | None, ...),
    }
    return create_model("Result", __base__=Frozen, **fields).model_json_schema()
