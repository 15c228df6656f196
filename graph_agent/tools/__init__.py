"""The client side of MCP. `executor.McpToolExecutor` implements `ToolServer`; every effect of the runtime passes through it.

Import that module only where it is needed: importing the MCP SDK takes more than a second.
"""
