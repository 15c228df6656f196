"""Conversion of MCP answers and errors to `ToolResult`, with what is recorded of each block of an answer's content.

Error texts are the sentences in this module. The error of a result envelope is used if the server is trusted, and then as one
line of limited length. The error text of any other server is data. The results are part of stored records.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Sequence
from typing import Any, Final, TypeGuard

from mcp import MCPError, types

from graph_agent.errors import ToolErrorCode
from graph_agent.models.canonical import canonical_json
from graph_agent.models.result_size import fit_data
from graph_agent.models.tools import ContentItem, ContentKind, ToolResult
from graph_agent.reply.text import one_line

RESOURCE_NOT_FOUND = -32002
"""The error code of protocol versions before 2026-07-28."""

ENVELOPE = frozenset({"success", "data", "error", "error_code"})
"""The keys of a result envelope: structured content that reports failures as data, as our task server does."""

MAX_ERROR_CHARS = 300
"""The length to which an error text from a result envelope is cut."""
MAX_SERVER_TEXT = 1_000
"""The length to which the error text of a server that is not trusted is cut."""
MAX_ITEMS = 100
"""The largest number of blocks that are recorded; the item after them says how many more there are."""
_USER: Final = "user"
_MODEL: Final = "assistant"
MAX_USER_TEXT = 4_000
"""The length to which a text for the user is cut."""
_MAX_NAME = 200
_MAX_URI = 500


class NotConnectedError(Exception):
    """The call was not sent, because the server is not connected."""


class NoAnswerError(Exception):
    """The call was sent, and there is no answer; `lost` if the connection has ended."""

    def __init__(self, *, lost: bool) -> None:
        self.lost = lost
        super().__init__()


class OutputSchemaError(Exception):
    """The call was answered, but the answer does not fit the output schema of the tool."""


class NoTimeError(Exception):
    """The call was not sent, because no time is left."""


_failure = ToolResult.failed
TIMED_OUT = _failure(ToolErrorCode.TIMEOUT_ERROR, "The tool did not answer in time; it is not known whether it acted.")
CONNECTION_LOST = _failure(
    ToolErrorCode.UNKNOWN_ERROR, "The connection to the tool was lost; it is not known whether it acted."
)
UNUSABLE = _failure(ToolErrorCode.UNKNOWN_ERROR, "The tool's answer cannot be used; it is not known whether it acted.")
UNAVAILABLE = _failure(
    ToolErrorCode.TOOL_UNAVAILABLE, "The tool is unavailable now: its server does not answer; nothing was done."
)
REFUSED = _failure(ToolErrorCode.TOOL_EXECUTION_ERROR, "The server refused the call before it ran; nothing was done.")
FAILED = _failure(ToolErrorCode.TOOL_EXECUTION_ERROR, "The tool reported a failure.")
CHANGE_FAILED = _failure(ToolErrorCode.TOOL_REPORTED_FAILURE, "The tool reported a failure; what was done before is not known.")
INPUT_REQUIRED = _failure(ToolErrorCode.TOOL_EXECUTION_ERROR, "The tool asked for more input, which is not supported.")
CHANGE_NEEDS_INPUT = _failure(
    ToolErrorCode.TOOL_REPORTED_FAILURE,
    "The tool asked for more input, which is not supported; what was done before is not known.",
)
NO_TIME = _failure(ToolErrorCode.TOOL_EXECUTION_ERROR, "No time is left for the call; nothing was done.")
NOT_FOUND = _failure(ToolErrorCode.NOT_FOUND, "There is nothing under this id.")
NO_PREVIEW = _failure(ToolErrorCode.TOOL_EXECUTION_ERROR, "What the call would act on cannot be shown.")
OUTCOME_UNKNOWN = _failure(ToolErrorCode.UNKNOWN_ERROR, "It could not be learned whether the tool acted.")


def no_user_token(reason: Exception) -> ToolResult:
    """Return the result of a call to a server that acts with the user's rights, without a token of the user."""
    return _failure(ToolErrorCode.TOOL_UNAVAILABLE, str(reason))


REFUSED_BEFORE_THE_CALL: Final = frozenset({types.METHOD_NOT_FOUND, types.INVALID_PARAMS})
"""The codes with which MCP lets a server refuse a call that it has not begun: an unknown method or tool, and arguments that do
not fit. Every other code may come from a call that was running, and so may these after a report of its progress."""


def _after_error(code: int, *, trusted: bool, change: bool, begun: bool) -> ToolResult:
    """Return what is known of a call that the server has answered with a JSON-RPC error: the one place that says so.

    | who answers              | a read | a change                                  |
    |--------------------------|--------|-------------------------------------------|
    | a server                 | failed | what was done before is not known         |
    | a trusted server, before | failed | nothing was done, if the code is one of   |
    | any report of progress   |        | `REFUSED_BEFORE_THE_CALL`                 |
    """
    if trusted and not begun and code in REFUSED_BEFORE_THE_CALL:
        return REFUSED
    return CHANGE_FAILED if change else FAILED


