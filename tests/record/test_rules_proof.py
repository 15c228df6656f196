"""A stranger checks under which rules a decision was made, and refuses what hides an activation."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graph_agent.bootstrap.proof_files import rules_files
from graph_agent.clock import ManualClock, RandomIds
from graph_agent.db import Database
from graph_agent.models.rule_set import ActivationKind, RuleSet
from graph_agent.policy.constitution import Constitution
from graph_agent.record.rule_sets import activate_rules
from graph_agent.record.tree.leaves import Sealer
from graph_agent.record.tree.reading import read_proof
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.testing import says
from graph_agent.turn.engine import LLMAgentEngine
from tests.record.trees import KEY, LOG_KEY, tree_of
from tests.scripted_turns import TableServer, asks, calls, engine_of

PROGRAM = Path("graph_agent/tlog/verify_proof.py")
KEYS = f"log {LOG_KEY.verifier}\n"
Files = dict[str, str]


def rules(rounds: int) -> RuleSet:
    return RuleSet({"constitution": Constitution.load().text, "settings": f'{{"max_iterations":{rounds}}}'})


OLD, NEW = rules(5), rules(3)


def process(log: Database, rule_set: RuleSet | None, *script: Any, server: Any = None) -> LLMAgentEngine:
    writer = DatabaseAuditWriter(log, record_key=KEY)
    script = script or (says("Hello."),)
    return engine_of(*script, server=server, audit=writer, clock=ManualClock(), ids=RandomIds(), rule_set=rule_set)


async def activate(log: Database, rule_set: RuleSet, expected: int, kind: ActivationKind = ActivationKind.ACTIVATED) -> None:
    await activate_rules(log, rule_set, Sealer(KEY), expected=expected, kind=kind)


async def decided(log: Database, rule_set: RuleSet | None) -> str:
    return (await process(log, rule_set).run(asks("hello"))).record.header.decision_id


class ReplacedDuring(TableServer):
    """Activates other rules while it runs a call."""

    def __init__(self, log: Database) -> None:
        super().__init__()
        self.log = log

    async def execute(self, call: Any, *, deadline: float | None = None) -> Any:
        await activate(self.log, NEW, 3)
        return await super().execute(call, deadline=deadline)


async def proved(
    log: Database, folder: Path, decision_id: str, change: Callable[[Files, Files], None] = lambda *_: None
) -> tuple[int, str]:
    """Return the exit code of the program and its last line. `change` edits the files of the proof and of the rules."""
    await tree_of(log).seal()
    proof = await read_proof(log, decision_id)
    files = {"decision.json": proof.decision_json(), "decision.tlog-proof": proof.proof, "keys": KEYS}
    of_rules = await rules_files(log)
    change(files, of_rules)
    target = folder / "rules"
    target.mkdir(parents=True, exist_ok=True)
    for name, text in (*files.items(), *((f"rules/{name}", text) for name, text in of_rules.items())):
        (folder / name).write_text(text, encoding="utf-8", newline="")
    names = [str(folder / name) for name in files]
    command = [sys.executable, "-I", str(PROGRAM), *names, "--rules", str(target)]
    ended = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
    return ended.returncode, (ended.stdout if ended.returncode == 0 else ended.stderr).strip().splitlines()[-1]


async def test_the_rules_of_each_decision_are_proved(log: Database, tmp_path: Path) -> None:
    first = await decided(log, OLD)
    assert (await proved(log, tmp_path, first))[1].endswith("which no others have replaced in this log")
    await activate(log, NEW, 1)
    second = await decided(log, NEW)
    await activate(log, OLD, 2, ActivationKind.ROLLBACK)
    third = await decided(log, OLD)
    engine = process(log, OLD, calls(("list_tasks", {})), says("Listed."), server=ReplacedDuring(log))
    late = (await engine.run(asks("list them"))).record.header.decision_id
    found = [await proved(log, tmp_path, one) for one in (first, second, third, late)]
    assert found == [
        (0, f"PROVED, with these keys: under rules {number} ({one.digest[:12]}, {kind}), {how}")
        for number, one, kind, how in (
            (1, OLD, "followed", "which were in force when it was closed"),
            (2, NEW, "activated", "which were in force when it was closed"),
            (3, OLD, "rollback", "which were in force when it was closed"),
            (3, OLD, "rollback", "replaced by rules 4 before it was closed"),
        )
    ]


def without_statement(_: Files, of_rules: Files) -> None:
    of_rules["statements.json"] = json.dumps(json.loads(of_rules["statements.json"])[1:])


def with_other_statement(_: Files, of_rules: Files) -> None:
    of_rules["statements.json"] = of_rules["statements.json"].replace(NEW.digest, OLD.digest)


def without_leaf(_: Files, of_rules: Files) -> None:
    of_rules["leaves.txt"] = of_rules["leaves.txt"].partition("\n")[2]


def exchanged_leaves(_: Files, of_rules: Files) -> None:
    lines = of_rules["leaves.txt"].splitlines(keepends=True)
    of_rules["leaves.txt"] = "".join([lines[1], lines[0], *lines[2:]])


def as_another_kind(_: Files, of_rules: Files) -> None:
    of_rules["leaves.txt"] = of_rules["leaves.txt"].replace("statement ", "report ", 1)


def other_rule_set(_: Files, of_rules: Files) -> None:
    for name in (f"{OLD.digest}.json", f"{NEW.digest}.json"):
        of_rules[name] = of_rules[name].replace("graph-agent/rules/v1", "graph-agent/rules/v2")


def other_record(files: Files, _: Files) -> None:
    decision = json.loads(files["decision.json"])
    files["decision.json"] = json.dumps({**decision, "record": decision["record"].replace(NEW.digest, OLD.digest)})


def other_salt(_: Files, of_rules: Files) -> None:
    statements = json.loads(of_rules["statements.json"])
    statements[0]["salt"] = base64.b64encode(bytes(32)).decode()
    of_rules["statements.json"] = json.dumps(statements)


@pytest.mark.parametrize(
    "forge",
    [
        without_statement,
        with_other_statement,
        without_leaf,
        exchanged_leaves,
        as_another_kind,
        other_rule_set,
        other_record,
        other_salt,
    ],
)
async def test_a_forgery_proves_nothing(log: Database, tmp_path: Path, forge: Callable[[Files, Files], None]) -> None:
    await decided(log, OLD)
    await activate(log, NEW, 1)
    decision_id = await decided(log, NEW)
    assert (await proved(log, tmp_path, decision_id))[0] == 0
    code, line = await proved(log, tmp_path, decision_id, forge)
    assert (code, line.startswith("NOT PROVED: ")) == (1, True)


async def test_a_decision_of_an_engine_of_your_own_names_no_rules(log: Database, tmp_path: Path) -> None:
    decision_id = await decided(log, None)
    line = "NOT PROVED: the record names no rules of an installation"
    assert await proved(log, tmp_path, decision_id) == (1, line)
