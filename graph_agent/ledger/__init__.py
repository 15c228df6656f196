"""The operation ledger, for any MCP server whose changes must take effect exactly once.

    server.py      an MCP server whose tools run under the ledger: the module to start with
    operations.py  the ledger itself: `run` and `settle`, and its table, which must be in the database of the effects
    requests.py    the user and the operation of a request, and the result of a call
    contained.py   calls of the tools' functions, of which none ends the process
    signatures.py  the parameters of the tools' functions
    protocol.py    the keys of `_meta`, and the result as it is sent and stored

Only server.py and requests.py load the MCP SDK, and none of them loads LangGraph.
"""
