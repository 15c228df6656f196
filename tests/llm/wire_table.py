"""The page `docs/wire.md`, made from the scenarios: `python -m tests.llm.wire_table > docs/wire.md`."""

from __future__ import annotations

import sys

from graph_agent.models.llm import LLMErrorCode
from graph_agent.reply.fixed import FAILURE_REPLY, RATE_LIMIT_REPLY
from tests.llm import wire_answers, wire_faults, wire_malformed
from tests.llm.wire_scenarios import Outcome, Scenario

GROUPS: tuple[tuple[str, tuple[Scenario, ...]], ...] = (
    ("Answers in words", wire_answers.TEXTS),
    ("Calls", wire_answers.CALLS),
    ("Answers that were cut", wire_answers.CUT),
    ("Content filters", wire_answers.FILTERS),
    ("Bodies that are no answer", wire_malformed.BODIES),
    ("Answers of the wrong shape", wire_malformed.SHAPES),
    ("Calls that cannot be used", wire_malformed.CALLS),
    ("Refusals", wire_faults.REFUSALS),
    ("Rate limits", wire_faults.LIMITS),
    ("Failures of the provider", wire_faults.FAILURES),
    ("Slowness", wire_faults.SLOWNESS),
    ("Connections", wire_faults.CONNECTIONS),
)
SCENARIOS = tuple(scenario for _, group in GROUPS for scenario in group)

INTRODUCTION = """\
# What comes over the wire, and what a user gets

Made from the conformance tests by `python -m tests.llm.wire_table > docs/wire.md`; every row is tried against a real HTTP
server on the loopback, for `GeminiAdapter` and for `OpenAICompatibleAdapter` unless it names one of them.

*Asked* is how often the provider was asked: a failure that can pass is tried once more, inside the turn's deadline. The texts
are those of a turn in which nothing was done yet; afterwards the receipts of what was done follow.
"""

_USER = {
    "stop": "the text",
    "tool_calls": "what becomes of the calls: the guard judges each of them",
    LLMErrorCode.RATE_LIMITED: f'"{RATE_LIMIT_REPLY}"',
}


def _becomes(outcome: Outcome) -> str:
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


def _gets(outcome: Outcome) -> str:
    if outcome.finish == "max_tokens" and outcome.content:
        return "the text, marked as cut"
    return _USER.get(outcome.finish, f'"{FAILURE_REPLY}"')


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def page() -> str:
    """The whole page as Markdown."""
    lines = [INTRODUCTION]
    for title, scenarios in GROUPS:
        lines += [f"## {title}\n", "| on the wire | becomes | asked | a user gets |", "|---|---|---|---|"]
        for scenario in scenarios:
            wire = scenario.wire + (f" ({scenario.only})" if scenario.only else "")
            cells = [wire, _becomes(scenario.becomes), str(scenario.attempts), _gets(scenario.becomes)]
            lines.append("| " + " | ".join(_cell(cell) for cell in cells) + " |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(page())
