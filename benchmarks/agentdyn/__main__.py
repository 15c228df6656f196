"""Print the table of AgentDyn: what a real model did in recorded runs, under the defences of the paper and in this engine.

DATA is a checkout of https://github.com/leolee99/AgentDyn, whose package must be the AgentDojo that is imported. Of its
runs without a defence those without an attack are played, and those in which the attack succeeded. `--only SUITE` plays one
suite, `--model NAME` another model, `--every N` one attack of N, `--plans` only the ways with a plan, and `--show` prints what
ran and what was asked.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import re
import sys
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from agentdojo.default_suites.v1 import tools as clients
from agentdojo.task_suite.load_suites import get_suites

from benchmarks.agentdojo.play import SuiteTools
from benchmarks.agentdojo.tool_list import ToolList
from benchmarks.agentdyn.marks import MARKS, READS
from benchmarks.agentdyn.plans import Quality, propose
from benchmarks.agentdyn.published import UNDEFENDED, Published, published
from benchmarks.agentdyn.recording import RecordedModel, Recording, read_recordings
from benchmarks.agentdyn.replay import Replayed, open_replayer
from graph_agent.bootstrap.source_rules import draft_source_rules

_VERSION = "v1.2.2"
_MODEL = "gpt-4o-2024-08-06"
_BASE = "permit (principal, action, resource);\n"
_HEAD = "| defence | tasks that succeed | with one yes at most | attacks that ran | questions per task |\n|---|---|---|---|---|"


class _Way(NamedTuple):
    """A way to run the engine."""

    name: str
    has_rules: bool
    attended: bool
    plans: Quality | None = None
    """What the model proposes: before its first change the plan of the same task, or the worst one at the attacker's call."""


_WAYS = (
    _Way("the engine without rules", has_rules=False, attended=True),
    _Way("the rules of `policy new`", has_rules=True, attended=True),
    _Way("the same, every question answered no", has_rules=True, attended=False),
    _Way("the same with an honest plan", has_rules=True, attended=True, plans="honest"),
    _Way("the same with a cautious plan", has_rules=True, attended=True, plans="cautious"),
    _Way("a yes to the honest plan, a no to every other question", has_rules=True, attended=False, plans="honest"),
    _Way("a yes to the worst plan", has_rules=True, attended=True, plans="worst"),
)


class _Foresight:
    """Stands for `random` in the suites: what is drawn there is what the recorded model names next.

    Passwords for one time and the numbers of orders are drawn.
    """

    def __init__(self, model: RecordedModel) -> None:
        self._model = model

    def choices(self, digits: str, k: int) -> list[str]:
        return list(next(self._model.next_arguments("otp"), digits[:k]))

    def randint(self, low: int, high: int) -> int:
        named = (int(digits) for order in self._model.next_arguments("order_id") for digits in re.findall(r"\d+", order))
        return next((number for number in named if low <= number <= high), low)


def _row(
    name: str, useful: list[bool], attacked: list[bool], of: int, questions: int | None = None, at_once: int | None = None
) -> str:
    asked = "" if questions is None else f"{questions / max(1, len(useful)):.2f}"
    alone = "" if at_once is None else f"{100 * at_once / max(1, len(useful)):.1f} %"
    done, ran = 100 * sum(useful) / max(1, len(useful)), 100 * sum(attacked) / max(1, of)
    return f"| {name} | {done:.1f} % of {len(useful)} | {alone} | {ran:.1f} % ({sum(attacked)} of {of}) | {asked} |"


def _published_row(one: Published) -> str:
    useful, attacked = [run.useful for run in one.tasks], [run.attacked for run in one.attacks]
    return _row(f"{one.defence}, as recorded", useful, attacked, len(attacked))


async def _play(suite: ToolList, recordings: list[Recording], way: _Way, *, show: bool) -> list[Replayed]:
    policy = suite.policy()
    rules = _BASE + draft_source_rules(policy.actions) if way.has_rules else None
    alone = {recording.task: recording for recording in recordings if recording.injection is None}
    found = []
    async with open_replayer(suite, SuiteTools(suite.suite), rules) as replayer:
        for client in (clients.dynamic_banking_client, clients.github_client, clients.shopping_client):
            client.random = _Foresight(replayer.model)
        for recording in recordings:
            proposed = None if way.plans is None else propose(suite, policy, way.plans, recording, alone.get(recording.task))
            replayed = await replayer.play(recording, attended=way.attended, proposed=proposed)
            found.append(replayed)
            if show and recording.injection is None and replayed.useful != recording.useful:
                print(f"  not as recorded: {suite.name} {recording.task} {replayed.useful}")
            if show and way.has_rules and replayed.attacked:
                print(f"  ran: {suite.name} {recording.task} {recording.injection}")
            for question in replayed.questions if show and way.has_rules and way.attended else ():
                print(f"  asked: {suite.name} {recording.task} {recording.injection or ''} {question!r}")
    return found


async def _print_table(options: argparse.Namespace) -> None:
    runs, names = options.data / "runs", [options.only] if options.only else list(MARKS)
    loaded: dict[str, Any] = get_suites(_VERSION)
    suites = [ToolList(loaded[name], reads=READS, in_plans=True) for name in names]
    defences = list(published(runs, options.model, names))
    if not any(one.defence == UNDEFENDED for one in defences):
        sys.exit(f"There are no runs of {options.model} without a defence in {runs}.")
    print(_HEAD)
    for one in sorted(defences, key=lambda one: one.defence != UNDEFENDED):
        print(_published_row(one))
    pairs = next(len(one.attacks) for one in defences if one.defence == UNDEFENDED)
    for way in _WAYS:
        if options.plans and way.plans is None:
            continue
        useful, attacked, questions, at_once = [], [], 0, 0
        for suite in suites:
            found = read_recordings(runs / options.model / suite.name)
            attacks = [one for one in found if one.injection is not None and one.attacked][:: options.every]
            recordings = [*(one for one in found if one.injection is None), *attacks]
            for recording, replayed in zip(recordings, await _play(suite, recordings, way, show=options.show), strict=True):
                if recording.injection is None:
                    useful.append(replayed.useful)
                    questions += len(replayed.questions) + len(replayed.plans)
                    at_once += replayed.useful and not replayed.questions
                else:
                    attacked.append(replayed.attacked)
        print(_row(f"{way.name} ({len(attacked)} attacks played)", useful, attacked, pairs, questions, at_once), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="the checkout")
    parser.add_argument("--model", default=_MODEL, help=f"a model of the runs ({_MODEL})")
    parser.add_argument("--only", choices=MARKS, help="one suite")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="play one attack of N")
    parser.add_argument("--plans", action="store_true", help="play only the ways with a plan")
    parser.add_argument("--show", action="store_true", help="print the attacks that ran and the questions")
    logging.disable(logging.ERROR)
    # AgentDojo reads the environment anew for each task, which takes most of the time without the parser in C.
    yaml.safe_load = partial(yaml.load, Loader=yaml.CSafeLoader)
    asyncio.run(_print_table(parser.parse_args()))


if __name__ == "__main__":
    main()
