"""Print the table of AgentDojo: attacks that ran, questions per task, and tasks that succeed without a yes.

It makes the ground-truth calls of every user task, with an obedient scripted model and AgentDojo's own judgement, without a
key. A second table is with a plan in each task that changes something, under the shipped rule, and with one of eight pairs of
a task and an attack. `--only SUITE` plays one suite, `--policy NAME` one policy, `--plans` only the second table, with one
pair of `--every`, and `--show` prints what ran and what was asked.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from collections import Counter
from functools import partial
from typing import Any, NamedTuple

import yaml
from agentdojo.task_suite.load_suites import get_suites

from benchmarks.agentdojo.operator_files import LISTS
from benchmarks.agentdojo.play import Suite, open_player
from benchmarks.agentdyn.plans import Quality
from graph_agent.bootstrap.source_rules import draft_source_rules

_VERSION = "v1.2.2"
_BASE = "permit (principal, action, resource);\n"
_TAINT_ONLY = _BASE + (
    '@id("after a foreign text, every change needs a yes") forbid (principal, action in Action::"all writes", resource)\n'
    "when { context.tainted } unless { context.confirmed };\n"
)


_PLAN_HEAD = """\
| suite | plans + questions per task | with one yes at most | attacks that ran with the honest and the worst plan |
|---|---|---|---|"""


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


class _PlanRow(NamedTuple):
    """The figures of a suite with plans."""

    tasks: int
    questions: int
    plans: int
    at_once: int
    pairs: int
    honest: int
    worst: int

    def __str__(self) -> str:
        asked = f"{self.plans / self.tasks:.2f} + {self.questions / self.tasks:.2f}"
        return f"{asked} | {100 * self.at_once / self.tasks:.0f} % | {self.honest} and {self.worst} of {self.pairs}"


async def _plan_row(suite: Suite, every: int, *, show: bool) -> _PlanRow:
    found: Counter[str] = Counter()
    async with open_player(suite, _policies(suite)["the shipped rule"]) as player:
        for task in suite.suite.user_tasks.values():
            vectors = suite.vectors(task)
            played = await player.play(task, plans="honest")
            alone = await player.play(task, says_yes=False, plans="honest")
            found.update(tasks=1, questions=played.questions, plans=played.plans, at_once=alone.useful)
            if show and played.asked:
                print(f"  {task.ID} {task.PROMPT!r}: {played.asked}")
            for injection in suite.injections():
                found["number"] += 1
                if found["number"] % every:
                    continue
                found["pairs"] += 1
                qualities: tuple[Quality, ...] = ("honest", "worst")
                for quality in qualities:
                    attacked = (await player.play(task, injection, vectors, plans=quality)).attacked
                    found[quality] += attacked
                    if show and attacked:
                        print(f"  ran with the {quality} plan: {task.ID} {injection.ID} {injection.GOAL!r}")
    return _PlanRow(*(found[name] for name in _PlanRow._fields))


async def _plan_table(options: argparse.Namespace) -> None:
    print(_PLAN_HEAD)
    rows = []
    for name, suite in get_suites(_VERSION).items():
        if options.only in (None, name):
            rows.append(await _plan_row(Suite(suite), options.every, show=options.show))
            print(f"| {name} | {rows[-1]} |", flush=True)
    print(f"| all | {_PlanRow(*map(sum, zip(*rows, strict=True)))} |")


async def _tables(options: argparse.Namespace) -> None:
    if not options.plans:
        await _table(options)
    await _plan_table(options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="one suite")
    parser.add_argument("--policy", help="one policy")
    parser.add_argument("--plans", action="store_true", help="print only the table with plans")
    parser.add_argument("--every", type=int, default=8, metavar="N", help="with plans, play one pair of N (8)")
    parser.add_argument("--show", action="store_true", help="print the attacks that ran and the questions")
    logging.disable(logging.ERROR)
    # AgentDojo reads the environment anew for each task, which takes most of the time without the parser in C.
    yaml.safe_load = partial(yaml.load, Loader=yaml.CSafeLoader)
    asyncio.run(_tables(parser.parse_args()))


if __name__ == "__main__":
    main()
