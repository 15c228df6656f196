"""Planted defects: changes of the package's source, made while it is imported, that the simulation must find.

`python -m tests.simulation --defect NAME` runs with one of them. This module imports nothing of the package.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any


@dataclass(frozen=True)
class Edit:
    """The replacement of a text that occurs once in a module."""

    module: str
    old: str
    new: str


_ROWS = "graph_agent.chat.conversations.turn_rows"
_TURNS = "graph_agent.chat.conversations.turns"
_LEASES = "graph_agent.chat.leases"
_RECORDER = "graph_agent.turn.recorder"
_RUN = "graph_agent.turn.run"
_WRITER = "graph_agent.record.writer"
_OPERATIONS = "graph_agent.record.operations"
_DATABASE = "graph_agent.db.database"
_TREE = "graph_agent.record.tree.service"
_UNDO = "graph_agent.turn.undo"
_APPROVALS = "graph_agent.chat.approvals"
_APPROVAL_RULES = "graph_agent.chat.approval_rules"
_REQUESTS = "graph_agent.question.transitions"
_SEAL = "            while (checkpoint := await write(self._database, self._sealer.seal)) is not None:\n"
_SEAL_IN_TWO = "            while (checkpoint := await self._seal_in_two()) is not None:\n"
_BEFORE_SEEN = "    async def seen_elsewhere("

_APPROVAL_DEFECTS: Mapping[str, Sequence[Edit]] = {
    "rows are counted": [
        Edit(
            _REQUESTS,
            "if is_same_person(one.person, answer.person))",
            "if (one.person, one.role) == (answer.person, answer.role))",
        ),
        Edit(
            _REQUESTS,
            "answers.c.person == answer.person)\n",
            "answers.c.person == answer.person, answers.c.role == answer.role)\n",
        ),
        Edit(
            "graph_agent.question.tables",
            '    Column("role", String(255), nullable=False),\n',
            '    Column("role", String(255), primary_key=True),\n',
        ),
        Edit(
            "graph_agent.models.approval",
            "            people.append(one.approver)\n",
            "",
        ),
    ],
    "the requester's own answer counts": [
        Edit(
            _APPROVALS,
            "        if _is_own(stored, user_id):\n            raise",
            "        if False:\n            raise",
        ),
        Edit(
            _REQUESTS,
            "        if is_same_person(question.user_id, answer.person):\n            raise",
            "        if not question.user_id:\n            raise",
        ),
        Edit(
            "graph_agent.question.tables",
            "(asks = 'requester') = (person = requester)",
            "(asks = 'requester') <= (person = requester)",
        ),
        Edit("graph_agent.models.approval", "people, counts = [requester], Counter", "people, counts = list[str](), Counter"),
    ],
    "the claim does not look at the state": [
        Edit(
            _REQUESTS,
            "        if question.state is QuestionState.OPEN:\n            if not question.in_time or not may_run(question):\n",
            "        if question.state is QuestionState.OPEN or (question.in_time and may_run(question)):\n"
            "            reopened = update(questions).where(_Q.id == question_id)\n"
            "            connection.execute(reopened.values(state='open', ended_at=None, slot=5))\n"
            "            if not question.in_time or not may_run(question):\n",
        ),
    ],
    "a denial is written without a condition": [
        Edit(
            _REQUESTS,
            "        if question.state is not QuestionState.OPEN or (answer.yes and not question.in_time):\n",
            "        if answer.yes and (question.state is not QuestionState.OPEN or not question.in_time):\n",
        ),
        Edit(
            _REQUESTS,
            "        if connection.execute(asked).first() is None:\n",
            "        if answer.yes and connection.execute(asked).first() is None:\n",
        ),
        Edit(_REQUESTS, "where(_Q.id == question_id, _IS_OPEN, *conditions)", "where(_Q.id == question_id, *conditions)"),
    ],
    "the expiry is not checked at the claim": [
        Edit(_REQUESTS, "if not question.in_time or not may_run(question):", "if not may_run(question):"),
        Edit(_REQUESTS, "QuestionState.APPROVED, decision_id, self.in_time)", "QuestionState.APPROVED, decision_id)"),
        # Then a request must not be ended before it is decided, or that hides the mistake.
        Edit(
            _APPROVALS,
            "        await self._requests.expire(work.key)\n"
            "        if (later := await self._try_to_close(work.key, decides=False))",
            "        await self._try_to_close(work.key)\n"
            "        await self._requests.expire(work.key)\n"
            "        if (later := None)",
        ),
    ],
    "the request of the answer runs the call beside the claim": [
        Edit(
            _APPROVALS,
            "        self.close_soon(request_id)\n        return await self._summary(answered, snapshot)",
            "        counts = count_approvals(answered.answers, answered.request.user_id)\n"
            "        known = await self._looks.of_decider(answered.request, snapshot.policy, 0) or Circumstances()\n"
            "        call = Judge(snapshot.policy, known).verdict(answered.request, counts).authorized\n"
            "        if approve and call is not None:\n"
            "            asyncio.ensure_future(self._engine.external.execute(call))\n"
            "        self.close_soon(request_id)\n"
            "        return await self._summary(answered, snapshot)",
        )
    ],
    "recovery ends the turn as interrupted": [
        Edit(_RUN, "        asks_model = asks_model or stored.header.context.approval is not None\n", "")
    ],
}
DEFECTS: Mapping[str, Sequence[Edit]] = {
    **_APPROVAL_DEFECTS,
    "the rules under which a request was asked are not judged": [
        Edit(_APPROVAL_RULES, "        return AskedRules(tuple(found))\n", "        return AskedRules()\n"),
    ],
    "leases are set and compared by the host's clock": [
        Edit(
            _TURNS,
            "turn_rows.LeaseStatements(audit.database, lease)",
            "turn_rows.LeaseStatements(__import__('types').SimpleNamespace(dialect=audit.database.dialect, "
            "time=lambda after=timedelta(): __import__('sqlalchemy').bindparam(None, callable_=lambda: clock.now() + after, "
            "type_=__import__('graph_agent.db').db.UtcDateTime)), lease)",
        )
    ],
    "the loser of the race for a response goes on": [
        Edit(
            _RECORDER,
            "        free = await self._writer.write_progress(",
            "        free = await _adopt(self._writer.write_progress)(",
        ),
        Edit(
            _RECORDER,
            "class Recorder:\n",
            "def _adopt(write: Any) -> Any:\n"
            "    async def adopted(*given: Any, **named: Any) -> bool:\n"
            "        try:\n"
            "            return await write(*given, **named)\n"
            "        except TurnTakenOverError:\n"
            "            return True\n"
            "    return adopted\n\n\nclass Recorder:\n",
        ),
    ],
    "a path that was walked twice is kept in the record": [
        Edit("graph_agent.turn.finished", "    require_whole_path(graph, steps)\n", ""),
        Edit(_RUN, "self._compose_and_close(again, steps)", "self._compose_and_close(again, [*self.steps, *steps])"),
    ],
    "the object of a confirmed call is not compared with what the question showed": [
        Edit(
            "graph_agent.policy.gates",
            "    if not has_changed(hand):\n        return None\n    whom",
            "    if True:\n        return None\n    whom",
        )
    ],
    "a lease is not renewed": [Edit(_LEASES, "            await self._renew()\n", "")],
    "the attempt of a turn is not checked": [
        Edit(_ROWS, '_BY_ID & (turns.c.attempt == bindparam("claimed_attempt")) & (', "_BY_ID & (")
    ],
    "a commit is retried blindly": [
        Edit(
            _DATABASE,
            "        self._backend.submit_write(work, reply, closing=_closing.get())\n        return await reply.future\n",
            "        from graph_agent.db.backend import DatabaseUnavailableError\n"
            "        self._backend.submit_write(work, reply, closing=_closing.get())\n"
            "        try:\n"
            "            return await reply.future\n"
            "        except DatabaseUnavailableError:\n"
            "            again: LoopReply[T] = LoopReply()\n"
            "            self._backend.submit_write(work, again, closing=_closing.get())\n"
            "            return await again.future\n",
        )
    ],
    "a commit of the record is retried blindly": [
        Edit(
            _WRITER,
            "            return await self.database.write(work)\n",
            "            try:\n"
            "                return await self.database.write(work)\n"
            "            except DatabaseUnavailableError:\n"
            "                return await self.database.write(work)\n",
        )
    ],
    "the row of an operation does not name the attempt": [
        Edit(_OPERATIONS, '**given, "attempt": attempt}', '**given, "attempt": 1}')
    ],
    "a turn is taken over although it is claimed": [
        Edit(
            _ROWS,
            "select(turns.c.lease_until, turns.c.id, turns.c.attempt).where(running, expired)",
            "select(turns.c.lease_until, turns.c.id, turns.c.attempt).where(running)",
        ),
        Edit(_ROWS, "            .where(_CLAIMED, expired)\n", "            .where(_CLAIMED)\n"),
    ],
    "decisions whose turns run are closed": [
        Edit(
            "graph_agent.chat.recovery",
            "        left = [one for one in users if one not in running and self._engine.running(one) is None]\n",
            "        left = list(users)\n",
        ),
        Edit(
            "graph_agent.chat.recovery",
            "            if self._engine.running(decision_id) is not None or await",
            "            if await",
        ),
    ],
    "a turn is closed by an attempt that has lost it": [
        Edit(_ROWS, "PreparedStatement(update(turns).where(_CLAIMED)", "PreparedStatement(update(turns).where(_BY_ID)")
    ],
    "a verdict on a batch ignores that an earlier call has failed": [
        Edit(
            "graph_agent.graph.batch",
            "        succeeded=sent and (supposed or call.result.success),\n",
            "        succeeded=sent,\n",
        )
    ],
    "a card goes on after a call that was not done": [
        Edit(
            "graph_agent.graph.nodes.execute_tools",
            "            batch.closed = ReasonCode.CARD_STOPPED\n",
            "            pass\n",
        )
    ],
    "a lease is lost without fencing the run": [
        Edit(_LEASES, "            if lost and not claim.run.fenced:\n", "            if False:\n")
    ],
    "a text is taken as stored before its commit": [
        Edit(
            _WRITER,
            "        store_texts(connection, stale, started_at)\n",
            "        store_texts(connection, stale, started_at)\n        self.remember_texts(opening)\n",
        )
    ],
    "the head of the log is kept before the commit of the seal": [
        Edit(_TREE, "await write(self._database, self._sealer.seal)", "await write(self._database, self._seal_and_keep)"),
        Edit(
            _TREE,
            _BEFORE_SEEN,
            "    def _seal_and_keep(self, connection: Connection) -> Checkpoint | None:\n"
            "        checkpoint = self._sealer.seal(connection)\n"
            "        if checkpoint is not None and self._head is not None:\n"
            "            self._head.note = self.keys.sign(checkpoint)\n"
            "        return checkpoint\n\n" + _BEFORE_SEEN,
        ),
    ],
    "a lease is renewed too late": [Edit(_LEASES, "RENEW_AFTER_SECONDS = 2.0", "RENEW_AFTER_SECONDS = 6.0")],
    "entries are appended by a process that has lost the turn": [
        Edit(_ROWS, "if IS_CLAIMED.first(connection, self._turn.key) is None:", "if False:")
    ],
    "the operation of another attempt is sent again": [
        Edit(
            _OPERATIONS,
            "    return _INTEND.first(connection, row) is not None",
            "    _INTEND.first(connection, row)\n    return True",
        ),
        Edit(_RECORDER, "(resumed_here or not sendable)", "not sendable"),
    ],
    "a call is sent before its operation is committed": [
        Edit(_RECORDER, "        sendable = await self._save_before(call)\n", "        sendable = True\n")
    ],
    "a call of an unknown outcome is sent again": [
        Edit(
            "graph_agent.graph.authorized",
            "    result = await ports.execute(call)\n    if call.mutating:\n",
            "    result = await ports.execute(call)\n    if result.unknown:\n        result = await ports.execute(call)\n"
            "    if call.mutating:\n",
        )
    ],
    "the model is asked again after a crash": [
        Edit(
            _RUN,
            "        entries = list(stored.entries)\n",
            "        entries = []\n        stored = stored.replace(entries=[])\n",
        )
    ],
    "an unknown outcome is recorded as a failure": [
        Edit(
            "graph_agent.turn.external",
            "except TimeoutError:\n            return ToolResult.failed(ToolErrorCode.TIMEOUT_ERROR, OUTCOME_UNKNOWN)\n",
            "except TimeoutError:\n            return ToolResult.failed(ToolErrorCode.TOOL_EXECUTION_ERROR, 'late')\n",
        )
    ],
    "an interrupted turn forgets its last call": [
        Edit(_RECORDER, "        if self._lost_call in ((kind, request), _ANY_CALL):\n", "        if False:\n")
    ],
    "a repeated request starts another turn": [
        Edit(
            "graph_agent.chat.conversations.turns",
            '"idem_key": request.idem_key, "body_digest": request.body_digest}',
            '"idem_key": None, "body_digest": request.body_digest}',
        )
    ],
    "a budget is read before the transaction that counts the call": [
        Edit(
            _WRITER,
            "            past = operations.find_uses(connection, operation.user_id, reservation.since, without=decision_id)\n",
            "",
        ),
        Edit(
            _WRITER,
            "        operation = reservation.operation\n",
            "        operation = reservation.operation\n"
            "        past = await self._read(\n"
            "            lambda c: operations.find_uses(c, operation.user_id, reservation.since, decision_id)\n"
            "        )\n",
        ),
    ],
    "calls whose outcome is not known do not count": [
        Edit(
            _OPERATIONS,
            '_row.state != OperationState.VOID, _row.decision_id != bindparam("without")',
            '_row.state == OperationState.DONE, _row.decision_id != bindparam("without")',
        )
    ],
    "a decision without a chat goes on after it was closed": [
        Edit(_WRITER, 'if _STILL_OPEN.first(connection, {"decision": decision_id}) is None:', "if False:")
    ],
    "a decision without a chat is left open": [Edit(_RUN, "            run.leave_open()\n", "            pass\n")],
    "a kind of work has no turn while there are others": [
        Edit(
            "graph_agent.due.worker",
            "        firsts = await self._first_due(lanes)\n",
            "        firsts = await self._first_due(lanes[:1])\n",
        )
    ],
    "the age of a decision is taken by the host's clock": [
        Edit(_WRITER, "self.database.time(-age)", "self._clock.now() - age")
    ],
    "a log that is sealed later is an error": [
        Edit("graph_agent.bootstrap.record_tree", '_log.warning("the log is sealed', '_log.error("the log is sealed')
    ],
    "a leaf is stored in a second commit": [
        Edit(_WRITER, "                leaf.store(connection)\n", ""),
        Edit(
            _WRITER,
            "        self.closed.set()\n        return record if",
            "        if stored_text is text:\n"
            "            await self._write(leaf.store, 'the leaf is stored')\n"
            "        self.closed.set()\n        return record if",
        ),
    ],
    "rows are taken from the queue in one commit and sealed in the next": [
        Edit(_TREE, _SEAL, _SEAL_IN_TWO),
        Edit(
            _TREE,
            _BEFORE_SEEN,
            "    async def _seal_in_two(self) -> Checkpoint | None:\n"
            "        from sqlalchemy import delete\n"
            "        from graph_agent.record.tree.tables import record_pending\n"
            "        def take(connection):\n"
            "            rows = self._sealer._waiting(connection)\n"
            "            taken = record_pending.c.number.in_([row.number for row in rows])\n"
            "            connection.execute(delete(record_pending).where(taken))\n"
            "            return rows\n"
            "        rows = await write(self._database, take)\n"
            "        def seal(connection):\n"
            "            return self._sealer._append(connection, rows) if rows else None\n"
            "        return await write(self._database, seal)\n\n" + _BEFORE_SEEN,
        ),
    ],
    "rows are read in one transaction and sealed in the next": [
        Edit(_TREE, _SEAL, _SEAL_IN_TWO),
        Edit(
            _TREE,
            _BEFORE_SEEN,
            "    async def _seal_in_two(self) -> Checkpoint | None:\n"
            "        rows = await read(self._database, self._sealer._waiting)\n"
            "        def seal(connection):\n"
            "            return self._sealer._append(connection, rows) if rows else None\n"
            "        return await write(self._database, seal)\n\n" + _BEFORE_SEEN,
        ),
    ],
    "a head counts as seen before its commit": [
        Edit(_TREE, "        return checkpoint\n", "        self.seen = checkpoint\n        return checkpoint\n")
    ],
    "a settlement has no leaf": [
        Edit(
            "graph_agent.record.settlements",
            "        insert_leaf_row(connection, LeafKind.SETTLEMENT, reports_table, row, sealer)\n",
            "        connection.execute(reports_table.insert(), {**row, 'salt': ''})\n",
        )
    ],
    "the renewal of leases ends with its first failure": [
        Edit(_LEASES, "except (ServiceError, TimeoutError):", "except TimeoutError:")
    ],
    "a yes is used up without its call": [
        Edit(
            _RUN,
            "        continues = can_confirm if has_yes else asks_model or can_confirm\n",
            "        continues = asks_model\n",
        ),
        Edit(
            "graph_agent.graph.nodes.build_request",
            "    if consent is Consent.YES and ports.interrupted:\n",
            "    if False:\n",
        ),
    ],
    "a change is undone a second time": [
        Edit(_UNDO, "    if undone_by is not None:\n", "    if False:\n"),
        Edit("graph_agent.record.tables", '"undoes", unique=True, ', '"undoes", '),
    ],
    "a user undoes the change of another one": [Edit(_UNDO, " or record.header.context.user_id != user_id:\n", ":\n")],
    "a turn that was lost is closed by the loser": [
        Edit(
            _ROWS,
            "        if earlier is None:\n            raise self._lost()\n        self.answer",
            "        if earlier is None:\n            self.answer = answer\n            return True\n        self.answer",
        )
    ],
}
"""The name of each defect -> what it changes."""

OF_APPROVALS: Mapping[str, str] = {
    **{name: name for name in _APPROVAL_DEFECTS},
    "an operation row is not looked at": "the operation of another attempt is sent again",
    "the attempt is not checked": "the attempt of a turn is not checked",
}
"""The mistakes that `tests/invariants/approval_model.py` plants in the protocol of an approval request -> the defect."""


def changed(source: str, edits: Sequence[Edit]) -> str:
    """Return the source of a module after its edits. Raises ImportError if one of them does not change exactly one place."""
    for edit in edits:
        if source.count(edit.old) != 1:
            raise ImportError(f"{edit.module} has {source.count(edit.old)} times: {edit.old}")
        source = source.replace(edit.old, edit.new)
    return source


def compile_changed(edits: Sequence[Edit]) -> None:
    """Compile the modules of the edits as they would be after them. Raises ImportError as `changed` does."""
    for module in {edit.module for edit in edits}:
        found = find_spec(module)
        assert found is not None
        assert found.origin is not None
        source = Path(found.origin).read_text(encoding="utf-8")
        compile(changed(source, [edit for edit in edits if edit.module == module]), module, "exec")


class _ChangedLoader(SourceFileLoader):
    """Compiles a changed source, past the cache of bytecode."""

    def __init__(self, edits: Sequence[Edit], fullname: str, path: str) -> None:
        super().__init__(fullname, path)
        self._edits = edits

    def path_stats(self, path: str) -> Mapping[str, Any]:
        raise OSError(f"{path} is changed: its bytecode must not be used")

    def source_to_code(self, data: Any, path: Any, **options: Any) -> CodeType:  # type: ignore[override]  # static elsewhere
        source = changed(bytes(data).decode(), self._edits)
        code: CodeType = super().source_to_code(source.encode(), path, **options)
        return code


class _ChangedModules(MetaPathFinder):
    def __init__(self, edits: Sequence[Edit]) -> None:
        self._edits = edits

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        edits = [edit for edit in self._edits if edit.module == fullname]
        spec = PathFinder.find_spec(fullname, path, target) if edits else None
        if spec is not None and spec.origin is not None:
            spec.loader = _ChangedLoader(edits, fullname, spec.origin)
        return spec


def plant(edits: Sequence[Edit]) -> None:
    """Change the modules of a defect when they are imported."""
    if loaded := [edit.module for edit in edits if edit.module in sys.modules]:
        raise ImportError(f"{loaded[0]} is imported already")
    sys.meta_path.insert(0, _ChangedModules(edits))
