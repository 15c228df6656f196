"""The client side of MCP: `executor.McpToolExecutor` is the runtime's `ToolServer`, and the only way to an effect.

Import that module where it is needed: the MCP SDK takes more than a second.
"""
