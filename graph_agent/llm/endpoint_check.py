"""The check of an endpoint: whether a model there can do what a turn needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from graph_agent.errors import LLMError
from graph_agent.llm.adapter_call import failed_response
from graph_agent.llm.prompt_size import missing_declarations
from graph_agent.llm.provider_adapter import ProviderAdapter
from graph_agent.llm.wire import OPENAI_NAME
from graph_agent.llm.written_calls import written_calls
from graph_agent.models.llm import LLMMessage, LLMRequest, LLMResponse, ToolDeclaration
from graph_agent.reply.causes import cause_of
from graph_agent.reply.forms import ANSWER, REPLY_FORM_DECLARATIONS

_TEMPLATE: Final = (
    "start the server with the template for tools of this model (llama.cpp: `--jinja` and, if the model has none of its own, "
    "`--chat-template-file`), or use another server, or a model that is trained to call tools"
)


async def check_endpoint(adapter: ProviderAdapter, instruction: str | None, tools: Sequence[ToolDeclaration]) -> str:
    """Send what a turn sends, with the system prompt and the declarations of all `tools`; return what works in a few words.

    A model that answers a greeting with text is asked to call one function. Raises `LLMError` with the cause and the remedy,
    for the operator, if the endpoint does not answer or its model cannot call tools.
    """
    declared = [*tools, *REPLY_FORM_DECLARATIONS]
    request = LLMRequest(system_instruction=instruction, messages=[], tools=declared, tool_choice="required")
    first = await _ask(adapter, request, "Hello!")
    size = _size(first, request)
    left_out = "".join(f"; not offered to the model: {name} ({why})" for name, why in adapter.unsendable(tools).items())
    if _calls_declared(first, request) and not adapter.refuses_requirement:
        return f"works: calls come back as calls{size}{left_out}"
    name = _easiest(tools)
    last = first if _calls_declared(first, request) else await _ask(adapter, request, f"Call the function {name} now.")
    if _calls_declared(last, request):
        how = "refuses" if adapter.refuses_requirement else "ignores"
        return f"works, but the server {how} the requirement of a call: the model may answer without a tool{size}{left_out}"
    raise LLMError(f"cannot work: {_reason(first, last, request, name)}")


async def _ask(adapter: ProviderAdapter, request: LLMRequest, message: str) -> LLMResponse:
    try:
        return await adapter.respond(request.model_copy(update={"messages": [LLMMessage(role="user", content=message)]}))
    except LLMError as error:
        details = await adapter.details(error)
        cause = str(cause_of(failed_response(error)))
        raise LLMError(f"{cause} ({details})" if details else cause, error.code, cause=error.cause) from error


def _calls_declared(response: LLMResponse, request: LLMRequest) -> bool:
    names = {tool.name for tool in request.tools}
    return any(call.name in names for call in response.function_calls or [])


def _easiest(tools: Sequence[ToolDeclaration]) -> str:
    """Return the name of a tool that can be called without arguments; that of a reply form if there is none."""
    fitting = (tool.name for tool in tools if OPENAI_NAME.fullmatch(tool.name) and not tool.parameters.get("required"))
    return next(fitting, ANSWER)


def _size(response: LLMResponse, request: LLMRequest) -> str:
    if response.usage is None or not response.usage.prompt_tokens:
        return ""
    return f"; the constitution and {len(request.tools)} functions take {response.usage.prompt_tokens:,} tokens"


def _reason(first: LLMResponse, last: LLMResponse, request: LLMRequest, name: str) -> str:
    """Return why the model did not call a function, with the remedy."""
    for response in (first, last):
        if written_calls(response.content or "", [tool.name for tool in request.tools]):
            return f"the model writes its calls as text; {_TEMPLATE}"
    if (tokens := missing_declarations(request, first)) is not None:
        size = f"{tokens:,} prompt tokens for the constitution and {len(request.tools)} functions"
        return f"the declarations of the tools do not reach the model ({size}); {_TEMPLATE}, or give it a larger context"
    return f"the model was asked to call {name} and answered with text; {_TEMPLATE}"
