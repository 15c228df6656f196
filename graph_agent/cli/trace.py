"""One decision from its record, for people to read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from graph_agent.cli.show import json_line, plain, print_receipts

if TYPE_CHECKING:
    from rich.console import Console

    from graph_agent.audit.trace import DecisionTrace
    from graph_agent.models.record import DecisionRecord, OpenTurn, RecordEntry, RecordHeader, ToolInvocation

_LABEL = 14
_LONG = 200


def print_record(console: Console, record: DecisionRecord | OpenTurn) -> None:
    """Message, decision, states, every model and tool call, receipts and timing."""
    from graph_agent.models.record import DecisionRecord, EntryKind

    _print_header(console, record.header)
    closed = record if isinstance(record, DecisionRecord) else None
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
    _row(console, "reply", closed.decision.reply)
    print_receipts(console, closed.decision.effects)


def print_findings(console: Console, trace: DecisionTrace) -> None:
    """Why the decision came out as it did, in sentences."""
    from graph_agent.audit.findings import findings

    for number, sentence in enumerate(findings(trace)):
        _row(console, "" if number else "findings", shortened(sentence, 1000))


def shortened(value: Any, limit: int = _LONG) -> str:
    """`value` on one line of at most `limit` characters: text as it is, anything else as JSON."""
    text = value if isinstance(value, str) else json_line(value)
    text = " ".join(plain(text).split())
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def _print_header(console: Console, header: RecordHeader) -> None:
    context = header.context
    _row(console, "decision", header.decision_id, "bold")
    _row(console, "conversation", f"{shortened(context.conversation_id)}, user {shortened(context.user_id)}")
    _row(console, "started", f"{header.started_at:%Y-%m-%d %H:%M:%S} UTC")
    _row(console, "model", f"{shortened(header.model)}, constitution {header.constitution[:12]}")
    if context.pending_confirmation is not None:
        pending = context.pending_confirmation
        _row(console, "waiting", f"{shortened(pending.tool_name)} {shortened(pending.arguments)}")
    _row(console, "message", context.message)


def _print_outcome(console: Console, record: DecisionRecord) -> None:
    decision, usage = record.decision, record.usage
    tokens = f", {usage.total_tokens} tokens" if usage is not None else ""
    _row(console, "type", f"{decision.decision_type.value}, {decision.outcome_category or 'no outcome'}", "bold")
    if decision.intent is not None:
        _row(console, "intent", f"{decision.intent.intent_type.value} ({decision.intent.confidence:g})")
    _row(console, "status", f"{record.status.value} after {record.duration_ms} ms, {record.iterations} tool rounds{tokens}")
    _row(console, "states", " → ".join(record.states))


def _print_model_call(console: Console, number: int, entry: RecordEntry) -> None:
    answer: dict[str, Any] = entry.result
    _row(console, f"model call {number}", f"{answer.get('error') or answer.get('finish_reason')}, {entry.ms} ms", "cyan")
    if answer.get("content"):
        _row(console, "", shortened(answer["content"]))
    for call in answer.get("function_calls") or ():
        _row(console, "", f"asks for {shortened(call['name'])} {shortened(call['arguments'])}")


def _print_tool_call(console: Console, call: ToolInvocation) -> None:
    done = "ok" if call.success else call.error_code or "failed"
    _row(
        console,
        f"tool call {call.sequence}",
        f"{shortened(call.tool_name)} {shortened(call.parameters)}: {call.disposition.value}, {done}, {call.duration_ms} ms",
        "magenta",
    )
    if call.error_message:
        _row(console, "", shortened(call.error_message))
    elif call.result is not None:
        _row(console, "", shortened(call.result))


def _row(console: Console, label: str, text: str, style: str = "") -> None:
    first, *others = plain(text).split("\n")
    console.print(Text.assemble((label.ljust(_LABEL), "dim"), (first, style)))
    for line in others:
        console.print(Text(" " * _LABEL + line, style=style))
