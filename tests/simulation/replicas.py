"""The replicas of the service: each is a process with the real chat service, and is started again after its death."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from random import Random

from graph_agent.bootstrap.record_tree import seal_if_possible
from graph_agent.chat.service import ChatService
from graph_agent.chat.settling import OutcomeSettler
from graph_agent.due.table import DueTable
from graph_agent.errors import ServiceError
from graph_agent.graph.build import shipped_graph
from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.decision import AfterYes
from graph_agent.policy.signature import Signer
from graph_agent.question.approvals import ApprovalStore, OpensRequests
from graph_agent.question.confirmations import ConfirmationStore
from graph_agent.record.permit import Permit
from graph_agent.record.settlements import UnknownOutcomes
from graph_agent.record.tree.kept_head import KeptHead
from graph_agent.record.tree.leaves import Sealer
from graph_agent.record.tree.reading import read_head
from graph_agent.record.tree.service import RecordTree
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.tlog.checkpoint import Checkpoint, LogKeys
from graph_agent.tlog.note import KeyType, SigningKey
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.turn.setup import EngineOptions, EnginePorts
from tests.simulation.clocks import RandomUuids, SimulatedClock
from tests.simulation.database import DatabaseServer
from tests.simulation.event_loop import Process, SimulatedLoop
from tests.simulation.faults import Faults
from tests.simulation.history import History
from tests.simulation.model import ModelWorld, SimulatedModel
from tests.simulation.policies import REDECLARED, USUAL, conditions
from tests.simulation.tools import CONSTITUTION, SimulatedTools, ToolWorld
from tests.simulation.watch import Watch

KEY = b"a key for simulations only"
LOG_KEYS = LogKeys([SigningKey.generate("simulation.example/log", KeyType.LOG)])
TIMEOUT_SECONDS = 20.0
_SEAL_SECONDS = 1.0
_TAKEN_SECONDS = 5.0
_GRACE_SECONDS = 30.0


@dataclass(frozen=True)
class World:
    """What the processes of a simulation share."""

    loop: SimulatedLoop
    random: Random
    faults: Faults
    history: History
    database: DatabaseServer
    tools: ToolWorld
    model: ModelWorld
    watch: Watch


class SimulatedHead(KeptHead):
    """The file of a host with the last checkpoint that one of its processes has signed. A process may die before it writes."""

    def __init__(self, random: Random) -> None:
        self.note: str | None = None
        self._random = random

    async def read(self) -> str | None:
        await asyncio.sleep(self._random.uniform(0.0, 0.01))
        return self.note

    async def write(self, note: str) -> None:
        await asyncio.sleep(self._random.uniform(0.0, self._random.choice((0.01, 1.0))))
        self.note = note


class Replica:
    """A replica, whose process may be another one after each start."""

    def __init__(self, world: World, number: int) -> None:
        self.number = number
        self.process = Process("none")
        self.process.alive = False
        self.chat: ChatService
        self.engine: LLMAgentEngine
        self.signed: list[Checkpoint] = []
        """The heads of the log that were read after its processes had sealed it."""
        self.head = SimulatedHead(world.random)
        self.clock: SimulatedClock
        self.died: asyncio.Future[None]
        self.policy = USUAL
        """The policy of its next process."""
        self._world = world
        self._starts = 0

    def start(self) -> None:
        """Start a new process, on the host of the last one."""
        world = self._world
        self._starts += 1
        ahead = self.clock.ahead_seconds if self._starts > 1 else world.random.uniform(-1, 1) * world.faults.skew
        self.process = process = world.loop.start_process(f"r{self.number}.{self._starts}")
        self.died = died = world.loop.create_future()
        process.on_killed = lambda: None if died.done() else died.set_result(None)
        self.clock = SimulatedClock(world.loop, ahead)
        rules = f", and the {self.policy} policy" if world.faults.approvals else ""
        world.history.add(process.name, f"starts with a clock that is {ahead:+.3f} s ahead{rules}")
        process.context().run(self._start_services)

    def kill(self) -> None:
        """End the process at once."""
        self._world.history.add(self.process.name, "is killed")
        self.process.kill()

    async def shut_down(self) -> None:
        """End the process as a server does on SIGTERM: running turns are ended first."""
        process = self.process
        self._world.history.add(process.name, "shuts down")
        closing = self._world.loop.spawn(process, self.chat.aclose())
        await asyncio.wait([closing, self.died], timeout=_GRACE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        process.kill()

    async def serve_due(self) -> None:
        """Do what is due, and let the replicas end what they have taken meanwhile."""
        await self._world.loop.spawn(self.process, self.chat.serve_due())
        await asyncio.sleep(_TAKEN_SECONDS)

    async def stop(self, decision_id: str, user_id: str) -> None:
        """Let the user stop a turn at this replica."""
        with suppress(ServiceError):
            await self.chat.stop(decision_id, user_id)

    def _timeout_seconds(self) -> float:
        """Return a time limit that no other process has: its settings are a text that it has to store itself."""
        return TIMEOUT_SECONDS + self.number / 1000 + self._starts / 1_000_000

    def _start_services(self) -> None:
        world, ids = self._world, RandomUuids(self._world.random)
        database = world.database.open(self.process)
        approvals = ApprovalStore(database, record_key=KEY, origin=LOG_KEYS.origin)
        turn, unknown = OpensRequests(approvals), UnknownOutcomes(DueTable(database))
        audit = DatabaseAuditWriter(database, clock=self.clock, record_key=KEY, turn=turn, unknown=unknown)
        # The age of what is known of stops is simulated too: a slow machine must not read them more often.
        audit.permit = Permit(database, Sealer(KEY), self.clock.monotonic)
        tools = SimulatedTools(world.tools, self.process, redeclared=self.policy == REDECLARED)
        faults = world.faults
        self.engine = LLMAgentEngine(
            SimulatedModel(world.model),
            tools,
            CONSTITUTION,
            ports=EnginePorts(audit, self.clock, ids, Signer(KEY), ConfirmationStore(database), approvals),
            options=EngineOptions(
                config=AgentEngineConfig(
                    max_iterations=3,
                    timeout_seconds=self._timeout_seconds(),
                    after_yes=world.random.choice(tuple(AfterYes)),
                    approval_hours=faults.approval_seconds / 3600,
                ),
                conditions=conditions(budgets=faults.budgets, approvals=faults.approvals, policy=self.policy),
                graph=shipped_graph(),
            ),
        )
        settler = OutcomeSettler(tools, database, clock=self.clock, record_key=KEY)
        tree = RecordTree(database, LOG_KEYS, key=KEY, clock=self.clock, head=self.head)
        self.chat = ChatService(
            self.engine, clock=self.clock, ids=ids, turns_per_minute=1000, maintenance=(tree.seal,), settler=settler
        )
        world.watch.services[self.process] = self.chat
        world.watch.policies[self.process] = self.policy
        world.loop.spawn(self.process, self.chat.serve_due_forever())
        world.loop.spawn(self.process, self._seal_forever(audit, tree))

    async def _seal_forever(self, audit: DatabaseAuditWriter, tree: RecordTree) -> None:
        """Seal the log as the server does: soon after this process has closed a decision."""
        while True:
            await audit.closed.wait()
            audit.closed.clear()
            await seal_if_possible(tree)
            if (head := self._world.database.look(read_head)) is not None:
                self.signed.append(tree.keys.open(head.note))
            await asyncio.sleep(_SEAL_SECONDS)
