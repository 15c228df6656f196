"""The files that docs/architecture.md names run in the order in which it names them."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import httpx

import graph_agent
from graph_agent.api.app import create_app
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.testing import says
from tests.chat.environment import Environment
from tests.scripted_turns import calls

PACKAGE = Path(graph_agent.__file__).parent
PAGE = (PACKAGE.parent / "docs/architecture.md").read_text(encoding="utf-8")
NAMED = re.findall(r"^\d+\. `(\S+\.py)`", PAGE, re.MULTILINE)


async def test_the_named_files_run_in_this_order_from_the_route_to_the_closing_row(environment: Environment) -> None:
    model = ScriptedAdapter([says("Hello."), calls(("add_task", {"description": "call mom"})), says("Added.")])
    app = create_app(environment.runtime(model))
    first_run: dict[str, None] = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            first_run.setdefault(frame.f_code.co_filename)

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        # The first turn of a process compiles the graph, which runs files of its own.
        await client.post("/api/chat", json={"content": "hello"})
        sys.setprofile(note)
        try:
            answer = await client.post("/api/chat", json={"content": "add a task to call mom"})
        finally:
            sys.setprofile(None)
    assert answer.json()["decision"]["effects"] == ["Add task 'call mom'"]
    assert 5 <= len(NAMED) <= 10
    paths = [str(PACKAGE / name) for name in NAMED]
    assert [file for file in first_run if file in paths] == paths