def from_answer(
    answer: types.CallToolResult | types.InputRequiredResult | BaseException | None,
    *,
    trusted: bool = True,
    change: bool = False,
    begun: bool = False,
) -> ToolResult:
    """Return the result of a call; `answer` is the session's result, its exception, or None after a timeout.

    The result envelope of a `trusted` server says what was done. A failure of any other server proves nothing: if the call can
    `change` something, what was done before is not known. `begun` says that the server has reported progress.
    """
    if answer is None:
        return TIMED_OUT
    needs_url = isinstance(answer, MCPError) and answer.code == types.URL_ELICITATION_REQUIRED
    if needs_url or isinstance(answer, types.InputRequiredResult):
        # Neither a form nor a URL is followed, and nothing proves that the tool stopped before it acted.
        return CHANGE_NEEDS_INPUT if change and not trusted else INPUT_REQUIRED
    if isinstance(answer, MCPError):
        return _with_server_text(_after_error(answer.code, trusted=trusted, change=change, begun=begun), answer.message)
    if isinstance(answer, BaseException):
        return _from_error(answer)
    structured = answer.structured_content
    if _is_envelope(structured) and trusted:
        return _from_envelope(structured)
    if answer.is_error or (_is_envelope(structured) and structured["success"] is not True):
        return _reported_failure(answer, CHANGE_FAILED if change else FAILED)
    try:
        content = _content_items(answer)
    except (ValueError, TypeError, RecursionError):
        return UNUSABLE
    if isinstance(structured, dict | list):
        return _addressed(_with_data(structured, content), answer, has_text=False)
    if structured is not None:
        return _addressed(_with_data({"result": structured}, content), answer, has_text=False)
    return _addressed(_with_data({"text": _content_text(_for(_MODEL, answer.content))}, content), answer, has_text=True)


def from_settlement(answer: types.CallToolResult | types.InputRequiredResult | BaseException | None) -> ToolResult:
    """Return the ledger's answer about an operation: its stored result, or an error if it never takes effect.

    Any other answer leaves the outcome unknown.
    """
    if isinstance(answer, types.CallToolResult) and _is_envelope(answer.structured_content):
        result = _from_envelope(answer.structured_content)
        # Not by its result, which has this code also for an unknown code.
        is_void = answer.structured_content["error_code"] == ToolErrorCode.TOOL_EXECUTION_ERROR
        # A server may send a void operation as an error of the tool, but never a success.
        if (result.success and not answer.is_error) or (is_void and not result.success and not result.unknown):
            return result
    return OUTCOME_UNKNOWN


def from_preview(answer: types.ReadResourceResult | types.InputRequiredResult | BaseException | None) -> ToolResult:
    """Return the preview: the JSON object of the resource, which must have a `description`."""
    if isinstance(answer, MCPError) and answer.code in (types.INVALID_PARAMS, RESOURCE_NOT_FOUND):
        return NOT_FOUND
    if not isinstance(answer, types.ReadResourceResult):
        return NO_PREVIEW
    texts = [content.text for content in answer.contents if isinstance(content, types.TextResourceContents)]
    try:
        shown = json.loads(texts[0]) if texts else None
    except (ValueError, RecursionError):
        return NO_PREVIEW
    if not isinstance(shown, dict) or not isinstance(shown.get("description"), str):
        return NO_PREVIEW
    return _with_data(shown)


def _from_error(error: BaseException) -> ToolResult:
    if isinstance(error, NotConnectedError | NoTimeError):
        return UNAVAILABLE if isinstance(error, NotConnectedError) else NO_TIME
    if isinstance(error, NoAnswerError) and error.lost:
        return CONNECTION_LOST
    # The call was made, but its result does not parse or violates the tool's output schema.
    return UNUSABLE if isinstance(error, Exception) else CONNECTION_LOST


