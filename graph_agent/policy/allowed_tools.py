"""The whitelist of the shipped constitution, for callers that only want the names."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from graph_agent.policy.constitution import Constitution

if TYPE_CHECKING:
    ALLOWED_TOOLS: frozenset[str]


@cache
def _shipped_whitelist() -> frozenset[str]:
    return frozenset(Constitution.load().whitelist)


def __getattr__(name: str) -> frozenset[str]:
    """Read the constitution when `ALLOWED_TOOLS` is first used, not when this module is imported."""
    if name == "ALLOWED_TOOLS":
        return _shipped_whitelist()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
