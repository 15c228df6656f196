"""The content of a tool's answer: what is recorded of each block, and the text that the model reads."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from graph_agent.models.canonical import canonical_json
from graph_agent.models.tools import ContentItem, ContentKind
from graph_agent.reply.text import one_line

MAX_ITEMS = 100
"""The largest number of blocks that are recorded; the item after them says how many more there are."""
_MAX_NAME = 200
_MAX_URI = 500


def content_items(answer: CallToolResult) -> list[ContentItem]:
    """Return kind, type, size and digest of the structured content and of each block. Raises as `canonical_json` does."""
    items: list[ContentItem] = []
    if answer.structured_content is not None:
        text = canonical_json(answer.structured_content)
        items.append(_item(ContentKind.STRUCTURED, "application/json", text.encode("utf-8", "surrogatepass")))
    items += [_block_item(block) for block in answer.content[:MAX_ITEMS]]
    if (more := len(answer.content) - MAX_ITEMS) > 0:
        items.append(ContentItem(kind=ContentKind.MORE, name=f"{more} more"))
    return items


def content_text(content: Sequence[ContentBlock]) -> str:
    """Return the text of an answer, with that of embedded resources."""
    return "\n".join(_texts(content))


def _texts(content: Sequence[ContentBlock]) -> Iterator[str]:
    for block in content:
        if isinstance(block, TextContent):
            yield block.text
        elif isinstance(block, EmbeddedResource) and isinstance(block.resource, TextResourceContents):
            yield block.resource.text


def _block_item(block: ContentBlock) -> ContentItem:
    match block:
        case TextContent():
            return _item(ContentKind.TEXT, "text/plain", block.text.encode("utf-8", "surrogatepass"))
        case ImageContent():
            return _item(ContentKind.IMAGE, block.mime_type, _decode_base64(block.data))
        case AudioContent():
            return _item(ContentKind.AUDIO, block.mime_type, _decode_base64(block.data))
        case ResourceLink():
            # What the link leads to is not read: its size is what the server says, the digest is that of the address.
            item = _item(ContentKind.LINK, block.mime_type, block.uri.encode("utf-8", "surrogatepass"))
            return item.replace(size=block.size, uri=one_line(block.uri, _MAX_URI), name=one_line(block.name, _MAX_NAME))
        case EmbeddedResource():
            return _resource_item(block.resource)


def _resource_item(resource: TextResourceContents | BlobResourceContents) -> ContentItem:
    if isinstance(resource, BlobResourceContents):
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
