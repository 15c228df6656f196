"""How often the reply classifier is right: `python -m benchmarks.reply_kinds [replies.yaml]`.

Prints accuracy per kind and per part of the labelled file, the misses, and what one reply costs. Exit code 1 below 95 %.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from graph_agent.reply.plain_text import ReplyKind, classify_reply

LABELLED = Path(__file__).parent.parent / "tests" / "policy" / "replies.yaml"
LEAST_ACCURACY = 0.95


@dataclass(frozen=True, slots=True)
class Judged:
    """One labelled reply beside what the classifier made of it."""

    text: str
    kind: str
    reason: str | None
    part: str
    found: ReplyKind

    @property
    def right(self) -> bool:
        return self.found.kind == self.kind

    @property
    def right_reason(self) -> bool:
        return self.found.reason == self.reason


def judge(path: Path = LABELLED) -> list[Judged]:
    """Every reply of the labelled file `path`, classified."""
    rows = yaml.safe_load(path.read_text(encoding="utf-8"))
    return [
        Judged(row["text"], row["kind"], row.get("reason"), row.get("part", "all"), classify_reply(row["text"])) for row in rows
    ]


def accuracy(judged: Sequence[Judged]) -> float:
    """The share that has the right kind, 0 to 1."""
    return sum(reply.right for reply in judged) / len(judged)


def _table(title: str, judged: Iterable[Judged], key: str) -> None:
    groups: dict[str, list[Judged]] = defaultdict(list)
    for reply in judged:
        groups[getattr(reply, key)].append(reply)
    print(f"{title:<16}{'right':>8}{'of':>7}{'':>10}")
    for name, group in groups.items():
        print(f"  {name:<14}{sum(reply.right for reply in group):>8}{len(group):>7}{accuracy(group):>10.1%}")


def main(arguments: Sequence[str]) -> int:
    """Prints the tables; 0 where at least 95 % have the right kind."""
    path = Path(arguments[0]) if arguments else LABELLED
    judge(path)  # patterns are compiled when first used: not a cost of a reply
    started = time.perf_counter()
    judged = judge(path)
    took = time.perf_counter() - started
    _table("kind", judged, "kind")
    _table("part", judged, "part")
    asked = [reply for reply in judged if reply.kind == "clarification" and reply.right]
    for reply in judged:
        if not reply.right:
            print(f"MISS {reply.kind} read as {reply.found.kind}: {reply.text!r}")
    total = accuracy(judged)
    print(f"all: {total:.1%} of {len(judged)} replies; reasons: {sum(r.right_reason for r in asked)} of {len(asked)}")
    print(f"{took / len(judged) * 1000:.2f} ms a reply, reading the file included")
    return 0 if total >= LEAST_ACCURACY else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
