"""Printing: text that cannot control a terminal, answers with the receipts of committed changes below them, and records.

Everything that a command prints may come from a model, a user, a third-party server or a database that others can write to.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from graph_agent.audit.findings import findings
from graph_agent.audit.trace import DecisionTrace
from graph_agent.cli.aligned import reply_of, text_of_part
from graph_agent.models.authors import TextAuthor, TextPart
from graph_agent.models.decision import AgentDecision, PendingAction
from graph_agent.models.facts import FactRead
from graph_agent.models.record import DecisionRecord, EntryKind, OpenTurn, RecordEntry, RecordHeader, ToolInvocation
from graph_agent.models.sources import BatchSources
from graph_agent.reply.fixed import QUESTION_END, sentences_before
from graph_agent.reply.text import counted, exact, one_line, quoted, visible
from graph_agent.words import values
from graph_agent.words.rules import shadow_of
from graph_agent.words.said import said_of

_LABEL_WIDTH = 14
_AUTHOR_WIDTH = 8
_MAX_CHARS = 200
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


def print_result(value: Any, print_it: Callable[[], None], *, as_json: bool) -> None:
    """Print `value` as one line of JSON, or by `print_it`."""
    if as_json:
        typer.echo(json_line(value))
    else:
        print_it()


def escape_json(text: str) -> str:
    """Return a JSON text with its hidden characters escaped, as in `\\u202e`, so that it has the same value."""
    return visible(text, lambda run: json.dumps(run)[1:-1].replace("\x7f", "\\u007f"))


def mark_imitations(decision: AgentDecision) -> str:
    """Return the reply with every line marked that could be taken for a receipt, a notice or a question that is not asked."""
    asked = decision.pending_action is not None
    return "\n".join(
        f"(model) {line}" if _IMITATION.match(line) or (QUESTION_END in line and not asked) else line
        for line in visible(reply_of(decision)).split("\n")
    )


def whole_action(pending: PendingAction) -> str:
    """Return all of an action that waits, also what its question shortens: the sentence of each call, and its details.

    Several calls are numbered, in the order in which they will be made.
    """
    lines = [exact(sentence, _NO_LIMIT) for sentence in sentences_before(pending)]
    for number, call in enumerate(pending.each, 1):
        said, names = said_of(call), values.labels([*call.arguments])
        zone = said.time_zone
        whole = {names[name]: values.spoken(value, limit=_NO_LIMIT, zone=zone).text for name, value in call.arguments.items()}
        lines.append(f"{number}. {said.sentence}" if pending.calls else said.sentence)
        if call.object_text:
            lines.append(f"  Now: {quoted(call.object_text, _NO_LIMIT)}")
        for row in said.rows:
            if not row.described and not (row.length and row.label == "Now"):
                text = whole.get(row.label, row.text) if row.length else row.text
                lines.append(f"  {row.label}: {f'{row.was} → ' if row.was else ''}{text}")
    return "\n".join(lines)


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


def print_record(record: DecisionRecord | OpenTurn, sources: Mapping[int, Mapping[str, Sequence[str]]] | None = None) -> None:
    """Print message, decision, states, every model and tool call, receipts and timing.

    `sources` has, by the sequence of a call, where its arguments came from.
    """
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
    for entry in closed.entries:
        if entry.kind is EntryKind.SOURCES:
            _print_sources(BatchSources.model_validate(entry.result))
        if entry.kind is EntryKind.READ:
            _print_fact_read(entry)
    for invocation in closed.invocations:
        _print_tool_call(invocation)
        for name, found in (sources or {}).get(invocation.sequence, {}).items():
            _row("", f"{shorten(name)} from {shorten(' and '.join(found))}")
    for entry in closed.entries:
        if entry.kind is EntryKind.INTERRUPT:
            _row("ended by", str(entry.result["reason"]), "yellow")
    _print_texts(closed.decision)


def print_rules(trace: DecisionTrace) -> None:
    """Print the number of the rules under which the decision was made, which `rules show` explains."""
    if trace.rules is not None and trace.header is not None and trace.header.rules is not None:
        _row("rules", f"{trace.rules} ({trace.header.rules[:12]})")


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
    if context.look is not None:
        _row("looks at", f"approval request {context.look.request}, for {context.look.viewer or 'the process that decides it'}")
    if context.undoes is not None:
        _row("undoes", f"decision {shorten(context.undoes.decision_id)}")
    if context.job:
        _row("job", shorten(context.job))
    if context.proposed is not None:
        _row("plan for", f"decision {shorten(context.proposed.decision_id)}, to do it again")
    if context.pending_confirmation is not None:
        for number, call in enumerate(context.pending_confirmation.each):
            _row("" if number else "waiting", f"{shorten(call.tool_name)} {shorten(call.arguments)}")
    _row("message", context.message, author=author)


def _print_outcome(record: DecisionRecord) -> None:
    decision, usage = record.decision, record.usage
    tokens = f", {usage.total_tokens} tokens" if usage is not None else ""
    _row("type", f"{decision.decision_type.value}, {decision.outcome_category or 'no outcome'}", "bold")
    if decision.intent is not None:
        confidence = decision.intent.confidence
        declared = "" if confidence is None else f" ({confidence:g})"
        _row("intent", f"{decision.intent.intent_type.value}{declared}")
    _row("status", f"{record.status.value} after {record.duration_ms} ms, {counted(record.iterations, 'tool round')}{tokens}")
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


def _print_sources(batch: BatchSources) -> None:
    """Print where the arguments of a batch came from, as conditions have read it: one row for each call, in its order."""
    for number, call in enumerate(batch.calls, start=1):
        found = [
            f"{shorten(name)} from {one.source}{f' ({shorten(one.tool)})' if one.tool else ''}"
            for name, given in call.arguments.items()
            for one in given
        ]
        after = [] if call.after is None else [f"after a result of {shorten(call.after)}"]
        _row("" if number > 1 else "sources", f"{number}. {'; '.join([*found, *after]) or 'no argument has a source'}")


def _print_fact_read(entry: RecordEntry) -> None:
    """Print a read of the runtime before a call, or after one that can be undone, and what was kept of it."""
    read = FactRead.recorded(entry.result)
    label = "read before" if read.after is None else "read after"
    _row(label, f"{shorten(read.tool)} {shorten(read.arguments)}, {entry.ms} ms", "magenta")
    _row("", shorten(read.in_words))


def _print_tool_call(call: ToolInvocation) -> None:
    status = "ok" if call.success else call.error_code or "failed"
    became = call.disposition.value if call.gate is None else f"{call.disposition.value} at: {call.gate}"
    ended = f"{became}, {status}, {call.duration_ms} ms"
    _row(f"tool call {call.sequence}", f"{shorten(call.tool_name)} {shorten(call.parameters)}: {ended}", "magenta")
    if call.error_message:
        _row("", shorten(call.error_message))
    if call.result is not None:
        _row("", shorten(call.result))
    for verdict in call.shadow:
        _row("", f"in the shadow: {shadow_of(verdict)}", "yellow")


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
                rows.append((part.author, text_of_part(part)))
        for number, (author, text) in enumerate(rows):
            _row("" if number else label, text.strip("\n"), style, author)


def _row(label: str, text: str, style: str = "", author: TextAuthor | None = None) -> None:
    """Print a text behind its label and its author. Its further lines are indented, so that none looks like a row."""
    first, *others = visible(text).split("\n")
    by = "" if author is None else author.value.ljust(_AUTHOR_WIDTH)
    print_text((label.ljust(_LABEL_WIDTH), "dim"), (by, "bold"), (first, style))
    for line in others:
        print_text((" " * (_LABEL_WIDTH + len(by)) + line, style))