def _is_envelope(structured: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(structured, dict) and structured.keys() == ENVELOPE


def _from_envelope(envelope: dict[str, Any]) -> ToolResult:
    if envelope["success"] is True:
        data = envelope["data"]
        return _with_data(data) if data is None or isinstance(data, dict | list) else UNUSABLE
    try:
        code = ToolErrorCode(envelope["error_code"])
    except ValueError:
        return FAILED
    error = envelope["error"]
    return _failure(code, one_line(error, MAX_ERROR_CHARS) if isinstance(error, str) else str(FAILED.error))


def _reported_failure(answer: types.CallToolResult, failure: ToolResult) -> ToolResult:
    """Return `failure` with the text of the server as data, from which the model can learn what to correct."""
    text = _content_text(_for(_MODEL, answer.content)) or json.dumps(answer.structured_content, ensure_ascii=False)
    return _addressed(_with_server_text(failure, text), answer, has_text=True)


def _addressed(result: ToolResult, answer: types.CallToolResult, *, has_text: bool) -> ToolResult:
    """Return the result with the text for the user. `has_text` says that its data is the text of the answer."""
    users, models = _for(_USER, answer.content), _for(_MODEL, answer.content)
    model_only = has_text and any(block not in users for block in models)
    text = _user_text(users if model_only else [block for block in users if block not in models]).strip()
    if not (text or model_only):
        return result
    return result.model_copy(update={"for_user": text[:MAX_USER_TEXT], "model_only": model_only})


def _for(reader: types.Role, content: Sequence[types.ContentBlock]) -> list[types.ContentBlock]:
    """Return the blocks for one of the two readers of an answer, without those that are addressed to the other one alone."""
    return [block for block in content if reader in (_audience(block) or (reader,))]


def _audience(block: types.ContentBlock) -> Sequence[types.Role]:
    return (None if block.annotations is None else block.annotations.audience) or ()


def _with_server_text(failure: ToolResult, text: str) -> ToolResult:
    shown = one_line(text, MAX_SERVER_TEXT)
    return failure.model_copy(update={"data": {"server_text": shown}}) if shown else failure


def _with_data(data: dict[str, Any] | list[Any] | None, content: Sequence[ContentItem] = ()) -> ToolResult:
    try:
        return ToolResult(success=True, data=fit_data(data), content=list(content))
    except (ValueError, TypeError, RecursionError):
        # A record cannot store NaN, infinities, or the endless nesting that an in-process server can return.
        return UNUSABLE


def _content_items(answer: types.CallToolResult) -> list[ContentItem]:
    """Return kind, type, size and digest of the structured content and of each block. Raises as `canonical_json` does."""
    items: list[ContentItem] = []
    if answer.structured_content is not None:
        text = canonical_json(answer.structured_content)
        items.append(_item(ContentKind.STRUCTURED, "application/json", text.encode("utf-8", "surrogatepass")))
    models = _for(_MODEL, answer.content)
    items += [_block_item(block).replace(for_user=block not in models) for block in answer.content[:MAX_ITEMS]]
    if (more := len(answer.content) - MAX_ITEMS) > 0:
        items.append(ContentItem(kind=ContentKind.MORE, name=f"{more} more"))
    return items


def _content_text(content: Sequence[types.ContentBlock]) -> str:
    """Return the text of an answer, with that of embedded resources."""
    parts = [block.resource if isinstance(block, types.EmbeddedResource) else block for block in content]
    return "\n".join(part.text for part in parts if isinstance(part, types.TextContent | types.TextResourceContents))


def _user_text(content: Sequence[types.ContentBlock]) -> str:
    """Return the text for the user, with the addresses of links, of which nothing else is shown."""
    return "\n".join(block.uri if isinstance(block, types.ResourceLink) else _content_text([block]) for block in content)


def _block_item(block: types.ContentBlock) -> ContentItem:
    match block:
        case types.TextContent():
            return _item(ContentKind.TEXT, "text/plain", block.text.encode("utf-8", "surrogatepass"))
        case types.ImageContent() | types.AudioContent():
            return _item(ContentKind(block.type), block.mime_type, _decode_base64(block.data))
        case types.ResourceLink():
            # What the link leads to is not read: its size is what the server says, the digest is that of the address.
            item = _item(ContentKind.LINK, block.mime_type, block.uri.encode("utf-8", "surrogatepass"))
            return item.replace(size=block.size, uri=one_line(block.uri, _MAX_URI), name=one_line(block.name, _MAX_NAME))
        case types.EmbeddedResource():
            return _resource_item(block.resource)


def _resource_item(resource: types.TextResourceContents | types.BlobResourceContents) -> ContentItem:
    if isinstance(resource, types.BlobResourceContents):
        item = _item(ContentKind.RESOURCE, resource.mime_type, _decode_base64(resource.blob))
    else:
        text = resource.text.encode("utf-8", "surrogatepass")
        item = _item(ContentKind.RESOURCE, resource.mime_type or "text/plain", text)
    return item.replace(uri=one_line(resource.uri, _MAX_URI))


def _item(kind: ContentKind, mime_type: str | None, content: bytes) -> ContentItem:
    kind_of_data = None if mime_type is None else one_line(mime_type, _MAX_NAME)
    return ContentItem(kind=kind, type=kind_of_data, size=len(content), sha256=hashlib.sha256(content).hexdigest())


def _decode_base64(data: Any) -> bytes:
    """Return the decoded base64; the text itself if it is not base64."""
    text = str(data).encode("utf-8", "surrogatepass")
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return text
