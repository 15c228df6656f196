"""How answers look: the model's words, and beside them what was really done."""

from __future__ import annotations

import json
import sys
import unicodedata
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graph_agent.chat.service import ChatAnswer
    from graph_agent.models.decision import AgentDecision

_JOINERS = "\u200c\u200d"
"""Format characters that emoji and scripts need; the others could turn a line around or hide it."""


def out() -> Console:
    """Stdout. Colour only on a terminal and without NO_COLOR; nothing is wrapped or read as markup."""
    return Console(highlight=False, markup=False, emoji=False, soft_wrap=True)


def plain(text: str) -> str:
    """`text` without what could steer a terminal: control and format characters, but line breaks and tabs."""
    return "".join(
        character
        for character in text
        if character in "\n\t" or character in _JOINERS or unicodedata.category(character) not in ("Cc", "Cf", "Cs")
    )


def json_line(value: Any) -> str:
    """`value` as one line of JSON, in ASCII where stdout can show no more."""
    return json.dumps(value, ensure_ascii=(sys.stdout.encoding or "").lower().replace("-", "") != "utf8")


def answer_object(answer: ChatAnswer) -> dict[str, Any]:
    """What `ask --json` prints."""
    return {
        "decision": answer.decision.model_dump(mode="json"),
        "states": list(answer.states),
        "conversation_id": answer.conversation_id,
        "decision_id": answer.decision_id,
        "reply": answer.reply,
    }


def print_answer(console: Console, decision: AgentDecision) -> None:
    """The reply and the receipts below it; a question that waits for yes or no stands out."""
    style = "bold yellow" if decision.pending_action is not None else ""
    console.print(Text(plain(decision.reply), style=style))
    print_receipts(console, decision.effects)


def print_receipts(console: Console, receipts: Sequence[str]) -> None:
    for receipt in receipts:
        console.print(Text(f"  ✓ {plain(receipt)}", style="green"))
