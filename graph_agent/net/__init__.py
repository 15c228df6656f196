"""The network: addresses that no URL may lead to, bearer tokens, MCP servers over HTTP, and a throttle for the event loop."""
