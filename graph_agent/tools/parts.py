"""The content parts of a call's answer as they came, for a program that passes them on. The record has only their digests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final, TypeVar

from mcp.types import AudioContent, BlobResourceContents, ContentBlock, EmbeddedResource, ImageContent
from pydantic import BaseModel

T = TypeVar("T", bound=BaseModel)

MAX_PASSED_BYTES: Final = 4 * 1024 * 1024
"""Limit for one answer that is passed on, as JSON. The parts after it are left out."""


@dataclass
class AnswerParts:
    """The parts of the answers to the calls that were made while it was the collector."""

    of_call: dict[tuple[str, int], list[ContentBlock]] = field(default_factory=dict)
    """By decision and sequence."""

    def add(self, decision_id: str, sequence: int, blocks: Sequence[ContentBlock]) -> None:
        self.of_call[decision_id, sequence] = list(within_limit(blocks))


def within_limit(parts: Iterable[T]) -> Iterator[T]:
    """Yield the first of these parts, as many as `MAX_PASSED_BYTES` permits."""
    left = MAX_PASSED_BYTES
    for part in parts:
        left -= json_size(part)
        if left < 0:
            return
        yield part


def json_size(part: BaseModel) -> int:
    """Return the number of bytes of `part` as MCP sends it."""
    return len(part.model_dump_json(by_alias=True, exclude_none=True).encode())


_collector: ContextVar[AnswerParts | None] = ContextVar("answer_parts", default=None)


@contextmanager
def collected_parts() -> Iterator[AnswerParts]:
    """Yield the parts of the calls that are made meanwhile, also by tasks that are created here."""
    collector = AnswerParts()
    token = _collector.set(collector)
    try:
        yield collector
    finally:
        _collector.reset(token)


def media(block: ContentBlock) -> dict[str, str] | None:
    """Return an image, a sound or a file with its base64 and media type, in the form of LangChain; None for any other part."""
    if isinstance(block, ImageContent | AudioContent):
        return {"type": block.type, "base64": block.data, "mime_type": block.mime_type}
    resource = block.resource if isinstance(block, EmbeddedResource) else None
    if isinstance(resource, BlobResourceContents):
        return {"type": "file", "base64": resource.blob, "mime_type": resource.mime_type or "application/octet-stream"}
    return None


def report_parts(decision_id: str, sequence: int, blocks: Sequence[ContentBlock]) -> None:
    """Give the parts of an answer to the collector, if there is one."""
    if (collector := _collector.get()) is not None:
        collector.add(decision_id, sequence, blocks)
