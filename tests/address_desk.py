"""A desk whose changes can be undone, for tests: the server is a dictionary of orders and notes that a test may change."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from graph_agent.errors import ToolErrorCode
from graph_agent.models.llm import FunctionCall, ToolDeclaration
from graph_agent.models.tools import ToolResult, ToolTraits
from tests.recording_desk import RecordingDesk
from tests.scripted_turns import done, failed

UNDO_ADDRESS = "(undone by set_address(order_id = arguments.order_id, address = order.address.street) for 30 minutes)"
CONSTITUTION = f"""You are the desk of a shop.

## Available Tools
- get_order: Get order (reads)
- set_address: Change the address (without confirmation) {UNDO_ADDRESS}
- add_note: Add a note (without confirmation) (undone by delete_note(note_id = result.note.id) for 2 hours)
- delete_note: Delete a note (requires confirmation)
- send_mail: Send a mail (without confirmation)

## Facts
- order: get_order(order_id = arguments.order_id)
"""
TEXT = {"type": "string"}
READS = {"get_order"}


def schema(*required: str) -> dict[str, Any]:
    return {"type": "object", "properties": dict.fromkeys(required, TEXT), "required": list(required)}


DECLARATIONS = tuple(
    ToolDeclaration(name=name, description=name, parameters=schema(*required))
    for name, required in {
        "get_order": ["order_id"],
        "set_address": ["order_id", "address"],
        "add_note": ["text"],
        "delete_note": ["note_id"],
        "send_mail": ["text"],
    }.items()
)


@dataclass
class AddressDesk(RecordingDesk):
    """A `ToolServer` without a ledger."""

    streets: dict[str, str] = field(default_factory=lambda: {"W1": "Elm 1", "W2": "Oak 2", "W3": "Ash 3"})
    notes: dict[str, str] = field(default_factory=dict)

    def get_available_tools(self) -> list[str]:
        return [tool.name for tool in DECLARATIONS]

    def declarations(self) -> list[ToolDeclaration]:
        return list(DECLARATIONS)

    def traits(self, tool_name: str) -> ToolTraits:
        return ToolTraits(title=tool_name.replace("_", " ").capitalize(), read_only=tool_name in READS)

    def perform(self, tool_name: str, given: dict[str, Any]) -> ToolResult:
        match tool_name:
            case "get_order" if given["order_id"] in self.streets:
                return done({"id": given["order_id"], "address": {"street": self.streets[given["order_id"]]}})
            case "set_address" if given["order_id"] in self.streets:
                self.streets[given["order_id"]] = given["address"]
                return done({"ok": True})
            case "add_note":
                self.notes[f"n{len(self.notes) + 1}"] = given["text"]
                return done({"note": {"id": f"n{len(self.notes)}"}})
            case "delete_note" if given["note_id"] in self.notes:
                del self.notes[given["note_id"]]
                return done({"ok": True})
            case "send_mail":
                return done({"ok": True})
        return failed(ToolErrorCode.NOT_FOUND, "there is no such object")

    @property
    def written(self) -> list[str]:
        """The changes that were sent, as tool and values."""
        return [
            " ".join([tool, *(str(given[name]) for name in sorted(given, reverse=True))])
            for tool, given in self.sent
            if tool not in READS
        ]


def move(order_id: str, address: str) -> FunctionCall:
    return FunctionCall(name="set_address", arguments={"order_id": order_id, "address": address})


def note(text: str) -> FunctionCall:
    return FunctionCall(name="add_note", arguments={"text": text})


MAIL = FunctionCall(name="send_mail", arguments={"text": "hello"})
