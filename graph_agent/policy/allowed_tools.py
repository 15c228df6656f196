"""The whitelist of the shipped constitution, for callers that only want the names."""

from __future__ import annotations

from graph_agent.policy.constitution import Constitution

ALLOWED_TOOLS = frozenset(Constitution.load().whitelist)
