"""Fixtures: test cases, each with messages and the decisions that are expected.

A file is a YAML list of cases; a `Fixture` is one of them. A case is one message, or a conversation of several turns with the
tasks that exist before it:

    - test_id: create-simple
      input: add a task to call mom
      expected_intent: CREATE_TASK
      expected_tool: add_task
      expected_outcome: SUCCESS:TASK_COMPLETED

    - test_id: delete-confirmed
      tasks: [call mom, {description: buy milk, status: completed}]   # as the list shows them, newest first
      turns:
        - {input: delete the call mom task, expected_tool: delete_task, expected_outcome: SUCCESS:RESPONSE_GIVEN}
        - {input: "yes", minutes_later: 1, expected_intent: CONFIRM_YES, expected_outcome: SUCCESS:TASK_COMPLETED}
      expected_tasks: [{description: buy milk, status: completed}]

A case about other tools plays them: it has their declarations as `tools`, and each turn the `results` that they answer with.
No server is called, and a call that the turn has no result for fails the case:

    - test_id: order-shipped
      tools:
        - name: ship_order
          description: Ship an order.
          parameters: {type: object, properties: {number: {type: integer}}, required: [number]}
      input: ship order 7
      results:
        - {tool: ship_order, arguments: {number: 7}, result: {success: true, data: {shipped: true}}}
      expected_tool: ship_order
      expected_outcome: SUCCESS:TASK_COMPLETED

What the runtime reads for conditions are the `reads` of a turn: their facts, by the path in the result.

        reads:
          - {tool: get_order, arguments: {number: 7}, values: {$: {status: open}, "$.payments[*].method": [card]}}

A field that is null is one that the result did not have, and a read without `values` has found nothing. A read that is not
given is answered by the `results`. An argument `$user` is the user of the case, as for an argument that the constitution binds.

Fields that a turn leaves out are not checked. `expected_tool` is one tool (in addition only read-only tools may be called), a
list (exactly these calls, in order) or null (no call); `expected_outcome` is a complete outcome or a prefix of one. `script`
replaces the model by a list of answers, for behavior that no model shows on demand.

Four fields are about the text that the user reads: `reply_contains` and `reply_lacks` (a text or a list of texts; case is
ignored), `reply_equals` (the whole reply) and `reply_lines` (lines of the reply in this order, for lists and for several
results):

    - test_id: list-shows-the-change
      tasks: [buy milk, call mom]
      input: show my tasks and then mark the first one complete
      reply_lines: ["1. [x] buy milk", "2. [ ] call mom", "Marked 'buy milk' as done."]
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field, ValidationError, field_validator, model_validator

from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.base import Frozen, located_violation
from graph_agent.models.decision import DecisionType, IntentType, OutcomeCategory
from graph_agent.models.facts import FactRead
from graph_agent.tools.played import PlayedResult, PlayedTool

MAX_MINUTES = 10 * 366 * 24 * 60
"""Ten years: a clock that is set to much later has no date."""
MAX_VALUES = 1_000_000
"""Maximum number of values of one fixture file, with each alias counted as what it stands for."""
USER = "$user"
"""The argument of a result that stands for the user: each run of a case has another one."""
MAX_CHARACTERS = 4 * 1024 * 1024
"""Maximum size of one fixture file."""


class FixtureTask(Frozen):
    """A task before or after the conversation. In a file, plain text means a pending task."""

    description: str = Field(min_length=1, max_length=1000)
    status: Literal["pending", "completed"] = "pending"

    @model_validator(mode="before")
    @classmethod
    def _accept_plain_text(cls, data: Any) -> Any:
        return {"description": data} if isinstance(data, str) else data


class FixtureTurn(Frozen):
    """One message and the expectations of its decision. Only fields that are set are checked, also if set to None."""

    input: str
    results: list[PlayedResult] = Field(default_factory=list)
    """The results of the calls of a case that plays its tools, in their order."""
    reads: list[FactRead] = Field(default_factory=list)
    """The reads for conditions of a case that plays its tools, in their order. Their facts are by path, as in `KnownRead`."""
    minutes_later: float = Field(default=0, ge=0, le=MAX_MINUTES)
    """The time that the user waits before sending the message."""
    expected_intent: IntentType | None = None
    expected_tool: str | list[str] | None = None
    expected_outcome: str | None = None
    expected_decision: DecisionType | None = None
    reply_contains: str | list[str] | None = None
    """Text that the reply contains, ignoring case. A list means that it contains every one of them."""
    reply_equals: str | None = None
    """The whole reply."""
    reply_lacks: str | list[str] | None = None
    """Text that the reply does not contain, ignoring case. A list means that it contains none of them."""
    reply_lines: list[str] | None = None
    """Lines of the reply, in this order; there may be others between them."""

    @field_validator("expected_tool", mode="before")
    @classmethod
    def _accept_none_as_text(cls, value: Any) -> Any:
        return None if value in ("none", "None", []) else value

    @field_validator("expected_outcome")
    @classmethod
    def _check_outcome(cls, value: str | None) -> str | None:
        if value is not None and not any(outcome.value.startswith(value) for outcome in OutcomeCategory):
            raise ValueError(f"'{value}' is not an outcome, and no outcome starts with it")
        return value

    @property
    def expectations(self) -> frozenset[str]:
        """The names of the expectation fields that are set."""
        return frozenset(self.model_fields_set - {"input", "minutes_later", "results", "reads"})


class Fixture(Frozen):
    """One case: its turns, and either the tasks before and after it, or the tools that it plays."""

    test_id: str = Field(min_length=1, max_length=200)
    turns: list[FixtureTurn] = Field(min_length=1)
    tools: list[PlayedTool] | None = None
    """The tools that the case plays; None for a case on the shipped task server."""
    tasks: list[FixtureTask] = Field(default_factory=list)
    expected_tasks: list[FixtureTask] | None = None
    script: list[dict[str, Any]] | None = None
    """The model's answers; each is an `LLMResponse`, or `{error: CODE}`. `$task1` in it is the id of the first of `tasks`."""

    @model_validator(mode="before")
    @classmethod
    def _accept_a_single_message(cls, data: Any) -> Any:
        if not isinstance(data, dict) or "input" not in data:
            return data
        if "turns" in data:
            raise ValueError("a case has either an input or turns")
        turn_fields = FixtureTurn.model_fields.keys()
        turn = {name: value for name, value in data.items() if name in turn_fields}
        return {**{name: value for name, value in data.items() if name not in turn_fields}, "turns": [turn]}

    @property
    def names_tasks(self) -> bool:
        """True if the case can only be played where the shipped task server has its tasks."""
        return bool(self.tasks) or self.expected_tasks is not None

    @model_validator(mode="after")
    def _plays_its_tools(self) -> Fixture:
        if self.tools is None and any(turn.results or turn.reads for turn in self.turns):
            raise ValueError("results and reads belong to a case with tools")
        if self.tools is not None and self.names_tasks:
            raise ValueError("a case with tools has no tasks: its results say what there is")
        return self

    @model_validator(mode="after")
    def _check_expectations(self) -> Fixture:
        if self.expected_tasks is None and not any(turn.expectations for turn in self.turns):
            raise ValueError("the case has no expectation")
        return self


