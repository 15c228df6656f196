"""The declarations that an adapter knows if it is constructed without any: those of the shipped tools.

The adapter contract asks every adapter for declarations by name. This is the only module of the adapters that imports the task
server; turns take their declarations from the policy.
"""

from __future__ import annotations

from graph_agent.task_server.declarations import TASK_TOOLS as SHIPPED_TOOLS

__all__ = ["SHIPPED_TOOLS"]
