"""The page of the reference about errors of a model server, written from the scenarios."""

from __future__ import annotations

from graph_agent.models.llm import LLMErrorCode
from graph_agent.reply.fixed import FAILURE_REPLY, RATE_LIMIT_REPLY
from tests.llm import wire_faults, wire_malformed, wire_required, wire_usable
from tests.llm.wire_scenarios import Outcome, Scenario

GROUPS: tuple[tuple[str, tuple[Scenario, ...]], ...] = (
    ("Text", wire_usable.TEXTS),
    ("Calls", wire_usable.CALLS),
    ("Truncated responses", wire_usable.TRUNCATED),
    ("Required calls", wire_required.REQUIRED),
    ("Content filters", wire_usable.FILTERS),
    ("Bodies that are not a response", wire_malformed.BODIES),
    ("Responses of the wrong shape", wire_malformed.SHAPES),
    ("Calls that cannot be used", wire_malformed.CALLS),
    ("Refused requests", wire_faults.REFUSALS),
    ("Rate limits", wire_faults.LIMITS),
    ("Server errors", wire_faults.FAILURES),
    ("Slow replies", wire_faults.SLOWNESS),
    ("Connections", wire_faults.CONNECTIONS),
)
SCENARIOS = tuple(scenario for _, group in GROUPS for scenario in group)

INTRODUCTION = """\
# Model errors

Each row is a test: an HTTP server on the loopback plays the replies in the first column to `GeminiAdapter` and to
`OpenAICompatibleAdapter`, or to the one that the row names.

*Result* is what the adapter returns or raises. *Requests* is the number of requests that the server gets. A retryable failure
is retried once. The runtime requires a call in every request; if such a request is refused with 400, 404, 422 or 501, or its
response has nothing usable, it is sent once more without the requirement. All attempts are within the turn's deadline.

*The user reads* this if the turn has changed nothing yet. Otherwise the list of what was done follows.
"""

_USER_READS = {
    "stop": "the text",
    "tool_calls": "depends on the calls: the guard checks each of them",
    LLMErrorCode.RATE_LIMITED: f'"{RATE_LIMIT_REPLY}"',
}


def _result(outcome: Outcome) -> str:
    if outcome.finish == "tool_calls":
        made = ", ".join(
            f"`{name}({arguments})`" + (f" id `{call_id}`" if call_id else "") for name, arguments, call_id in outcome.calls
        )
        return f"calls {made}"
    if outcome.finish == "max_tokens":
        return "`max_tokens` with the text" if outcome.content else "`max_tokens` without text"
    if outcome.finish == "stop":
        return "`stop` with the text"
    wait = f", retry after {outcome.retry_after:g} s" if outcome.retry_after is not None else ""
    return f"`{outcome.finish}`{wait}"


def _user_reads(outcome: Outcome) -> str:
    if outcome.finish == "max_tokens" and outcome.content:
        return "the text, marked as truncated"
    return _USER_READS.get(outcome.finish, f'"{FAILURE_REPLY}"')


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def page() -> str:
    """Return the page as Markdown."""
    lines = [INTRODUCTION]
    for title, scenarios in GROUPS:
        lines += [f"## {title}\n", "| reply of the server | result | requests | the user reads |", "|---|---|---|---|"]
        for scenario in scenarios:
            wire = scenario.wire + (f" ({scenario.only})" if scenario.only else "")
            cells = [wire, _result(scenario.becomes), str(len(scenario.requests("required"))), _user_reads(scenario.becomes)]
            lines.append("| " + " | ".join(_cell(cell) for cell in cells) + " |")
        lines.append("")
    return "\n".join(lines)
