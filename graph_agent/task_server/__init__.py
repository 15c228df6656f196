"""The shipped MCP server: a task list with an operation ledger. The runtime reaches it only through MCP.

`server.build_task_server(database)` builds it after `migrate(database, "graph_agent.task_server")`; `serve` has the transports.
Import those modules only where they are needed: importing the MCP SDK takes more than a second.
"""
