"""A payment server over stdio that takes its key in `_meta`, and may exit before or after a payment instead of answering."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import Context, MCPServer

META_NAME = "com.example/idempotency-key"


def main(folder: Path) -> None:
    """Serve until the client disconnects.

    `folder/faults` has a line `before` or `after` for each of the next payments, `folder/payments` one for each that was made.
    """
    faults, payments = folder / "faults", folder / "payments"
    server = MCPServer("stdio", log_level="ERROR")

    @server.tool()
    def pay(amount: int, context: Context[Any, Any]) -> dict[str, Any]:
        """Pay an amount; the same key pays once."""
        meta: Any = context.request_context.meta
        key = meta[META_NAME]
        fault, *others = faults.read_text().splitlines() or [""]
        faults.write_text("\n".join(others))
        if fault == "before":
            os._exit(1)
        made = [json.loads(line) for line in payments.read_text().splitlines()]
        if [amount, key] not in made:
            with payments.open("a") as file:
                file.write(json.dumps([amount, key]) + "\n")
        if fault == "after":
            os._exit(1)
        return {"amount": amount}

    server.run()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
