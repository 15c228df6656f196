"""Chat models and tools of LangChain as the model and the tools of an engine."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import StructuredTool, ToolException, tool
from langchain_core.tracers.context import collect_runs

from graph_agent.errors import ConfigurationError, LLMError, ToolErrorCode, ToolRefusal
from graph_agent.integrations.langchain import ChatModelAdapter, LangChainTools, as_node
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.decision import DecisionContext, OutcomeCategory
from graph_agent.models.llm import LLMErrorCode, LLMMessage, LLMRequest
from graph_agent.task_server.declarations import TASK_TOOLS
from graph_agent.testing import says
from graph_agent.turn.engine import LLMAgentEngine
from tests import fork_server
from tests.integrations.langchain.chat_model import THREAD, ScriptedChatModel, graph_with, requests, said
from tests.scripted_turns import TableServer, asks, calls

CONSTITUTION = """You keep notes.

## Available Tools
- write_note: Write note
- count_notes: Count notes (reads)
"""


class StatusError(Exception):
    """An exception of a provider's SDK."""

    def __init__(self, status_code: int) -> None:
        super().__init__("the secret key abc is wrong")
        self.status_code = status_code


def request() -> LLMRequest:
    return LLMRequest(messages=[LLMMessage(role="user", content="hi")], tools=list(TASK_TOOLS))


async def test_a_turn_with_a_chat_model_sends_back_what_the_model_sent() -> None:
    signed = requests(("add_task", {"description": "call mom"}))
    signed.additional_kwargs["signature"] = "c2lnbmVk"
    signed.usage_metadata = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}
    model = ScriptedChatModel(script=[signed, requests(("answer", {"text": "Added.", "reports_change": True}))])
    engine = LLMAgentEngine(ChatModelAdapter(model), TableServer(), "You.\n\n## Available Tools\n- add_task: Add task\n")
    finished = await engine.run(asks())
    assert finished.decision.reply == "Added."
    assert (finished.record.header.model, finished.record.usage and finished.record.usage.total_tokens) == (
        "ScriptedChatModel",
        10,
    )
    system, user, called, answer = model.asked[1]
    assert (type(system), type(user), type(called), type(answer)) == (SystemMessage, HumanMessage, AIMessage, ToolMessage)
    assert called.additional_kwargs == {"signature": "c2lnbmVk"}
    assert isinstance(answer, ToolMessage)
    assert answer.tool_call_id == "id1"
    assert model.bound[0]["tool_choice"] == "any"


@pytest.mark.parametrize(
    ("step", "code"),
    [
        (StatusError(429), LLMErrorCode.RATE_LIMITED),
        (StatusError(401), LLMErrorCode.UNAVAILABLE),
        (TimeoutError("late"), LLMErrorCode.TIMEOUT),
        (AIMessage(""), LLMErrorCode.INVALID_RESPONSE),
        (
            AIMessage("", invalid_tool_calls=[{"name": "a", "args": "{", "id": "1", "error": "bad"}]),
            LLMErrorCode.INVALID_RESPONSE,
        ),
        (AIMessage("no", response_metadata={"finish_reason": "SAFETY"}), LLMErrorCode.BLOCKED),
    ],
)
async def test_a_failure_of_a_chat_model_is_an_error_of_ours_without_its_text(step: Any, code: LLMErrorCode) -> None:
    with pytest.raises(LLMError) as failed:
        await ChatModelAdapter(ScriptedChatModel(script=[step])).respond(request())
    assert (failed.value.code, "abc" in str(failed.value)) == (code, False)


async def test_a_truncated_message_is_marked_and_a_defect_is_raised() -> None:
    cut = AIMessage("a long", response_metadata={"finish_reason": "length"})
    adapter = ChatModelAdapter(ScriptedChatModel(script=[cut, KeyError("a defect")]))
    assert (await adapter.respond(request())).finish_reason == "max_tokens"
    with pytest.raises(KeyError):
        await adapter.respond(request())


def test_a_model_that_cannot_call_tools_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="FakeListChatModel cannot call tools"):
        ChatModelAdapter(FakeListChatModel(responses=["hi"]))


