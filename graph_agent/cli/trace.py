"""Printing of one decision: its record, and the findings about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from graph_agent.audit.findings import findings
from graph_agent.audit.trace import DecisionTrace
from graph_agent.cli.show import json_line, mark_imitations, print_receipts
from graph_agent.models.authors import TextAuthor, TextPart
from graph_agent.models.decision import AgentDecision
from graph_agent.models.record import DecisionRecord, EntryKind, OpenTurn, RecordEntry, RecordHeader, ToolInvocation
from graph_agent.reply.text import one_line, visible

_LABEL_WIDTH = 14
_AUTHOR_WIDTH = 8
_MAX_CHARS = 200


def print_record(console: Console, record: DecisionRecord | OpenTurn) -> None:
    """Print message, decision, states, every model and tool call, receipts and timing."""
    closed = record if isinstance(record, DecisionRecord) else None
    authors = None if closed is None else closed.decision.authors
    _print_header(console, record.header, None if authors is None else authors.message)
    if closed is None:
        _row(console, "status", "PENDING: the turn is running, or its process has died", "yellow")
    else:
        _print_outcome(console, closed)
    asked = [entry for entry in record.entries if entry.kind is EntryKind.MODEL]
    for number, entry in enumerate(asked, start=1):
        _print_model_call(console, number, entry)
    if closed is None:
        return
    for invocation in closed.invocations:
        _print_tool_call(console, invocation)
    for entry in closed.entries:
        if entry.kind is EntryKind.INTERRUPT:
            _row(console, "ended by", str(entry.result["reason"]), "yellow")
    _print_texts(console, closed.decision)


def print_findings(console: Console, trace: DecisionTrace) -> None:
    """Print the reasons for the decision's result, one sentence on each line."""
    for number, sentence in enumerate(findings(trace)):
        _row(console, "" if number else "findings", shorten(sentence, 1000))


def shorten(value: Any, limit: int = _MAX_CHARS) -> str:
    """Return `value` on one line of at most `limit` characters: text unchanged, anything else as JSON."""
    text = value if isinstance(value, str) else json_line(value)
    return one_line(text, limit)


def _print_header(console: Console, header: RecordHeader, author: TextAuthor | None) -> None:
    context = header.context
    _row(console, "decision", header.decision_id, "bold")
    _row(console, "conversation", f"{shorten(context.conversation_id)}, user {shorten(context.user_id)}")
    _row(console, "started", f"{header.started_at:%Y-%m-%d %H:%M:%S} UTC")
    _row(console, "model", f"{shorten(header.model)}, constitution {header.constitution[:12]}")
    if context.pending_confirmation is not None:
        pending = context.pending_confirmation
        _row(console, "waiting", f"{shorten(pending.tool_name)} {shorten(pending.arguments)}")
    _row(console, "message", context.message, author=author)


def _print_outcome(console: Console, record: DecisionRecord) -> None:
    decision, usage = record.decision, record.usage
    tokens = f", {usage.total_tokens} tokens" if usage is not None else ""
    _row(console, "type", f"{decision.decision_type.value}, {decision.outcome_category or 'no outcome'}", "bold")
    if decision.intent is not None:
        confidence = decision.intent.confidence
        declared = "" if confidence is None else f" ({confidence:g})"
        _row(console, "intent", f"{decision.intent.intent_type.value}{declared}")
    rounds = f"{record.iterations} tool round{'' if record.iterations == 1 else 's'}"
    _row(console, "status", f"{record.status.value} after {record.duration_ms} ms, {rounds}{tokens}")
    _row(console, "states", " → ".join(record.states))


def _print_model_call(console: Console, number: int, entry: RecordEntry) -> None:
    answer: dict[str, Any] = entry.result
    ended = shorten(answer.get("error") or answer.get("finish_reason"))
    by = f" by {shorten(answer['response_model'])}" if answer.get("response_model") else ""
    _row(console, f"model call {number}", f"{ended}{by}, {entry.ms} ms", "cyan")
    if answer.get("content"):
        _row(console, "", shorten(answer["content"]))
    for call in answer.get("function_calls") or ():
        _row(console, "", f"asks for {shorten(call['name'])} {shorten(call['arguments'])}")


def _print_tool_call(console: Console, call: ToolInvocation) -> None:
    status = "ok" if call.success else call.error_code or "failed"
    _row(
        console,
        f"tool call {call.sequence}",
        f"{shorten(call.tool_name)} {shorten(call.parameters)}: {call.disposition.value}, {status}, {call.duration_ms} ms",
        "magenta",
    )
    if call.error_message:
        _row(console, "", shorten(call.error_message))
    if call.result is not None:
        _row(console, "", shorten(call.result))


def _print_texts(console: Console, decision: AgentDecision) -> None:
    """Print the reply, the receipts and the notices, each part behind its author."""
    authors = decision.authors
    if authors is None:
        _row(console, "reply", mark_imitations(decision))
        print_receipts(console, decision)
        _row(console, "", "author not recorded", "yellow")
        return
    texts: list[tuple[str, Sequence[TextPart], str]] = [("reply", authors.reply, "")]
    texts += [("receipt", receipt, "green") for receipt in authors.effects]
    texts += [("notice", notice, "yellow") for notice in authors.notices]
    for label, parts, style in texts:
        rows: list[tuple[TextAuthor, str]] = []
        for part in parts:
            if rows and part.author is TextAuthor.CODE and not any(map(str.isalnum, part.text)):
                # The full stop of a sentence that another author has written.
                rows[-1] = (rows[-1][0], rows[-1][1] + part.text)
            else:
                rows.append((part.author, part.text))
        for number, (author, text) in enumerate(rows):
            _row(console, "" if number else label, text.strip("\n"), style, author)


def _row(console: Console, label: str, text: str, style: str = "", author: TextAuthor | None = None) -> None:
    """Print a text behind its label and its author. Its further lines are indented, so that none looks like a row."""
    first, *others = visible(text).split("\n")
    by = "" if author is None else author.value.ljust(_AUTHOR_WIDTH)
    console.print(Text.assemble((label.ljust(_LABEL_WIDTH), "dim"), (by, "bold"), (first, style)))
    for line in others:
        console.print(Text(" " * (_LABEL_WIDTH + len(by)) + line, style=style))
