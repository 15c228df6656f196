"""The operation ledger for servers of your own. `tests/documentation/` runs docs/your_own_tools.md as it is printed."""

from __future__ import annotations

import json
import subprocess
import sys


def test_the_ledger_can_be_imported_without_the_runtime() -> None:
    program = "import json, sys, graph_agent.ledger.server; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(subprocess.run([sys.executable, "-c", program], text=True, capture_output=True, check=True).stdout)
    packages = {".".join(name.split(".")[:2]) for name in loaded if name.startswith("graph_agent.")}
    assert packages <= {f"graph_agent.{name}" for name in ("clock", "db", "errors", "ledger", "models", "net", "ports")}
    assert not {"langgraph", "fastapi", "openai", "google.genai"} & set(loaded)