def notes(*more: Any) -> tuple[LangChainTools, list[tuple[str, str]]]:
    written: list[tuple[str, str]] = []

    @tool
    def write_note(text: str, config: RunnableConfig) -> dict[str, int]:
        """Write a note."""
        written.append((config["configurable"]["user_id"], text))
        return {"count": len(written)}

    @tool
    async def count_notes() -> int:
        """Count the notes."""
        return len(written)

    return LangChainTools(write_note, count_notes, *more), written


async def test_tools_of_langchain_are_judged_by_their_schemas_and_know_the_user() -> None:
    tools, written = notes()
    script = [
        calls(("write_note", {"text": "buy milk"}), ("write_note", {"note": "no"}), ("count_notes", {})),
        says("Written."),
    ]
    engine = LLMAgentEngine(ScriptedAdapter(script), tools, CONSTITUTION)
    finished = await engine.run(DecisionContext(user_id="ann", message="note: buy milk", conversation_id="c1"))
    assert written == [("ann", "buy milk")]
    assert [(made.disposition, made.result) for made in finished.record.invocations] == [
        ("executed", {"count": 1}),
        ("refused", None),
        ("executed", {"result": "1"}),
    ]
    (write, _) = tools.declarations()
    assert (write.name, write.description, list(write.parameters["properties"])) == ("write_note", "Write a note.", ["text"])


async def test_a_tool_that_fails_is_a_failed_read_or_a_change_with_an_unknown_outcome() -> None:
    def breaks() -> None:
        raise ToolException("the secret")

    tools = LangChainTools(
        StructuredTool.from_function(breaks, name="raises", description="d"),
        StructuredTool.from_function(breaks, name="handled", description="d", handle_tool_error=True),
    )
    for name in ("raises", "handled"):
        read = await tools.execute(name, {}, "ann")
        change = await tools.execute(name, {}, "ann", operation_key="k")
        assert (read.error_code, change.unknown) == (ToolErrorCode.TOOL_EXECUTION_ERROR, True)
        assert "secret" not in f"{read.error}{change.error}"
    assert (await tools.execute("other", {}, "ann")).error_code is ToolErrorCode.TOOL_NOT_FOUND


async def test_a_tool_of_langchain_refuses_in_its_own_words() -> None:
    def order() -> None:
        raise ToolRefusal("Only 10 of bolt are in stock.")

    tools = LangChainTools(StructuredTool.from_function(order, name="order", description="d"))
    refused = await tools.execute("order", {}, "ann", operation_key="k")
    assert (refused.error, refused.error_code) == ("Only 10 of bolt are in stock.", ToolErrorCode.TOOL_REFUSED)


class Names(BaseCallbackHandler):
    def __init__(self) -> None:
        self.names: list[str] = []

    def on_chat_model_start(self, serialized: Any, messages: Any, **more: Any) -> None:  # noqa: ARG002 (LangChain's signature)
        self.names.append(more["name"])

    def on_tool_start(self, serialized: Any, input_str: str, **_: Any) -> None:  # noqa: ARG002 (LangChain's signature)
        self.names.append(serialized["name"])


async def test_each_call_is_reported_once_inside_a_node_and_outside() -> None:
    def engine() -> LLMAgentEngine:
        model = ScriptedChatModel(script=[requests(("count_notes", {})), AIMessage("None.")])
        return LLMAgentEngine(ChatModelAdapter(model), notes()[0], CONSTITUTION)

    inside = Names()
    await graph_with(as_node(engine())).ainvoke(said("count"), {**THREAD, "callbacks": [inside]})
    assert inside.names == ["ScriptedChatModel", "count_notes", "ScriptedChatModel"]

    with collect_runs() as outside:
        assert (await engine().run(asks())).decision.outcome_category is OutcomeCategory.TASK_COMPLETED
    names = {run.name for root in outside.traced_runs for run in (root, *root.child_runs)}
    assert names == {"LangGraph", "ScriptedChatModel", "count_notes"}


def test_without_the_extra_the_import_names_it() -> None:
    program = (
        "import sys; sys.modules['langchain.agents.middleware'] = sys.modules['langchain'] = None; "
        "import graph_agent.integrations.langchain"
    )
    ended = subprocess.run([fork_server.python(), "-c", program], capture_output=True, text=True, check=False)
    assert "pip install 'graph-agent[langchain]'" in ended.stderr.splitlines()[-1]
