"""Printing of one decision: its record, and the findings about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graph_agent.audit.findings import findings
from graph_agent.audit.trace import DecisionTrace
from graph_agent.cli.show import json_line, mark_imitations, print_receipts, print_text
from graph_agent.models.authors import TextAuthor, TextPart
from graph_agent.models.decision import AgentDecision
from graph_agent.models.record import DecisionRecord, EntryKind, OpenTurn, RecordEntry, RecordHeader, ToolInvocation
from graph_agent.reply.text import one_line, visible

_LABEL_WIDTH = 14
_AUTHOR_WIDTH = 8
_MAX_CHARS = 200


def print_record(record: DecisionRecord | OpenTurn) -> None:
    """Print message, decision, states, every model and tool call, receipts and timing."""
    closed = record if isinstance(record, DecisionRecord) else None
    authors = None if closed is None else closed.decision.authors
    _print_header(record.header, None if authors is None else authors.message)
    if closed is None:
        _row("status", "PENDING: the turn is running, or its process has died", "yellow")
    else:
        _print_outcome(closed)
    asked = [entry for entry in record.entries if entry.kind is EntryKind.MODEL]
    for number, entry in enumerate(asked, start=1):
        _print_model_call(number, entry)
    if closed is None:
        return
    for invocation in closed.invocations:
        _print_tool_call(invocation)
    for entry in closed.entries:
        if entry.kind is EntryKind.INTERRUPT:
            _row("ended by", str(entry.result["reason"]), "yellow")
    _print_texts(closed.decision)


def print_findings(trace: DecisionTrace) -> None:
    """Print the reasons for the decision's result, one sentence on each line."""
    for number, sentence in enumerate(findings(trace)):
        _row("" if number else "findings", shorten(sentence, 1000))


def shorten(value: Any, limit: int = _MAX_CHARS) -> str:
    """Return `value` on one line of at most `limit` characters: text unchanged, anything else as JSON."""
    text = value if isinstance(value, str) else json_line(value)
    return one_line(text, limit)


def _print_header(header: RecordHeader, author: TextAuthor | None) -> None:
    context = header.context
    _row("decision", header.decision_id, "bold")
    _row("conversation", f"{shorten(context.conversation_id)}, user {shorten(context.user_id)}")
    _row("started", f"{header.started_at:%Y-%m-%d %H:%M:%S} UTC")
    _row("model", f"{shorten(header.model)}, constitution {header.constitution[:12]}")
    if context.pending_confirmation is not None:
        pending = context.pending_confirmation
        _row("waiting", f"{shorten(pending.tool_name)} {shorten(pending.arguments)}")
    _row("message", context.message, author=author)


def _print_outcome(record: DecisionRecord) -> None:
    decision, usage = record.decision, record.usage
    tokens = f", {usage.total_tokens} tokens" if usage is not None else ""
    _row("type", f"{decision.decision_type.value}, {decision.outcome_category or 'no outcome'}", "bold")
    if decision.intent is not None:
        confidence = decision.intent.confidence
        declared = "" if confidence is None else f" ({confidence:g})"
        _row("intent", f"{decision.intent.intent_type.value}{declared}")
    rounds = f"{record.iterations} tool round{'' if record.iterations == 1 else 's'}"
    _row("status", f"{record.status.value} after {record.duration_ms} ms, {rounds}{tokens}")
    _row("states", " → ".join(record.states))


def _print_model_call(number: int, entry: RecordEntry) -> None:
    answer: dict[str, Any] = entry.result
    ended = shorten(answer.get("error") or answer.get("finish_reason"))
    by = f" by {shorten(answer['response_model'])}" if answer.get("response_model") else ""
    _row(f"model call {number}", f"{ended}{by}, {entry.ms} ms", "cyan")
    if answer.get("content"):
        _row("", shorten(answer["content"]))
    for call in answer.get("function_calls") or ():
        _row("", f"asks for {shorten(call['name'])} {shorten(call['arguments'])}")


def _print_tool_call(call: ToolInvocation) -> None:
    status = "ok" if call.success else call.error_code or "failed"
    ended = f"{call.disposition.value}, {status}, {call.duration_ms} ms"
    _row(f"tool call {call.sequence}", f"{shorten(call.tool_name)} {shorten(call.parameters)}: {ended}", "magenta")
    if call.error_message:
        _row("", shorten(call.error_message))
    if call.result is not None:
        _row("", shorten(call.result))


def _print_texts(decision: AgentDecision) -> None:
    """Print the reply, the receipts and the notices, each part behind its author."""
    authors = decision.authors
    if authors is None:
        _row("reply", mark_imitations(decision))
        print_receipts(decision)
        _row("", "author not recorded", "yellow")
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
            _row("" if number else label, text.strip("\n"), style, author)


def _row(label: str, text: str, style: str = "", author: TextAuthor | None = None) -> None:
    """Print a text behind its label and its author. Its further lines are indented, so that none looks like a row."""
    first, *others = visible(text).split("\n")
    by = "" if author is None else author.value.ljust(_AUTHOR_WIDTH)
    print_text((label.ljust(_LABEL_WIDTH), "dim"), (by, "bold"), (first, style))
    for line in others:
        print_text((" " * (_LABEL_WIDTH + len(by)) + line, style))
