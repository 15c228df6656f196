"""The caller and the operation of an MCP request, and the MCP result of a call."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Self

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.mcpserver import Context
from mcp.types import CallToolResult, TextContent
from pydantic import ValidationError

from graph_agent.errors import ToolErrorCode
from graph_agent.ledger.protocol import OPERATION_META, USER_ID, USER_META, OperationMeta, ResultEnvelope
from graph_agent.net.scopes import WRITE_SCOPE

NO_USER = ResultEnvelope.failed(ToolErrorCode.ACCESS_DENIED, "The call does not say for which user it is.")
INVALID_USER = ResultEnvelope.failed(ToolErrorCode.VALIDATION_ERROR, "The user is not valid.")
INVALID_OPERATION = ResultEnvelope.failed(ToolErrorCode.VALIDATION_ERROR, "The operation is not valid.")
READ_ONLY_TOKEN = ResultEnvelope.failed(ToolErrorCode.ACCESS_DENIED, f"This needs a token with the scope {WRITE_SCOPE}.")


class RefusedRequestError(Exception):
    """The request is refused before anything is done; `result` says why."""

    def __init__(self, result: ResultEnvelope) -> None:
        super().__init__(result.error)
        self.result = result


@dataclass(frozen=True, slots=True)
class RequestMeta:
    """The part of a request that its arguments do not say: the user for whom it acts, and which operation key."""

    user_id: str
    operation: OperationMeta | None

    @classmethod
    def of(cls, context: Context[Any, Any] | None, default_user: str | None, *, change: bool = False) -> Self:
        """Read it from the token and the `_meta` of a request. Raises `RefusedRequestError`.

        The user is the subject of the verified token if there is one, else the one in `_meta`, else `default_user`. A token
        without the scope `write` permits no `change`.
        """
        meta = _meta(context)
        token = get_access_token()
        named = meta.get(USER_META)
        if token is not None:
            named = token.subject if named in (None, token.subject) else None
        elif named is None:
            named = default_user
        if named is None:
            raise RefusedRequestError(NO_USER)
        try:
            user_id = USER_ID.validate_python(named)
        except ValidationError:
            raise RefusedRequestError(INVALID_USER) from None
        operation = meta.get(OPERATION_META)
        try:
            operation = None if operation is None else OperationMeta.model_validate(operation)
        except ValidationError:
            raise RefusedRequestError(INVALID_OPERATION) from None
        if change and token is not None and WRITE_SCOPE not in token.scopes:
            raise RefusedRequestError(READ_ONLY_TOKEN)
        return cls(user_id, operation)


def call_result(result: ResultEnvelope) -> CallToolResult:
    """Return a result as MCP sends it: as structured content, and as text, because not every client reads the former."""
    structured = result.to_json()
    text = json.dumps(structured, ensure_ascii=False)
    return CallToolResult(
        content=[TextContent(type="text", text=text)], structured_content=structured, is_error=not result.success
    )


def _meta(context: Context[Any, Any] | None) -> dict[str, Any]:
    meta = None if context is None else context.request_context.meta
    return {} if meta is None else dict(meta)
