"""A desk that lends things, for tests of what is read about a call: a test changes what its server has between two turns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from graph_agent.clock import SequentialIds
from graph_agent.errors import ToolErrorCode
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.decision import PendingAction
from graph_agent.models.llm import ToolDeclaration
from graph_agent.models.tools import ToolResult, ToolTraits
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.signature import Signer
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.turn.finished import FinishedTurn
from tests.replayed_turns import replayed
from tests.scripted_turns import SECRET, TableServer, asks, calls, done, failed, grouped

CONSTITUTION = """You lend things.

## Available Tools
- find_loan: Find a loan (reads)
- extend: "Extend {loan_record.item or loan} until {due}[ for a fee of {loan_record.fee}][: {loan_record.note}]\
[ at {loan_record.place}][ by {way}]" \
(requires confirmation) (undone by extend(loan = arguments.loan, due = loan_record.due) for 30 minutes)

## Facts
- loan_record: find_loan(loan = arguments.loan)
"""
CONDITIONS = """@id("base") permit (principal, action, resource);
@id("only a loan that is not returned is extended") forbid (principal, action == Action::"extend", resource)
unless { context.result has loan_record && context.result.loan_record.status != "returned" };
"""
APPROVED = """@id("extensions need a manager") forbid (principal, action == Action::"extend", resource)
unless { context.approvals.manager >= 1 };
"""
EXTEND = ("extend", {"loan": 1, "due": "2027-01-15"})


def conditions(*more: str, **fields: Any) -> ConditionsFile:
    return ConditionsFile("\n".join([CONDITIONS, *more]), **fields)


def _schema(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


@dataclass
class LoanDesk(TableServer):
    """A `ToolServer` with one loan. It describes the loan to people only if it has a `description`."""

    ledger: bool = False
    loan: dict[str, Any] = field(
        default_factory=lambda: {
            "item": "camera",
            "due": "2026-12-10",
            "fee": 2,
            "status": "open",
            "note": None,
            "place": {"city": "Kiel", "floor": None},
        }
    )
    description: str = ""
    way: str = "letter"
    """The default of an argument."""
    fails: bool = False
    """True if the loan can be neither read nor described."""

    def __post_init__(self) -> None:
        self.answers = {"find_loan": lambda _: self._readable(dict(self.loan)), "extend": self._extend}

    def get_available_tools(self) -> list[str]:
        return ["find_loan", "extend"]

    def declarations(self) -> list[ToolDeclaration]:
        loan, text = {"type": "integer"}, {"type": "string"}
        way = {"type": "string", "enum": ["letter", "mail"], "default": self.way}
        extension = _schema("loan", "due", loan=loan, due=text, way=way)
        return [
            ToolDeclaration(name="find_loan", description="Find a loan.", parameters=_schema("loan", loan=loan)),
            ToolDeclaration(name="extend", description="Extend a loan.", parameters=extension),
        ]

    def traits(self, tool_name: str) -> ToolTraits:
        return ToolTraits(read_only=tool_name == "find_loan", preview=bool(self.description) and tool_name == "extend")

    async def preview(self, tool_name: str, *rest: Any, **more: Any) -> ToolResult:
        del tool_name, rest, more
        return self._readable({"description": self.description})

    @property
    def extended(self) -> int:
        """The number of changes that were made."""
        return sum(tool == "extend" for tool, *_ in self.sent)

    def _extend(self, given: dict[str, Any]) -> ToolResult:
        self.loan["due"] = given["due"]
        return done({"due": given["due"]})

    def _readable(self, data: dict[str, Any]) -> ToolResult:
        return failed(ToolErrorCode.TOOL_EXECUTION_ERROR, "the disk is full") if self.fails else done(data)


Change = Callable[[LoanDesk], None]


def sets(**values: Any) -> Change:
    """Return the change that gives fields of the loan other values."""
    return lambda desk: desk.loan.update(values)


def without(name: str) -> Change:
    def leave_out(desk: LoanDesk) -> None:
        del desk.loan[name]

    return leave_out


def in_other_order(desk: LoanDesk) -> None:
    desk.loan = {
        name: dict(reversed(value.items())) if isinstance(value, dict) else value for name, value in reversed(desk.loan.items())
    }


def describes(text: str) -> Change:
    def describe(desk: LoanDesk) -> None:
        desk.description = text

    return describe


def fails(desk: LoanDesk) -> None:
    desk.fails = True


DIFFERENT: dict[str, tuple[Change, str]] = {
    "preview": (describes("camera 1 (in use)"), "What it acts on was 'camera 1', and is now 'camera 1 (in use)'."),
    "fact": (sets(status="overdue"), "Loan record status was 'open', and is now 'overdue'."),
    "before": (sets(due="2026-12-12"), "Due was 10 December 2026, and is now 12 December 2026."),
    "sentence": (sets(item="lens"), "Loan record item was 'camera', and is now 'lens'."),
    "number": (sets(fee=3), "Loan record fee was 2, and is now 3."),
    "type": (sets(fee="2"), "Loan record fee was 2, and is now '2'."),
    "seconds": (sets(note="2027-01-15T10:00:01Z"), "Loan record note is now 15 January 2027, 10:00:01 UTC."),
    "long": (sets(item="x" * 1_000), "Loan record item has changed."),
    "gone": (without("item"), "Loan record item was 'camera', and is not known now."),
}
"""Changes after the question by which it is asked again, each with what people read about it."""

EQUAL: dict[str, Change] = {
    "nothing": lambda _: None,
    "order of keys": in_other_order,
    "1 and 1.0": sets(fee=2.0),
    "null and absent": without("note"),
    "null and absent in an object": sets(place={"city": "Kiel"}),
}
"""Changes after the question that leave every value as it was."""


class Talk:
    """A question about an extension, and its answers. Each turn is replayed, and must give the same."""

    def __init__(self, desk: LoanDesk, rules: ConditionsFile | None, *requested: tuple[str, dict[str, Any]]) -> None:
        self.desk, self.rules, self.requested = desk, rules, requested or (EXTEND,)
        self.pending: PendingAction | None = None
        self.ids = SequentialIds()
        self.engine = self.new_engine()

    def new_engine(self) -> LLMAgentEngine:
        given = grouped(ids=self.ids, signer=Signer(SECRET), conditions=self.rules)
        return LLMAgentEngine(ScriptedAdapter([calls(*self.requested)] * 2), self.desk, CONSTITUTION, **given)

    async def say(self, text: str) -> FinishedTurn:
        context = asks(text, pending_confirmation=self.pending)
        finished = await replayed(self.engine, await self.engine.run(context))
        self.pending = finished.decision.pending_action
        return finished
