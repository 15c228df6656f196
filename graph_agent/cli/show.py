"""Printing: text that cannot control a terminal, and answers with the receipts of committed changes below them.

Everything that a command prints may come from a model, a user, a third-party server or a database that others can write to.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from graph_agent.models.decision import AgentDecision, PendingAction
from graph_agent.policy.confirmation import list_arguments
from graph_agent.reply.fixed import QUESTION_END
from graph_agent.reply.text import quoted, visible

_NO_LIMIT = 10_000_000
"""More characters than an action can have."""
_IMITATION = re.compile(r"(?:\s|‹U\+[^›]*›)*[✓✔☑✅🗸🗹√⍻ꪜ!！﹗ǃ❗❕‼]")
"""A line that begins, behind spaces and hidden characters, with the sign of a receipt or a notice or one that looks like it."""


class SafeConsole(Console):
    """A console that shows hidden characters, in everything it prints, as `‹U+202E›`."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


def stdout_console() -> Console:
    """Return a console on stdout: color only on a terminal and without NO_COLOR, no wrapping, no markup."""
    return SafeConsole(highlight=False, markup=False, emoji=False, soft_wrap=True)


def print_text(*parts: str | tuple[str, str]) -> None:
    """Print a text on stdout. Each of its parts may have a style."""
    stdout_console().print(Text.assemble(*parts))


def json_line(value: Any) -> str:
    """Return `value` as one line of JSON, in ASCII unless stdout is UTF-8, without hidden characters."""
    return escape_json(json.dumps(value, ensure_ascii=(sys.stdout.encoding or "").lower().replace("-", "") != "utf8"))


def escape_json(text: str) -> str:
    """Return a JSON text with its hidden characters escaped, as in `\\u202e`, so that it has the same value."""
    return visible(text, lambda run: json.dumps(run)[1:-1].replace("\x7f", "\\u007f"))


def mark_imitations(decision: AgentDecision) -> str:
    """Return the reply with every line marked that could be taken for a receipt, a notice or a question that is not asked."""
    asked = decision.pending_action is not None
    return "\n".join(
        f"(model) {line}" if _IMITATION.match(line) or (QUESTION_END in line and not asked) else line
        for line in visible(decision.reply).split("\n")
    )


def whole_action(pending: PendingAction) -> str:
    """Return all of an action that waits, also what its question shortens: the object, then one argument on each line."""
    title = pending.object_text or pending.description.partition("\n")[0]
    return "\n".join([quoted(title, _NO_LIMIT), *list_arguments(pending.arguments, _NO_LIMIT)])


def print_answer(decision: AgentDecision) -> None:
    """Print the reply, highlighted if it asks for a confirmation, and below it the receipts and notices."""
    print_text((mark_imitations(decision), "bold yellow" if decision.pending_action is not None else ""))
    print_receipts(decision)


def print_receipts(decision: AgentDecision) -> None:
    """Print one line for each committed change, and one for each notice."""
    for receipt in decision.effects:
        print_text((f"  ✓ {visible(receipt)}", "green"))
    for notice in decision.notices:
        print_text((f"  ! {visible(notice)}", "yellow"))
