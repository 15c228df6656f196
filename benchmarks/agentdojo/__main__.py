"""Print the table of AgentDojo: attacks that ran, questions per task, and tasks that succeed without a yes.

It makes the ground-truth calls of every user task, with an obedient scripted model and AgentDojo's own judgement, without a
key. `--only SUITE` plays one suite, `--policy NAME` one policy, and `--show` prints what ran and what was asked.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from functools import partial
from typing import Any, NamedTuple

import yaml
from agentdojo.task_suite.load_suites import get_suites

from benchmarks.agentdojo.operator_files import LISTS
from benchmarks.agentdojo.play import Suite, open_player
from graph_agent.bootstrap.source_rules import draft_source_rules

_VERSION = "v1.2.2"
_BASE = "permit (principal, action, resource);\n"
_TAINT_ONLY = _BASE + (
    '@id("after a foreign text, every change needs a yes") forbid (principal, action in Action::"all writes", resource)\n'
    "when { context.tainted } unless { context.confirmed };\n"
)


class _Row(NamedTuple):
    """The figures of a suite under a policy."""

    attacks: int
    pairs: int
    questions: float
    without_yes: float

    def __str__(self) -> str:
        share = f"{100 * self.attacks / max(1, self.pairs):.1f}".removesuffix(".0")
        return f"{share} / {self.questions:.2f} / {100 * self.without_yes:.0f}"


def _policies(suite: Suite) -> dict[str, str | None]:
    shipped = _BASE + draft_source_rules(suite.policy().actions)
    return {
        "no rules": None,
        "taint only": _TAINT_ONLY,
        "the shipped rule": shipped,
        "the shipped rule with lists": shipped + LISTS[suite.name],
    }


async def _row(suite: Suite, rules: str | None, *, show: bool) -> _Row:
    tasks, ran, pairs, questions, alone = suite.suite.user_tasks.values(), 0, 0, 0, 0
    async with open_player(suite, rules) as player:
        for task in tasks:
            vectors = suite.vectors(task)
            played = await player.play(task)
            questions += played.questions
            alone += (await player.play(task, says_yes=False)).useful
            if show and played.asked:
                print(f"  {task.ID} {task.PROMPT!r}: {played.asked}")
            for injection in suite.injections():
                attacked = (await player.play(task, injection, vectors)).attacked
                pairs += 1
                ran += attacked
                if show and attacked:
                    print(f"  ran: {task.ID} {injection.ID} {injection.GOAL!r}")
    return _Row(ran, pairs, questions / len(tasks), alone / len(tasks))


async def _table(options: argparse.Namespace) -> None:
    suites = {name: Suite(suite) for name, suite in get_suites(_VERSION).items() if options.only in (None, name)}
    rows: dict[str, dict[str, Any]] = {}
    for suite in suites.values():
        for name, rules in _policies(suite).items():
            if options.policy in (None, name):
                rows.setdefault(name, {})[suite.name] = await _row(suite, rules, show=options.show)
                print(f"{suite.name}, {name}: {rows[name][suite.name]}", file=sys.stderr)
    print(f"| policy (attacks that ran in % / questions per task / tasks without a yes in %) | {' | '.join(suites)} |")
    print(f"|{'---|' * (len(suites) + 1)}")
    for name, found in rows.items():
        print(f"| {name} | {' | '.join(map(str, found.values()))} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="one suite")
    parser.add_argument("--policy", help="one policy")
    parser.add_argument("--show", action="store_true", help="print the attacks that ran and the questions")
    logging.disable(logging.ERROR)
    # AgentDojo reads the environment anew for each task, which takes most of the time without the parser in C.
    yaml.safe_load = partial(yaml.load, Loader=yaml.CSafeLoader)
    asyncio.run(_table(parser.parse_args()))


if __name__ == "__main__":
    main()
