"""An MCP server over stdio that serves a list of tools from a file, in pages, and answers each call with one text.

    python played_server.py tools.json PAGE_SIZE

It imports no library, so that it starts at once.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def answer(request: dict[str, Any], tools: list[Any], page: int) -> dict[str, Any] | None:
    """Return the result of a request, or None for a method that the server does not have."""
    params = request.get("params") or {}
    match request["method"]:
        case "initialize":
            version = params.get("protocolVersion", "2025-06-18")
            return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "played", "version": "1"}}
        case "ping":
            return {}
        case "tools/list":
            start = int(params.get("cursor") or 0)
            more = {"nextCursor": str(start + page)} if start + page < len(tools) else {}
            return {"tools": tools[start : start + page], **more}
        case "tools/call":
            # It declares no output here: an answer that fits any schema of others cannot be made up.
            return {"content": [{"type": "text", "text": "done"}]}
    return None


def main() -> None:
    """Serve until the client closes the pipe."""
    tools = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request or "method" not in request:
            continue
        result = answer(request, tools, int(sys.argv[2]))
        said = {"result": result} if result is not None else {"error": {"code": -32601, "message": "no such method"}}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **said}), flush=True)


if __name__ == "__main__":
    main()
