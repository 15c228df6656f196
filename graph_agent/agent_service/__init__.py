"""The agent service: `run_agent` takes a whole conversation as OpenAI-format messages and gives it back one turn longer.

It keeps nothing between calls. Graph, guard, record and confirmation are the engine's own: this package says what a turn is
given, and how its end is told.

    config.py         AgentConfiguration        where the model is, and how it answers
    prompt.py         SystemPrompt              what the model reads
    loop_config.py    AgentLoopConfig           how long it may go on
    tool_binding.py   ToolBinding               a tool with its schema and what runs it
    bound_tools.py    BoundTools                bindings as a tool server
    history.py        History                   what was said before
    response.py       AgentResponse             what came of it
    surroundings.py   Surroundings              databases, keys and tools, open while a call needs them
    run.py            run_agent
"""

from graph_agent.agent_service.config import AgentConfiguration, get_default_config
from graph_agent.agent_service.loop_config import AgentLoopConfig
from graph_agent.agent_service.prompt import SystemPrompt
from graph_agent.agent_service.response import AgentResponse
from graph_agent.agent_service.run import run_agent
from graph_agent.agent_service.surroundings import Surroundings, kept_open
from graph_agent.agent_service.tool_binding import ToolBinding, bind_mcp_tools

__all__ = [
    "AgentConfiguration",
    "AgentLoopConfig",
    "AgentResponse",
    "Surroundings",
    "SystemPrompt",
    "ToolBinding",
    "bind_mcp_tools",
    "get_default_config",
    "kept_open",
    "run_agent",
]
