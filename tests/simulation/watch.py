"""The checks at every commit and at every call that is sent: who may write, who may take over, who may send."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any

from sqlalchemy import Connection, select

from graph_agent.chat.conversations.tables import TurnState, turns
from graph_agent.chat.leases import LEASE, RENEW_AFTER_SECONDS
from graph_agent.chat.recovery import ABANDONED_AFTER
from graph_agent.chat.service import ChatService
from graph_agent.models.record import OperationState
from graph_agent.record.tables import call_operations, decision_logs
from graph_agent.turn.handle import TurnHandle
from tests.simulation.approval_watch import ApprovalWatch
from tests.simulation.database import Change, DatabaseServer
from tests.simulation.event_loop import Process, SimulatedLoop
from tests.simulation.faults import Faults
from tests.simulation.history import History
from tests.simulation.tools import APPROVED, WITH_LEDGER, Sent

_AFTER_TROUBLE = LEASE.total_seconds() + 1.5
"""For so long after trouble with the database a process may lose its turns."""
_KEEPS_CLAIM_SECONDS = 1.0
"""A process whose requests to the database all take less than so many seconds does not lose a claim."""
_FENCED_SECONDS = RENEW_AFTER_SECONDS + 1.0
"""So many seconds after a turn was taken over, which its lease was over for, a process that ran meanwhile has ended its run."""
_FENCED_AFTER_JUMP_SECONDS = _FENCED_SECONDS + LEASE.total_seconds()
"""The same if the clock of the database may have ended the lease."""
_EXPIRED_SECONDS = LEASE.total_seconds() + _FENCED_SECONDS
_AROUND = timedelta(minutes=1)
_OF_REQUESTS = frozenset({"questions", "answers"})
_AFTER_THE_END = frozenset({"call_operations"})
"""Tables in which the outcome of a call may be settled after its decision was closed."""
_QUESTION_ENDS = "messages", "UPDATE"
"""A later turn stores in the message that asked a question what became of it."""


@dataclass(frozen=True)
class _Claim:
    process: Process
    user_id: str
    attempt: int
    lease: str
    done: bool


class Watch:
    """Observes every commit of a simulation and every call that is sent."""

    def __init__(self, loop: SimulatedLoop, database: DatabaseServer, faults: Faults, history: History) -> None:
        self.services: dict[Process, ChatService] = {}
        self.policies: dict[Process, str] = {}
        """The policy of each process."""
        self.opened_by: dict[str, Process] = {}
        """The process that has opened each decision without a chat."""
        self._due: set[str] = set()
        """The decisions whose closing was made due, because they were old, or by the process that could not close them."""
        self._loop = loop
        self._database = database
        self._faults = faults
        self._history = history
        self._claims: dict[str, _Claim] = {}
        self._attempts: defaultdict[tuple[str, Process], set[int]] = defaultdict(set)
        self._begun: set[tuple[str, int]] = set()
        """The attempts that have written more than their claim."""
        self._names: dict[str, str] = {}
        self._requests = ApprovalWatch(database.clock, history)

    @property
    def running(self) -> list[tuple[str, str]]:
        """The decisions whose turns run, each with its user."""
        return [(decision_id, claim.user_id) for decision_id, claim in self._claims.items() if not claim.done]

    def name(self, decision_id: str) -> str:
        """Return a short name of a decision for the history."""
        return self._names.setdefault(decision_id, f"d{len(self._names) + 1}")

    def on_commit(self, process: Process, connection: Connection, changes: list[Change]) -> None:
        """Check the changes of a transaction that is about to be committed."""
        for change in changes:
            if change.table == "due":
                self._check_abandoned(process, connection, change.decision_id, "makes due")
                self._due.add(change.decision_id)
        changes = [change for change in changes if change.table != "due"]
        of_requests = [change.decision_id for change in changes if change.table in _OF_REQUESTS]
        if of_requests:
            self._requests.on_commit(process.name, self.policies[process], connection, dict.fromkeys(of_requests))
        changes = [change for change in changes if change.table not in _OF_REQUESTS]
        ended = {decision_id for decision_id, claim in self._claims.items() if claim.done}
        changes = [one for one in changes if one.decision_id not in ended or (one.table, one.operation) != _QUESTION_ENDS]
        for decision_id in dict.fromkeys(change.decision_id for change in changes):
            tables = sorted({change.table for change in changes if change.decision_id == decision_id})
            name = self.name(decision_id)
            found = connection.execute(select(turns).where(turns.c.id == decision_id)).one_or_none()
            if found is None:
                if Change("decision_logs", "INSERT", decision_id) in changes:
                    self.opened_by[decision_id] = process
                if {"decision_logs", "record_entries"} & set(tables):
                    # It has no attempts: whoever finishes it appends to its entries, whose numbers only one process gets.
                    self._attempts[decision_id, process].add(1)
                if Change("decision_logs", "UPDATE", decision_id) in changes:
                    self._check_abandoned(process, connection, decision_id, "closes")
                self._history.add(process.name, f"commits {name}: {', '.join(tables)}")
                continue
            claim = _Claim(process, found.user_id, found.attempt, str(found.lease_until), found.state is TurnState.DONE)
            end = " done" if claim.done else ""
            self._history.add(process.name, f"commits {name} attempt {found.attempt}{end}: {', '.join(tables)}")
            before = self._claims.get(decision_id)
            if before is None or claim.attempt != before.attempt:
                if before is not None:
                    self._check_taken_over(name, decision_id, before, claim)
                self._attempts[decision_id, process].add(claim.attempt)
            else:
                self._check_owned(name, before, claim, tables)
                if tables != ["turns"]:
                    self._begun.add((decision_id, claim.attempt))
                claim = replace(claim, process=before.process)
            self._claims[decision_id] = claim
            if not claim.done and (before is None or claim.lease != before.lease):
                check = partial(self._check_ended, name, decision_id, claim)
                self._loop.call_later(_EXPIRED_SECONDS, check, context=self._loop.outside.context())

    def on_send(self, sent: Sent) -> None:
        """Check that the operation of a change is committed before it is sent, by an attempt of this process."""
        wanted = select(call_operations).where(call_operations.c.operation_key == sent.operation_key)
        rows = self._database.look(lambda connection: connection.execute(wanted).all())
        what = f"{sent.tool_name} {sent.token}"
        if not rows:
            self._history.violated(f"{what} is sent without its operation")
        if sent.tool_name in APPROVED:
            policy = self.policies[sent.process]
            self._database.look(lambda connection: self._requests.on_send(connection, sent.operation_key, policy))
        for row in rows:
            if sent.tool_name in WITH_LEDGER:
                continue
            if row.attempt != sent.attempt or row.attempt not in self._attempts[row.decision_id, sent.process]:
                text = f"{what} is sent by {sent.process.name} as attempt {sent.attempt}, but its operation names attempt"
                self._history.violated(f"{text} {row.attempt}")
            # A process that was paused just before it sends cannot know that its turn was ended meanwhile.
            if row.state not in (OperationState.INTENDED, OperationState.UNKNOWN):
                self._history.violated(f"{what} is sent after its outcome was stored as {row.state.value}")

    def _check_owned(self, name: str, before: _Claim, claim: _Claim, tables: list[str]) -> None:
        process = claim.process
        if before.done:
            if not _AFTER_THE_END.issuperset(tables):
                self._history.violated(f"{name} is changed after its end: {', '.join(tables)}")
        elif process is not before.process and (tables != ["turns"] or claim.done or claim.lease != before.lease):
            owner = before.process.name
            self._history.violated(f"{process.name} writes to {name}, which {owner} has claimed: {', '.join(tables)}")

    def _check_abandoned(self, process: Process, connection: Connection, decision_id: str, does: str) -> None:
        """Another process may close a decision without a chat only when it is old by the database's clock, or was made due."""
        wanted = select(decision_logs.c.created_at).where(decision_logs.c.decision_id == decision_id)
        age = self._database.clock.now() - connection.execute(wanted).scalar_one()
        early = age < ABANDONED_AFTER - _AROUND and not self._faults.database_jumps
        if early and process is not self.opened_by[decision_id] and decision_id not in self._due:
            self._history.violated(f"{process.name} {does} {self.name(decision_id)} after {age}")

    def _check_taken_over(self, name: str, decision_id: str, before: _Claim, claim: _Claim) -> None:
        owner = before.process
        if before.done:
            self._history.violated(f"{name} is taken over after its end")
        if claim.attempt != before.attempt + 1:
            self._history.violated(f"{name} goes from attempt {before.attempt} to {claim.attempt}")
        service = self.services.get(owner)
        run = None if service is None else service.live(decision_id)
        running = run is not None and run.is_running and not run.fenced and run.cancelled_for is None
        if run is not None and running:
            lost_at, seconds = self._loop.time(), _FENCED_SECONDS
            if self._faults.database_jumps:
                seconds = _FENCED_AFTER_JUMP_SECONDS
            check = partial(self._check_fenced, name, owner, run, lost_at)
            self._loop.call_later(seconds, check, context=self._loop.outside.context())
        calm = self._database.troubled_until(owner) + _AFTER_TROUBLE < self._loop.time()
        if owner.alive and running and calm:
            self._history.violated(f"{claim.process.name} takes {name} over from {owner.name}, which runs it")
        if not running and (decision_id, before.attempt) in self._begun and self._keeps_its_turns(owner):
            self._history.violated(f"{name} is taken over from {owner.name}, which has given it up without a reason")

    def _check_ended(self, name: str, decision_id: str, claim: _Claim) -> None:
        """A lease that was not renewed has expired: its process has ended the run, if it was not paused meanwhile."""
        service, owner = self.services.get(claim.process), claim.process
        if service is None or self._claims[decision_id] != claim or owner.paused_until > self._loop.time() - _FENCED_SECONDS:
            return
        run = service.live(decision_id)
        if owner.alive and run is not None and run.is_running and not run.fenced:
            self._history.violated(f"{owner.name} goes on with {name} although its lease has expired")

    def _check_fenced(self, name: str, owner: Process, run: TurnHandle[Any], lost_at: float) -> None:
        """A process that has lost a turn ends its run soon, whatever the run waits for; unless it was paused meanwhile."""
        if owner.alive and owner.paused_until <= lost_at and run.is_running and not run.fenced:
            seconds = self._loop.time() - lost_at
            self._history.violated(f"{owner.name} goes on with {name} {seconds:.0f} s after it has lost it")

    def _keeps_its_turns(self, process: Process) -> bool:
        """True if a process has had no trouble but lost confirmations of commits, after which it ends its turns itself."""
        faults = self._faults
        lossy = any(
            (
                faults.refused,
                faults.lost_requests,
                faults.rollbacks,
                faults.late_commits,
                faults.outages,
                faults.cut_offs,
                faults.database_jumps,
            )
        )
        quick = self._database.longest.get(process, 0.0) < _KEEPS_CLAIM_SECONDS
        return process.alive and not process.paused_until and quick and not lossy
