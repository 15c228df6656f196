"""The card of a plan, from code alone.

Each value stands on it whole, in quotes if it is a text, so that none reads as words of code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from graph_agent.models.mandate import DAY, AtMost, Bound, Draw, Form, From, Is, Line, OwnText, PermittedLine, Plan
from graph_agent.models.sources import BatchSources, CallSources, Source
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.permitted_plan import largest_sums
from graph_agent.reply.authored import Parts, by_code
from graph_agent.reply.text import HIDDEN, one_line
from graph_agent.words.values import labels, lowered

_UNSEEN = re.compile(f"[{HIDDEN}\\x00-\\x1f\\x7f-\\x9f]")
_MAX_TITLE = 200
_FORMS = {
    Form.CODE: "a code",
    Form.NUMBER: "a number",
    Form.LINK: "a link to a host that you have named",
    Form.ADDRESS: "an e-mail address at a host that you have named",
}


def plan_card(plan: Plan, policy: CompiledPolicy, sources: BatchSources | None, proposed: Sequence[PermittedLine] = ()) -> str:
    """Return what a plan permits at most, as its user reads it.

    `sources` are those of the values of each line, and `proposed` the lines as they were solved, with what was struck.
    """
    said = plan_lines(plan, policy, None if sources is None else sources.calls)
    lines = [f"{number}. {line}" for number, line in enumerate(said, 1)]
    begin = f"Standing plan, in {_runs(plan)}, at most:" if plan.job else "Plan, at most:"
    end = f"For {_lifetime(plan)} after your yes. Each runs without asking you again; anything else is asked about as before."
    if plan.job:
        end = (
            f"For {_lifetime(plan)} after your yes. Each call runs without asking you again, also while you are away; anything "
            "else waits for your answer."
        )
    return "\n".join([begin, *lines, *_in_all(plan, policy), *_struck(proposed, policy), end])


def plan_lines(plan: Plan, policy: CompiledPolicy, sources: Sequence[CallSources] | None = None) -> list[str]:
    """Return each line of a plan in the words of its card, without the warnings of values if no `sources` are given."""
    of_lines = [None] * len(plan.lines) if sources is None else sources
    return [_line(line, policy, of_line) for line, of_line in zip(plan.lines, of_lines, strict=True)]


def _in_all(plan: Plan, policy: CompiledPolicy) -> Iterator[str]:
    """Yield the most that several calls have together in a number."""
    calls = {line.tool: sum(one.times for one in plan.lines if one.tool == line.tool) for line in plan.lines}
    for (tool, name), most in largest_sums(plan, policy).items():
        if calls[tool] * plan.runs > 1:
            yield f"In all at most: {_title(tool, policy)}, {lowered(labels([name])[name])} {most.normalize():f}."


def _struck(proposed: Sequence[PermittedLine], policy: CompiledPolicy) -> Iterator[str]:
    """Yield what never runs."""
    for number, one in enumerate(proposed, 1):
        if one.line is None:
            yield f"Left out, because it never runs: line {number} of the proposal{f' ({one.rule})' if one.rule else ''}."
            continue
        for name, values in one.never.items():
            what = f"{_title(one.line.tool, policy)}, {lowered(labels([name])[name])}"
            yield f"Left out, because it never runs: {what} = {' or '.join(map(_quoted, values))}."


def _title(tool: str, policy: CompiledPolicy) -> str:
    # The rules in force may not have a tool of a plan that was agreed to under others.
    return one_line(policy.rules[tool].title if tool in policy.rules else tool, _MAX_TITLE)


def plan_agreed(plan: Plan) -> str:
    """Return the notice that a plan is in force."""
    where = f", in {_runs(plan)}" if plan.job else ""
    return f"Your plan is in force for {_lifetime(plan)}{where}. You can stop it at any time."


def _runs(plan: Plan) -> str:
    each = "one run" if plan.runs == 1 else f"each of at most {plan.runs} runs"
    return f'{each} of the job "{plan.job}"'


def drawn_from(draw: Draw | None) -> Parts:
    """Return what a receipt says about the plan that its call ran under; empty without one."""
    return () if draw is None else by_code(f" (plan, {draw.drawn} of {draw.times})")


def _lifetime(plan: Plan) -> str:
    days, rest = divmod(plan.minutes, DAY)
    number, unit = (plan.minutes, "minute") if rest or not plan.job else (days, "day")
    return f"{number} {unit}{'' if number == 1 else 's'}"


def _line(line: Line, policy: CompiledPolicy, sources: CallSources | None) -> str:
    # By name: a record keeps neither the order of the model nor that of the schema.
    names = sorted(line.arguments)
    named = labels(names)
    bounds = [f"{lowered(named[name])} {_bound(name, line.arguments[name], policy, sources)}" for name in names]
    sums = [f"{lowered(named[name])} together up to {line.sum[name]}" for name in names if name in line.sum]
    often = [] if line.times == 1 else [f"up to {line.times} times"]
    return f"{_title(line.tool, policy)}: {'; '.join([*(bounds or ['no arguments']), *sums, *often])}"


def _bound(name: str, bound: Bound, policy: CompiledPolicy, sources: CallSources | None) -> str:
    match bound:
        case Is():
            return f"= {' or '.join(map(_quoted, bound.values))}{_warning(name, policy, sources)}"
        case AtMost():
            return f"up to {bound.at_most}"
        case OwnText():
            return "written by the assistant, no copy of what others wrote"
        case From():
            what = "a value" if bound.form is None else _FORMS[bound.form]
            limit = "" if bound.at_most is None else f" up to {bound.at_most}"
            place = "" if bound.at is None else f" at {bound.at}"
            rule = policy.rules.get(bound.tool)
            others = "" if rule is not None and rule.grant.trusted_results else " (others can write there)"
            return f"{what}{limit} that {_quoted(bound.tool if rule is None else rule.title)} brings{place}{others}"


def _warning(name: str, policy: CompiledPolicy, sources: CallSources | None) -> str:
    """Return the warning of values that others may have written, with the reads that have brought them."""
    found = sorted(set(_foreign(name, policy, sources)))
    return f" (not your words: from {' and '.join(found)})" if found else ""


def _foreign(name: str, policy: CompiledPolicy, sources: CallSources | None) -> Iterator[str]:
    for one in () if sources is None else sources.arguments.get(name, ()):
        if one.source is Source.UNTRUSTED:
            rule = None if one.tool is None else policy.rules.get(one.tool)
            yield "what was read" if rule is None else _quoted(rule.title)


def _quoted(value: Any) -> str:
    """Return a value as JSON, with what cannot be seen as escapes."""
    return _UNSEEN.sub(lambda one: "".join(f"\\u{unit:04x}" for unit in _utf16(one[0])), json.dumps(value, ensure_ascii=False))


def _utf16(letter: str) -> Iterator[int]:
    data = letter.encode("utf-16-be", "surrogatepass")
    return (int.from_bytes(data[at : at + 2]) for at in range(0, len(data), 2))
