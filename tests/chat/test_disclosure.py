"""The line that says that one talks to an AI system."""

from __future__ import annotations

import pytest

from graph_agent.bootstrap.runtime import open_runtime
from graph_agent.bootstrap.stores import temporary_settings
from graph_agent.settings import read_settings

NAME = "GRAPH_AGENT_DISCLOSURE"
DEFAULT = "You are talking to an AI system."


@pytest.mark.parametrize(
    ("environment", "line"),
    [({}, DEFAULT), ({NAME: "A program answers."}, "A program answers."), ({NAME: "off"}, None)],
)
async def test_the_first_answer_of_a_conversation_says_that_an_ai_answers(
    environment: dict[str, str], line: str | None
) -> None:
    async with open_runtime(temporary_settings(read_settings(environment)), model="embedded") as runtime:
        first = await runtime.chat.send("ann", "hi", idem_key="1")
        again = await runtime.chat.send("ann", "hi", idem_key="1")
        second = await runtime.chat.send("ann", "hi", conversation_id=first.conversation_id)
    assert (first.disclosure, again.disclosure, second.disclosure) == (line, line, None)
    assert first.reply_json().get("disclosure") == line
    assert "disclosure" not in second.reply_json()
