"""Public MCP servers, their tools asked for at run time: what is written for them is accepted by what is checked."""
