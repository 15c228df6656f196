"""The scopes of a bearer token for an MCP server. A request without a token, over stdio or on loopback, has both."""

READ_SCOPE = "read"
WRITE_SCOPE = "write"
