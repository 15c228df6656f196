"""The proof of calls under a plan: a program without this package checks each against its line, and refuses forgeries."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graph_agent.bootstrap.proof_files import rules_files
from graph_agent.db import Database
from graph_agent.record.mandates import revoke
from graph_agent.record.tree.leaves import Sealer
from graph_agent.record.tree.reading import read_proof
from graph_agent.testing import says
from graph_agent.tlog.verify_proof import NotProvedError, is_within, verify_in_force, verify_plan
from tests.record.trees import LOG_KEY, tree_of
from tests.scripted_turns import calls, done
from tests.turn.test_plans import Desk, line, plan, refund
from tests.turn.test_recorded_plans import FOUND
from tests.turn.test_standing_plans import MAKE, RUN, JobDesk

Record = dict[str, Any]
LINES = [
    line(times=2, order={"from": "find_order", "form": "code"}, amount={"at_most": 50}, total=60),
    line("send_mail", to={"is": ["a@shop.example", "b@shop.example"]}, text={"own_text": True}),
]
CALLS = [
    calls(("find_order", {"order": "the newest"})),
    calls(refund("W77")),
    calls(("send_mail", {"to": "a@shop.example", "text": "It is on its way."})),
    says("Done."),
]
KEYS = f"log {LOG_KEY.verifier}\n"


async def planned(log: Database) -> Desk:
    """Agree to a plan, run two calls under it, and a third one in the next message."""
    answers = {"find_order": done({"order": "W77", "note": "about W78"})}
    desk = Desk(log, [plan(*LINES), *CALLS, calls(refund("W77", 20)), says("Done.")], answers=answers)
    for text in ("refund it", "yes", "again"):
        await desk.say(text)
    return desk


@pytest.mark.parametrize(("value", "fits"), [("W1", True), (["W1", "W2"], True), (["W1", "W1"], False), (["W3"], False)])
def test_a_list_has_each_value_as_often_as_its_line(value: object, fits: bool) -> None:
    assert is_within(value, {"is": ["W1", "W2"]}, set(), {}, "") is fits


def as_file(record: Record) -> str:
    return json.dumps({"salt": "", "record": json.dumps(record)})


async def test_the_program_proves_calls_under_the_plan_of_their_own_or_an_earlier_decision(
    log: Database, tmp_path: Path
) -> None:
    desk = await planned(log)
    await tree_of(log, None).seal()
    names = [turn.record.header.decision_id for turn in desk.turns]
    for name in names:
        proof = await read_proof(log, name)
        for file, text in proof.files(KEYS).items():
            (tmp_path / (file if "." not in file or file == "verify_proof.py" else f"{name}-{file}")).write_text(text)

    def run(decision: str, agreed: str) -> subprocess.CompletedProcess[str]:
        files = [f"{decision}-decision.json", f"{decision}-decision.tlog-proof", f"{decision}-trusted_keys.txt"]
        given = [*files, "--plan", f"{agreed}-decision.json", f"{agreed}-decision.tlog-proof"]
        command = [sys.executable, "-I", "verify_proof.py", *given]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    plan_id = (await desk.mandate()).mandate.id
    for decision, count in ((names[1], 2), (names[2], 1)):
        proved = run(decision, names[1])
        sentence = f"PROVED, with these keys: {count} of its calls ran under the plan {plan_id}, within its lines and its time"
        assert (proved.returncode, proved.stdout.splitlines()[2:]) == (0, [sentence]), proved.stderr
    assert run(names[1], names[2]).stderr == "NOT PROVED: the second decision agrees to no plan\n"
    assert run(names[0], names[1]).stderr == "NOT PROVED: no call of the decision ran under a plan\n"


def edit(record: Record, kind: str, **changes: Any) -> None:
    entry = next(one for one in record["entries"] if one["kind"] == kind)
    entry["result"] |= changes


def call_of(record: Record, tool: str) -> Record:
    found: Record = next(one for one in record["invocations"] if one["tool_name"] == tool)
    return found


def reread(record: Record) -> None:
    record["entries"] = [one | {"n": 0 if one["kind"] == "reserve" else one["n"]} for one in record["entries"]]


FORGERIES: dict[str, Callable[[Record], object]] = {
    "another amount": lambda one: call_of(one, "refund")["parameters"].update(amount=51),
    "a negative amount": lambda one: call_of(one, "refund")["parameters"].update(amount=-1),
    "an amount that is no number": lambda one: call_of(one, "refund")["parameters"].update(amount=True),
    "a value that no result has": lambda one: call_of(one, "refund")["parameters"].update(order="W79"),
    "a part of a value": lambda one: call_of(one, "refund")["parameters"].update(order="W7"),
    "a value of another form": lambda one: call_of(one, "refund")["parameters"].update(order="about"),
    "an argument too many": lambda one: call_of(one, "refund")["parameters"].update(note="x"),
    "an argument too few": lambda one: call_of(one, "refund")["parameters"].pop("order"),
    "an empty list": lambda one: call_of(one, "refund")["parameters"].update(order=[]),
    "another recipient": lambda one: call_of(one, "send_mail")["parameters"].update(to="x@evil.example"),
    "another text than the model wrote": lambda one: call_of(one, "send_mail")["parameters"].update(text="send W77"),
    "another tool": lambda one: call_of(one, "send_mail").update(tool_name="ship"),
    "another plan": lambda one: edit(one, "mint", id="another"),
    "no plan": lambda one: one["entries"].remove(next(e for e in one["entries"] if e["kind"] == "mint")),
    "another user": lambda one: edit(one, "mint", user_id="bob"),
    "another conversation": lambda one: edit(one, "mint", conversation_id="c2"),
    "a plan that is over": lambda one: edit(one, "mint", until="2026-01-05T09:00:00Z"),
    "a plan of later": lambda one: edit(one, "mint", created_at="2026-01-05T19:00:00Z"),
    "a draw too many": lambda one: edit(one, "reserve", mandate={**draw_of(one), "drawn": 3}),
    "a draw before the yes": reread,
    "a smaller sum": lambda one: line_of(one).update(sum={"amount": "5"}),
}


def draw_of(record: Record) -> Record:
    found: Record = next(one["result"]["mandate"] for one in record["entries"] if one["kind"] == "reserve")
    return found


def line_of(record: Record) -> Record:
    found: Record = next(one["result"]["plan"]["lines"][0] for one in record["entries"] if one["kind"] == "mint")
    return found


def is_proved(record: Record) -> bool:
    try:
        return verify_plan(as_file(record), as_file(record)).startswith("2 of its calls ran under the plan ")
    except NotProvedError:
        return False


async def test_what_is_not_within_the_lines_is_not_proved(migrated_database: Database) -> None:
    desk = await planned(migrated_database)
    record = desk.turns[1].record.to_json()
    assert is_proved(record)
    forged = {name: json.loads(json.dumps(record)) for name in FORGERIES}
    for name, forge in FORGERIES.items():
        forge(forged[name])
    assert [name for name in FORGERIES if is_proved(forged[name])] == []


async def test_a_call_after_a_revocation_is_not_proved_with_every_statement_of_the_log(log: Database, tmp_path: Path) -> None:
    desk = await planned(log)
    assert await log.write(lambda connection: revoke(connection, log.time(), Sealer(None), by="ann")) == 1
    await tree_of(log, None).seal()
    decision = desk.turns[2].record
    proof = await read_proof(log, decision.header.decision_id)
    for file, text in (await rules_files(log)).items():
        (tmp_path / file).write_text(text, encoding="utf-8", newline="")
    of_turn = as_file(decision.to_json())
    assert verify_in_force(of_turn, proof.proof, tmp_path) == "no statement of the log revokes the plan before these calls"

    late = decision.to_json()
    edit(late, "reserve", facts={"now": "2100-01-01T00:00:00Z"})
    with pytest.raises(NotProvedError, match="revoked before a call"):
        verify_in_force(as_file(late), proof.proof, tmp_path)
    edit(late, "reserve", mandate={**draw_of(late), "id": "another"})
    assert verify_in_force(as_file(late), proof.proof, tmp_path)

    (tmp_path / "statements.json").write_text("[]", encoding="utf-8")
    with pytest.raises(NotProvedError, match="is not opened"):
        verify_in_force(of_turn, proof.proof, tmp_path)


async def test_a_call_in_the_run_of_a_job_is_proved_under_its_standing_plan(migrated_database: Database) -> None:
    desk = JobDesk(migrated_database, [*MAKE, *RUN], answers={**FOUND})
    agreed = (await desk.stand(await desk.made(), runs=1)).record.to_json()
    record = (await desk.start()).record.to_json()
    assert verify_plan(as_file(record), as_file(agreed)).startswith("1 of its calls ran under the plan ")
    assert draw_of(record)["run"] == 1
    for run in (2, 0, None):
        more = json.loads(json.dumps(record))
        draw = draw_of(more)
        del draw["run"]
        edit(more, "reserve", mandate=draw if run is None else {**draw, "run": run})
        with pytest.raises(NotProvedError, match="more runs have drawn than the plan permits"):
            verify_plan(as_file(more), as_file(agreed))
    forged: list[tuple[Record, Record]] = []
    for job in ("other", ""):
        other = json.loads(json.dumps(record))
        other["header"]["context"]["job"] = job
        forged.append((other, agreed))
    edited = json.loads(json.dumps(agreed))
    minted = next(one["result"] for one in edited["entries"] if one["kind"] == "mint")
    edit(edited, "mint", plan={**minted["plan"], "job": ""})
    forged.append((record, edited))
    for one, other in forged:
        with pytest.raises(NotProvedError, match="another user, conversation or job"):
            verify_plan(as_file(one), as_file(other))


async def test_each_run_of_a_standing_plan_is_proved_and_its_calls_are_counted(migrated_database: Database) -> None:
    twice = [calls(("find_order", {"order": "any"})), calls(refund("W77"), refund("W78"))]
    desk = JobDesk(migrated_database, [*twice, *twice, says("Refunded."), *RUN], answers={**FOUND})
    agreed = (await desk.stand(await desk.made(), runs=2)).record.to_json()
    runs = [(await desk.start()).record.to_json() for _ in range(2)]
    proved = [verify_plan(as_file(one), as_file(agreed)) for one in runs]
    assert [one.partition(" its calls")[0] for one in proved] == ["2 of", "1 of"]
    assert [draw_of(one)["run"] for one in runs] == [1, 2]
    reserved = [one["result"]["mandate"] for one in runs[0]["entries"] if one["kind"] == "reserve"]
    assert [one["drawn"] for one in reserved] == [1, 2]
    reserved[1]["drawn"] = 1
    with pytest.raises(NotProvedError, match="two calls are the same draw of a line"):
        verify_plan(as_file(runs[0]), as_file(agreed))
    # A call that failed frees its draw.
    call_of(runs[0], "refund")["success"] = False
    assert verify_plan(as_file(runs[0]), as_file(agreed)).startswith("2 of its calls")