def load_fixtures(path: Path) -> list[Fixture]:
    """Load the cases of a file, or of every `.yaml` file in a folder, in order.

    Raises `ServiceError` INVALID_FORMAT, which names the file and the case.
    """
    files = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
    fixtures = [fixture for file in files for fixture in _load_file(file)]
    if not fixtures:
        raise _invalid(f"{path} contains no cases")
    seen: set[str] = set()
    for fixture in fixtures:
        if fixture.test_id in seen:
            raise _invalid(f"{path}: the test_id '{fixture.test_id}' occurs twice")
        seen.add(fixture.test_id)
    return fixtures


def shipped_suite() -> Path:
    """Return the folder of the cases that come with the package."""
    return Path(__file__).parent / "suite"


class _Loader(yaml.SafeLoader):
    """A loader that refuses aliases which stand for more than `MAX_VALUES` values, or for a value that they are in."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._sizes: dict[yaml.Node, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        is_alias = self.check_event(yaml.AliasEvent)
        node = super().compose_node(parent, index)
        if node is None:
            return None
        if not is_alias:
            match node:
                case yaml.MappingNode():
                    parts = [part for pair in node.value for part in pair]
                case yaml.SequenceNode():
                    parts = node.value
                case _:
                    parts = []
            self._sizes[node] = 1 + sum(self._sizes[part] for part in parts)
        # The node of an alias has no size before it is complete.
        if self._sizes.get(node, MAX_VALUES + 1) > MAX_VALUES:
            raise yaml.MarkedYAMLError(problem="the aliases stand for too many values", problem_mark=node.start_mark)
        return node


def _load_file(file: Path) -> list[Fixture]:
    try:
        with file.open(encoding="utf-8") as opened:
            text = opened.read(MAX_CHARACTERS + 1)
        if len(text) > MAX_CHARACTERS:
            raise _invalid(f"{file} is larger than {MAX_CHARACTERS // 1024 // 1024} MiB")
        value = yaml.load(text, _Loader)
    except (OSError, UnicodeDecodeError):
        raise _invalid(f"{file} cannot be read") from None
    except RecursionError:
        raise _invalid(f"{file} is nested too deeply") from None
    except (yaml.YAMLError, ArithmeticError, AttributeError, LookupError, ValueError) as exc:
        # PyYAML lets the errors of Python's own conversions pass, as for the date 2026-02-30.
        mark = getattr(exc, "problem_mark", None)
        raise _invalid(f"{file} is not YAML{f': line {mark.line + 1}' if mark else ''}") from None
    if not isinstance(value, list):
        raise _invalid(f"{file} is not a list of cases")
    return [_parse_case(file, number, case) for number, case in enumerate(value, start=1)]


def _parse_case(file: Path, number: int, value: Any) -> Fixture:
    try:
        return Fixture.model_validate(value)
    except ValidationError as exc:
        name = value.get("test_id") if isinstance(value, dict) else None
        raise _invalid(f"{file}: case {number}{f' ({name})' if name else ''}: {located_violation(exc)}") from None


def _invalid(text: str) -> ServiceError:
    return ServiceError(ServiceErrorCode.INVALID_FORMAT, text)
