"""The runtime inside applications of LangGraph and LangChain: `pip install 'graph-agent[langchain]'`.

as_node(engine)             a node over `messages` for a graph of your own
GovernedTools(engine)       middleware for `create_agent`: the agent stays yours, its calls are judged and recorded
ChatModelAdapter(model)     any chat model of LangChain as the model of an engine
LangChainTools(*tools)      any tools of LangChain as the tools of an engine
"""

try:
    from graph_agent.integrations.langchain.chat_model import ChatModelAdapter
    from graph_agent.integrations.langchain.middleware import GovernedTools
    from graph_agent.integrations.langchain.tools import LangChainTools
    from graph_agent.integrations.langchain.turns import as_node
except ModuleNotFoundError as exc:
    if (exc.name or "").partition(".")[0] != "langchain":
        raise
    raise ModuleNotFoundError(
        "graph_agent.integrations.langchain needs an extra: pip install 'graph-agent[langchain]'", name=exc.name
    ) from exc

__all__ = ["ChatModelAdapter", "GovernedTools", "LangChainTools", "as_node"]
