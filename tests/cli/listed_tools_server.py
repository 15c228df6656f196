"""An MCP server over stdio without an SDK: it lists the tools of a file, in pages, and answers each call with its arguments."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

PAGE = 50


def answer(tools: list[Any], method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        info = {"name": "listed", "version": "1"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        start = int(params.get("cursor") or 0)
        more = {"nextCursor": str(start + PAGE)} if start + PAGE < len(tools) else {}
        return {"tools": tools[start : start + PAGE], **more}
    return {"content": [{"type": "text", "text": json.dumps(params.get("arguments"))}]}


def main() -> None:
    tools = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("id") is None:
            continue
        result = answer(tools, message["method"], message.get("params") or {})
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)


if __name__ == "__main__":
    main()
