"""The values of a call that people are asked about: by them a change before the answer is noticed."""

from __future__ import annotations

from typing import Any

from graph_agent.models.canonical import digest
from graph_agent.words.said import Known
from graph_agent.words.values import MAX_SHOWN


def digest_of_call(arguments: dict[str, Any], known: Known) -> str:
    """Return the SHA-256 of the values of a call: its arguments, and everything that was read about it.

    Values and not words are compared: two values may be said alike.
    """
    return digest([arguments, *known.values])


def unshown_text(known: Known) -> str:
    """Return the whole text of the preview if a question shows only a part of it; else an empty one."""
    text = known.text_of_object or ""
    return text if len(text) > MAX_SHOWN else ""
