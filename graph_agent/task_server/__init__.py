"""The shipped MCP server: a task list with an operation ledger. The runtime reaches it only through MCP.

`server.build_task_server(database)` builds it after `migrate(database, "graph_agent.task_server")`; `bootstrap.tools_app`
serves it over HTTP.
Import that module only where it is needed: importing the MCP SDK takes more than a second.
"""
