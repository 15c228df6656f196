"""An MCP server before other MCP servers: their tools, judged, confirmed, sent once and recorded for any MCP client."""
