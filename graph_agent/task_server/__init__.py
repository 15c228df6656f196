"""The shipped MCP server: a task list, with an operation ledger. A stranger to the runtime, which meets it only through MCP.

`server.build_task_server(database)` makes it, after `migrate(database, "graph_agent.task_server")`; `serve` has the transports.
Import those modules where they are needed: the MCP SDK takes more than a second.
"""
