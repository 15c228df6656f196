"""A process of the runtime that pays once: `python -m tests.chat.paying_process HOME URL KIND AMOUNT`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.testing import says
from graph_agent.tools.server_file import ServerConfig
from graph_agent.tools.server_group import McpServerGroup
from graph_agent.tools.transport import HttpServer
from tests.chat.environment import open_environment
from tests.chat.payment_servers import Kind
from tests.chat.payment_shop import COMPLETE, LINES, constitution_of
from tests.scripted_turns import calls


def engine_settings(url: str, kind: Kind, amount: int) -> dict[str, Any]:
    """Return the settings of an engine that pays this amount; the caller closes its `tools`."""
    lines = COMPLETE if kind == "listed" else LINES[kind]
    reference = {"reference": f"order {amount}"} if kind == "listed" else {}
    script = [calls((f"{kind}.pay", {"amount": amount, **reference})), says("See above.")]
    config = ServerConfig(kind, HttpServer(url), prefixed=True, timeout=60, start_timeout=60)
    return {
        "model": ScriptedAdapter(script),
        "tools": McpServerGroup([config], granted=[line.partition(":")[0] for line in lines]),
        "constitution": constitution_of(lines),
        "timeout_seconds": 60,
    }


async def main(home: Path, url: str, kind: Kind, amount: int) -> None:
    """Pay in a turn."""
    async with open_environment(home, None) as environment:
        settings = engine_settings(url, kind, amount)
        await environment.chat(**settings).send(f"user{amount}", "pay", idem_key="k")


if __name__ == "__main__":
    home, url, kind, amount = sys.argv[1:]
    asyncio.run(main(Path(home), url, kind, int(amount)))  # type: ignore[arg-type]  # the caller passes a kind
