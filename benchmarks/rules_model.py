"""Measure the embedded model on labelled sentences, requests and dialogues.

    python -m benchmarks.rules_model [--failures] [SET ...]

The recorded sentences are measured if `GRAPH_AGENT_RECORDED` names their folder.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from tests.llm.rules_model.scoring import measure


def main(arguments: list[str]) -> None:
    folder = os.environ.get("GRAPH_AGENT_RECORDED")
    recorded = Path(folder) / "utterances.jsonl" if folder else None
    for score in asyncio.run(measure([name for name in arguments if name != "--failures"], recorded)):
        print(score)
        if "--failures" in arguments:
            for failure in score.failures:
                print(f"    {failure!r}")


if __name__ == "__main__":
    main(sys.argv[1:])
