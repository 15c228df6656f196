"""The agent service: `run_agent` takes a conversation as OpenAI-format messages and returns it with one more turn.

It stores nothing between calls. The engine provides graph, guard, record and confirmation. Like the API and the command line,
this package is an entry point, which opens its services through `bootstrap`.

    config.py         AgentConfiguration   the endpoint, the model and the limits of one answer
                      AgentLoopConfig      the limits of one turn
    prompt.py         SystemPrompt         the instructions for the model
    tool_binding.py   ToolBinding          a tool: its schema and the function that runs it
                      BoundTools           bindings as a tool server
    messages.py       History              the earlier messages
                      AgentResponse        the result
    run.py            run_agent
"""

from graph_agent.agent_service.config import AgentConfiguration, AgentLoopConfig, get_default_config
from graph_agent.agent_service.messages import AgentResponse
from graph_agent.agent_service.prompt import SystemPrompt
from graph_agent.agent_service.run import run_agent
from graph_agent.agent_service.tool_binding import ToolBinding, bind_mcp_tools
from graph_agent.bootstrap.agent_services import AgentServices, shared_services

__all__ = [
    "AgentConfiguration",
    "AgentLoopConfig",
    "AgentResponse",
    "AgentServices",
    "SystemPrompt",
    "ToolBinding",
    "bind_mcp_tools",
    "get_default_config",
    "run_agent",
    "shared_services",
]
