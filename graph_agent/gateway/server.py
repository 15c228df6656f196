"""The MCP server of the gateway, its clients, and the questions to their users.

Its clients see the granted tools. Each call is a decision without a model in the conversation of its client: judged, confirmed,
sent with an operation key, recorded. Who calls is known from the connection; no argument and no metadata of a request says so.

A client is a program of the user that may run commands: nothing that it gets confirms a call, no id, no command and no address.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

from mcp import MCPError, types
from mcp.server import NotificationOptions, Server
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.context import CallNext, HandlerResult
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.session import ServerSession
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from graph_agent.chat.answer import ChatAnswer
from graph_agent.chat.questions import GivenAnswer, Person
from graph_agent.chat.service import ChatService
from graph_agent.errors import (
    ConfigurationError,
    RecordError,
    RecordUnavailableError,
    RulesReplacedError,
    ServiceError,
    StoppedError,
)
from graph_agent.gateway.answer import Answer, by_code, by_operator, foreign, with_origin
from graph_agent.gateway.elicitation import (
    CLOSED,
    UNUSABLE,
    Context,
    FormAnswer,
    ask_mid_call,
    asked_id,
    given_answer,
    input_request,
    supports_elicitation,
)
from graph_agent.graph.transcript import result_json
from graph_agent.models.canonical import canonical_json
from graph_agent.models.decision import ConfirmationAnswer
from graph_agent.models.llm import FunctionCall
from graph_agent.models.record import DecisionRecord
from graph_agent.models.tools import ToolResult
from graph_agent.net.fair_table import FairTable
from graph_agent.net.mcp_http import ROLES
from graph_agent.net.mcp_sessions import SESSIONS, SESSIONS_OF_A_USER
from graph_agent.net.scopes import WRITE_SCOPE
from graph_agent.net.user_token import UserToken, keep_user_token
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.tool_rule import ToolRule
from graph_agent.question.stored import StoredQuestion
from graph_agent.question.tables import Asks, QuestionState
from graph_agent.record.audit_writer import read_calls
from graph_agent.tools.parts import AnswerParts, collected_parts
from graph_agent.tools.passed_on import ServerWordsError, as_read
from graph_agent.tools.progress import ToolProgress, progress_to
from graph_agent.tools.server_group import McpServerGroup
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.turn.reading import Reading

_log = logging.getLogger(__name__)

DECISION_META: Final = "graph_agent/decision"
"""The id of the decision, in the metadata of a result."""
MAX_LINKS: Final = 1_000
"""The number of resources of a session that can be read."""
WATCH_SECONDS: Final = 2.0
WAITING: Final = "waiting_for_the_user"
"""The state of a result whose call waits for its user."""
WAITING_FOR_APPROVAL: Final = "waiting_for_approval"
_ASK_STATUS: Final = "Do not call it again: it is done when it is approved. `question_status` says if it was."
_BY_ID: Final = {
    "type": "object",
    "properties": {"id": {"type": "string"}},
    "required": ["id"],
    "additionalProperties": False,
}
_QUESTION_STATUS: Final = types.Tool(
    name="question_status",
    title="State of a question",
    description="Say whether a call that waits for a person was made, and with which result. `id` of its result names it.",
    input_schema=_BY_ID,
    annotations=types.ToolAnnotations(read_only_hint=True),
)
_UNDO: Final = types.Tool(
    name="undo_decision",
    title="Undo of a call",
    description="Undo what a call has changed. `undo` of its result is the id. The user is asked first.",
    input_schema=_BY_ID,
    annotations=types.ToolAnnotations(read_only_hint=False, destructive_hint=True),
)
_WAITS: Final = "the user has to confirm it"
_WAITS_FOR: Final = {Asks.REQUESTER: ("the user's yes", WAITING), Asks.OTHERS: ("an approval", WAITING_FOR_APPROVAL)}
_BEING_DONE: Final = ToolResult(success=False, error="It is being done: ask again.")
_LEFT_OPEN: Final = {
    CLOSED: "the user closed the question without an answer, and can still confirm it",
    UNUSABLE: "the user's answer was neither yes nor no, and the user can still confirm it",
}
_READ_ONLY_TOKEN = ToolResult(success=False, error=f"This needs a token with the scope {WRITE_SCOPE}.")


ToolAnswer: TypeAlias = Answer[types.CallToolResult | types.InputRequiredResult]
P = TypeVar("P", types.ReadResourceResult, types.GetPromptResult)
_ARGUMENT_NAME: Final = re.compile(r"[\w.-]{1,64}")


@dataclass
class Client:
    """One session of a client, and the conversation of its calls."""

    user_id: str
    conversation_id: str | None = None
    """None before the first call."""
    session: ServerSession | None = None
    """The session of the latest request."""
    turns: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by the call that runs: a conversation has one turn at a time, so the others queue."""
    questions: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held from the question to its answer."""
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while something that the client reads is recorded: the first record begins the conversation."""

    links: dict[str, str] = field(default_factory=dict)
    """The addresses of resources that results have linked to, and the tool of each; the newest last."""

    def remember_links(self, tool_name: str, blocks: Sequence[types.ContentBlock]) -> None:
        """Let the client read the resources that a result of a tool links to."""
        for block in blocks:
            if isinstance(block, types.ResourceLink):
                self.links.pop(block.uri, None)
                self.links[block.uri] = tool_name
        while len(self.links) > MAX_LINKS:
            del self.links[next(iter(self.links))]

    @property
    def in_use(self) -> bool:
        """True while a call runs or waits for its user."""
        return self.turns.locked() or self.questions.locked()


class _McpServer(Server[Any]):
    """The SDK's server, which says in its handshake too that its list of tools may change."""

    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *more: Any, **options: Any
    ) -> Any:
        return super().create_initialization_options(
            notification_options or NotificationOptions(tools_changed=True), *more, **options
        )


class Gateway:
    """One gateway; `server` serves any number of clients at the same time."""

    def __init__(
        self,
        engine: LLMAgentEngine,
        chat: ChatService,
        *,
        user_id: str | None,
        page: str,
        announce: Callable[[str], None] = _log.info,
    ) -> None:
        """`user_id` is the user of connections without a token; None if every connection has one.

        `page` is the address of the page on which a user whose client cannot ask confirms calls. `announce` tells the user, and
        not the client, that a call waits there.
        """
        self._engine = engine
        self._chat = chat
        self._user_id = user_id
        self._page = page.rstrip("/")
        self._policy: CompiledPolicy | None = None
        self._announce = announce
        self._clients: FairTable[Client] = FairTable(SESSIONS_OF_A_USER, SESSIONS, lambda client: client.in_use)
        self._prompts: dict[str, types.Prompt] = {}
        """The prompts as they were listed first."""
        self._events = InMemorySubscriptionBus()
        self.server = _McpServer(
            "graph-agent-gateway",
            on_list_tools=with_origin(self._list_tools),
            on_call_tool=with_origin(self._call_tool),
            on_read_resource=with_origin(self._read_resource),
            on_list_prompts=with_origin(self._list_prompts),
            on_get_prompt=with_origin(self._get_prompt),
            on_subscriptions_listen=ListenHandler(self._events),
        )
        # What a client sends back with an answer is only what this server gave it, for the same call.
        self.server.middleware.append(_with_user_token)
        self.server.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience="gateway"))

    async def run_stdio(self) -> None:
        """Serve one client over stdio until it disconnects."""
        async with stdio_server() as (read, write):
            await self.server.run(read, write, self.server.create_initialization_options())

    @asynccontextmanager
    async def maintained(self) -> AsyncGenerator[None]:
        """Meanwhile finish what dead processes left open, and tell the clients when the list of tools has changed."""
        self._policy = (await self._engine.prepare()).policy
        for limit in self._policy.limits_per_message():
            self._announce(f"MCP clients send no messages, so each call asks its user: {limit}")
        await self._announce_missing_prompts()
        tasks = [asyncio.create_task(self._chat.serve_due_forever()), asyncio.create_task(self._watch_forever())]
        try:
            async with self._chat.listen():
                yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def refresh(self) -> None:
        """Read the lists of tools of the servers; if the granted tools differ from before, tell the clients."""
        before, self._policy = self._policy, (await self._engine.prepare()).policy
        if before is None or before.rules == self._policy.rules:
            return
        await self._events.publish(ToolsListChanged())
        for session in [client.session for client in self._clients if client.session is not None]:
            with suppress(MCPError, OSError):  # a client that cannot be reached any more
                await session.send_tool_list_changed()

    def reads(self, name: object) -> bool:
        """True if `name` is a granted tool that only reads."""
        rule = self._policy.rules.get(name) if self._policy is not None and isinstance(name, str) else None
        return rule is not None and not rule.mutating

    async def _list_tools(
        self,
        context: Context,
        params: types.PaginatedRequestParams | None,  # noqa: ARG002 (the list has one page)
    ) -> Answer[types.ListToolsResult]:
        self._client(context)
        policy = (await self._engine.prepare()).policy
        listed = [_listed(rule) for rule in policy.rules.values()]
        own = [*([_QUESTION_STATUS] if _has_questions(policy) else []), *([_UNDO] if _has_undo(policy) else [])]
        # A definition that differs from the pinned one is refused.
        return by_operator(types.ListToolsResult(tools=[*listed, *(one for one in own if one.name not in policy.rules)]))

    async def _call_tool(self, context: Context, params: types.CallToolRequestParams) -> ToolAnswer:
        client = self._client(context)
        try:
            with collected_parts() as parts:
                async with _progress_passed_on(context):
                    return await self._answer(context, params, client, parts)
        except ServiceError as exc:
            return _answer(ToolResult(success=False, error=exc.message))
        except (ConfigurationError, RecordError) as exc:
            _log.error("a call could not be made", exc_info=exc)
            return _answer(ToolResult(success=False, error="The call cannot be made right now."))

    async def _answer(
        self, context: Context, params: types.CallToolRequestParams, client: Client, parts: AnswerParts
    ) -> ToolAnswer:
        policy = (await self._engine.prepare()).policy
        rule = policy.rules.get(params.name)
        if rule is None and params.name == _QUESTION_STATUS.name and _has_questions(policy):
            return await self._question_status(client, (params.arguments or {}).get("id"))
        undoes = rule is None and params.name == _UNDO.name and _has_undo(policy)
        if (undoes or (rule is not None and rule.mutating)) and not _may_write(context):
            return _answer(_READ_ONLY_TOKEN)
        given: FormAnswer | None = None
        async with AsyncExitStack() as asking:
            if params.request_state is not None:
                # The client asked the user and sends the call again, with the answer.
                given = given_answer(params.input_responses)
                if given is None:
                    return self._waiting(client)
                answer = await self._confirm(context, client, asked_id(params.request_state), given)
            else:
                if undoes or (rule is not None and rule.asks_without_message):
                    # One question at a time: a later one would replace it. Reads and other changes do not wait for it.
                    await asking.enter_async_context(client.questions)
                call = FunctionCall(params.name, params.arguments or {})
                async with client.turns:
                    if undoes:
                        answer = await self._chat.undo(client.user_id, str(call.arguments.get("id")), roles=_roles_of(context))
                    else:
                        answer = await self._chat.call(
                            client.user_id, [call], conversation_id=client.conversation_id, roles=_roles_of(context)
                        )
                        client.conversation_id = answer.conversation_id
            while (pending := answer.decision.pending_action) is not None:
                await self._shows(client, answer)
                if pending.by_id_only or not supports_elicitation(context) or (given is not None and given.yes is None):
                    return self._waiting(client, answer, given)
                if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
                    return foreign(input_request(answer.decision.reply, pending), answer.decision_id)
                answered = self._chat.questions.wait(pending.id, client.user_id)
                found = await ask_mid_call(context, foreign(answer.decision.reply, answer.decision_id), answered)
                if found is None:
                    return self._waiting(client, answer)
                if isinstance(found, ChatAnswer):
                    answer = found
                    continue
                given = found
                answer = await self._confirm(context, client, pending.id, given)
        if answer.decision.approval is not None:
            error = f"Not done yet: {answer.decision.reply} {_ASK_STATUS}"
            waits = ToolResult(success=False, error=error)
            return _answer(waits, answer.decision_id, state=WAITING_FOR_APPROVAL, id=answer.decision_id)
        if undoes:
            # The reply says for each of the calls if it was undone.
            done, text = bool(answer.decision.effects), " ".join([answer.reply, *answer.decision.notices])
            undone = ToolResult(success=done, data={"text": text} if done else None, error=None if done else text)
            await self._read_elsewhere(client, answer.conversation_id, answer.decision_id, text)
            return _answer(undone, answer.decision_id)
        tool_name, result = await self._outcome(answer)
        # By the tool of the record: the call that was confirmed may be another than the one that asks.
        blocks = next((blocks for (decision, _), blocks in parts.of_call.items() if decision == answer.decision_id), [])
        client.remember_links(tool_name, blocks)
        called = policy.rules.get(tool_name)
        can_be_undone = result.success and called is not None and called.grant.undone_by is not None
        return _answer(result, answer.decision_id, blocks, **({"undo": answer.decision_id} if can_be_undone else {}))

    async def _question_status(self, client: Client, decision_id: Any) -> ToolAnswer:
        """Return the state of the question that a decision of the client's user asked, or the result of what ended it."""
        asked = None
        if isinstance(decision_id, str):
            asked = await self._chat.questions.asked_by(decision_id.lower(), client.user_id)
        if asked is None:
            return _answer(ToolResult(success=False, error="This call has asked no question."))
        if asked.asks is Asks.OTHERS and asked.closed_by is None and self._chat.approvals is not None:
            # It may have been decided, and no process that serves the chat may have closed it.
            with suppress(ServiceError):
                await self._chat.approvals.close(asked.id)
            await self._chat.approvals.closings()
            asked = await self._chat.questions.asked_by(asked.decision_id, client.user_id) or asked
        if (closing_id := asked.closed_by) is None:
            return self._not_closed(asked)
        record = await self._engine.audit.load(closing_id)
        if not isinstance(record, DecisionRecord):
            return _answer(_BEING_DONE, closing_id, state=str(asked.state))
        if record.decision.approval is not None:
            # The yes was one of two answers that the call needs.
            return await self._question_status(client, closing_id)
        closed, conversation_id = ToolResult(success=False, error=record.decision.reply), record.header.context.conversation_id
        made = record.invocations if asked.state is QuestionState.APPROVED else []
        result = next((one.tool_result for one in made), closed)
        await self._read_elsewhere(client, conversation_id, closing_id, canonical_json(result.to_json()))
        return _answer(result, closing_id, state=str(asked.state))

    def _not_closed(self, asked: StoredQuestion) -> ToolAnswer:
        """Return that a question waits, or that it has ended without an answer."""
        if not asked.is_open:
            ended = str(asked.state_now)
            return _answer(ToolResult(success=False, error=f"Not done: the question has ended: {ended}."), state=ended)
        if asked.taken_by is not None:
            return _answer(_BEING_DONE, state=WAITING, id=asked.decision_id)
        whom, state = _WAITS_FOR[asked.asks]
        error = f"Not done yet: it waits for {whom} until {asked.expires_at:%Y-%m-%d %H:%M} UTC."
        return _answer(ToolResult(success=False, error=error), state=state, id=asked.decision_id)

    async def _read_elsewhere(self, client: Client, conversation_id: str, decision_id: str, text: str) -> None:
        """Record that a client reads what a decision of another conversation says."""
        if conversation_id != client.conversation_id:
            read = ToolResult(success=True, data={"text": text})
            await self._read(client, Reading("answer of another conversation", {"decision": decision_id}, read))

    async def _shows(self, client: Client, answer: ChatAnswer) -> None:
        """Record that a client is shown objects or facts by a question, for all sessions of its user, as after a call.

        Its own session knows it from the question; without conditions nothing asks for it.
        """
        policy = (await self._engine.prepare()).policy
        record = None if policy.conditions is None else await self._engine.audit.load(answer.decision_id)
        shown = read_calls(record.to_json()) if isinstance(record, DecisionRecord) else []
        rules = [policy.rules.get(one.tool_name) for one in shown]
        if any(rule is None or not rule.grant.trusted_results for rule in rules):
            read = ToolResult(success=True, data={"text": answer.decision.reply})
            await self._read(client, Reading("shown object", {"decision": answer.decision_id}, read))

    async def _read(self, client: Client, reading: Reading) -> str:
        """Record what a client is given to read, in its conversation, and return the id of the decision."""
        async with client.reading:
            client.conversation_id, decision_id = await self._chat.record_reading(
                client.user_id, client.conversation_id, reading
            )
        return decision_id

    async def _passed_on(self, client: Client, kind: str, named: dict[str, Any], asked: Awaitable[P]) -> Answer[P]:
        """Return the answer of a server to a client that may read it, after it was recorded; so is an error that quotes one."""
        try:
            answer = await asked
        except (StoppedError, RulesReplacedError) as exc:
            raise MCPError(types.INTERNAL_ERROR, exc.message) from None
        except RecordUnavailableError as exc:
            raise MCPError(types.INTERNAL_ERROR, f"The {kind} cannot be read right now.") from exc
        except ServerWordsError as exc:
            await self._recorded(client, Reading(kind, named, as_read(exc)))
            exc.recorded = True
            raise
        return foreign(answer, await self._recorded(client, Reading(kind, named, as_read(answer))))

    async def _recorded(self, client: Client, reading: Reading) -> str:
        """As `_read`. Raises `MCPError` if it cannot be recorded."""
        try:
            return await self._read(client, reading)
        except (ServiceError, RecordError, ValueError) as exc:
            _log.error("a %s could not be recorded", reading.kind, exc_info=exc)
            raise MCPError(types.INTERNAL_ERROR, f"The {reading.kind} cannot be read right now.") from exc

    async def _read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> Answer[types.ReadResourceResult]:
        """Read what a result has linked to, from the server that linked to it. Nothing else can be read."""
        client, external = self._client(context), self._engine.external
        tool_name, tools, uri = client.links.get(str(params.uri), ""), external.tools, str(params.uri)
        policy = (await self._engine.prepare()).policy
        if tool_name not in policy.rules or not isinstance(tools, McpServerGroup):
            raise MCPError(types.INVALID_PARAMS, "No result of this session links to such a resource.")
        ask = partial(tools.read_resource, tool_name, uri, client.user_id)
        reading = external.read_from(tools.server_of(tool_name), ask, client.user_id, tool_name)
        return await self._passed_on(client, "linked resource", {"uri": uri, "tool": tool_name}, reading)

    async def _list_prompts(
        self,
        context: Context,
        params: types.PaginatedRequestParams | None,  # noqa: ARG002 (the list has one page)
    ) -> Answer[types.ListPromptsResult]:
        """List the prompts that the constitution names, in its words: clients read a list when they like.

        The names of arguments are the server's. Those that it had first are the operator's choice; others are recorded as read.
        """
        client, tools = self._client(context), self._engine.external.tools
        summaries = self._engine.constitution.prompts
        found = await tools.prompts(summaries, client.user_id) if isinstance(tools, McpServerGroup) else []
        listed = [_listed_prompt(prompt, summaries[prompt.name]) for prompt in found]
        changed = [one for one in listed if self._prompts.setdefault(one.name, one) != one]
        answer = types.ListPromptsResult(prompts=listed)
        if not changed:
            return by_operator(answer)
        names = [argument.name for one in changed for argument in one.arguments or ()]
        reading = Reading("changed prompt", {"names": [one.name for one in changed]}, ToolResult(success=True, data=names))
        return foreign(answer, await self._recorded(client, reading))

    async def _get_prompt(self, context: Context, params: types.GetPromptRequestParams) -> Answer[types.GetPromptResult]:
        client, external = self._client(context), self._engine.external
        tools = external.tools
        if params.name not in self._engine.constitution.prompts or not isinstance(tools, McpServerGroup):
            raise MCPError(types.INVALID_PARAMS, "The constitution names no such prompt.")
        ask = partial(tools.prompt, params.name, params.arguments or {}, client.user_id)
        # By the name of its server, as in the list.
        reading = external.read_from(params.name.partition(".")[0], ask, client.user_id)
        return await self._passed_on(client, "server prompt", {"name": params.name}, reading)

    async def _announce_missing_prompts(self) -> None:
        names, tools = self._engine.constitution.prompts, self._engine.external.tools
        if not names or self._user_id is None or not isinstance(tools, McpServerGroup):
            return
        served = await tools.prompts(names, self._user_id)
        self._prompts.update({one.name: _listed_prompt(one, names[one.name]) for one in served})
        found = {prompt.name for prompt in served}
        if missing := [name for name in names if name not in found]:
            self._announce(f"no MCP server has these prompts of the constitution now: {', '.join(missing)}")

    async def _confirm(self, context: Context, client: Client, pending_id: str, given: FormAnswer) -> ChatAnswer:
        async with client.turns:
            if given.yes is None:
                answers = ConfirmationAnswer(pending_action=pending_id, yes=None)
                return await self._chat.send(client.user_id, given.words, answers=answers, roles=_roles_of(context))
            person = Person(client.user_id, _roles_of(context))
            # The form has shown what has this digest: it stays the same as long as the question is asked.
            digest = (await self._chat.questions.view(pending_id, person)).digest
            answer = GivenAnswer(yes=given.yes, digest=digest, words=given.words)
            answered = await self._chat.questions.answer(pending_id, person, answer)
        assert answered.reply is not None, "a question with a card is answered by a turn"
        return answered.reply

    async def _outcome(self, answer: ChatAnswer) -> tuple[str, ToolResult]:
        """Return the tool and the result of the one call of a decision; its reply, if no call was made."""
        record = await self._engine.audit.load(answer.decision_id)
        made = record.invocations if isinstance(record, DecisionRecord) else []
        if made:
            return made[0].tool_name, made[0].tool_result
        return "", ToolResult(success=False, error=answer.reply)

    def _waiting(self, client: Client, answer: ChatAnswer | None = None, given: FormAnswer | None = None) -> ToolAnswer:
        """Return that the call waits for its user, and tell the user where."""
        # That of an undo is the one of its change.
        if (conversation_id := client.conversation_id if answer is None else answer.conversation_id) is not None:
            self._announce(f"a call waits for its user's yes on {self._page}/chat/{conversation_id}")
        why = _WAITS if given is None else _LEFT_OPEN.get(given, _WAITS)
        where, then = "on the graph-agent page or in a terminal", "Do not call it again: it is done when the user confirms it."
        error = f"Not done yet: {why} {where}. {then}"
        # An error, because clients show and models read a result without it as done.
        waits = ToolResult(success=False, error=error)
        if answer is None:
            return _answer(waits, state=WAITING)
        return _answer(waits, answer.decision_id, state=WAITING, id=answer.decision_id)

    def _client(self, context: Context) -> Client:
        """Return the client of a request, whose requests share a conversation."""
        request = context.request
        session = request.headers.get("mcp-session-id") if request is not None else None
        if session is None and context.session.client_params is not None:
            # The newest revision has no sessions: a client is known by its name.
            session = context.session.client_params.client_info.name
        token = _token_of(context)
        user_id, key = (token and token.subject) or self._user_id or "", session or ""
        client = self._clients.use(user_id, key)
        if client is None:
            client = Client(user_id)
            self._clients.add(user_id, key, client)
        client.session = context.session
        return client

    async def _watch_forever(self) -> None:
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            try:
                await self.refresh()
            except (ConfigurationError, ServiceError, MCPError) as exc:
                _log.warning("the lists of tools cannot be read: %s", exc)


async def _with_user_token(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Handle a request with the token of its user, for the servers that act with the user's own rights."""
    token = _token_of(ctx)
    keep_user_token(None if token is None or token.subject is None else UserToken(token.subject, token.token))
    return await call_next(ctx)


def _has_questions(policy: CompiledPolicy) -> bool:
    counts_approvals = policy.conditions is not None and policy.conditions.reads.has("approvals")
    return counts_approvals or any(rule.asks_without_message for rule in policy.rules.values())


def _has_undo(policy: CompiledPolicy) -> bool:
    return any(rule.grant.undone_by is not None for rule in policy.rules.values())


def _listed(rule: ToolRule) -> types.Tool:
    hints = types.ToolAnnotations(read_only_hint=not rule.mutating, destructive_hint=rule.grant.requires_confirmation)
    tool = rule.declaration
    return types.Tool(
        name=tool.name, title=rule.title, description=tool.description, input_schema=tool.parameters, annotations=hints
    )


def _listed_prompt(prompt: types.Prompt, summary: str) -> types.Prompt:
    """Return a prompt of a server in the words of the constitution."""
    named = [argument for argument in prompt.arguments or () if _ARGUMENT_NAME.fullmatch(argument.name)]
    arguments = [types.PromptArgument(name=one.name, required=one.required) for one in named]
    return types.Prompt(name=prompt.name, description=summary, arguments=arguments)


def _answer(
    result: ToolResult, decision_id: str | None = None, blocks: Sequence[types.ContentBlock] = (), **more: str
) -> ToolAnswer:
    """Return a result as JSON, and after it the parts of the server's answer as they came.

    Without a decision it is code's: a result with data is that of a decision.
    """
    answer = _result(result, decision_id, blocks, **more)
    if decision_id is not None:
        return foreign(answer, decision_id)
    if result.data is not None or blocks:
        raise TypeError("a result with data needs the decision whose record has it")
    return by_code(answer)


def _result(
    result: ToolResult, decision_id: str | None, blocks: Sequence[types.ContentBlock], **more: str
) -> types.CallToolResult:
    structured = {**result_json(result), **more}
    text = json.dumps(structured, ensure_ascii=False)
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text), *([] if _has_all(structured, blocks) else blocks)],
        structured_content=structured,
        is_error=not result.success,
        _meta={DECISION_META: decision_id} if decision_id else None,
    )


def _has_all(structured: dict[str, Any], blocks: Sequence[types.ContentBlock]) -> bool:
    """True if the JSON has everything that is in `blocks`: one text, which would only be read twice."""
    data = structured.get("data")
    texts = [block.text for block in blocks if isinstance(block, types.TextContent)]
    if len(texts) < len(blocks):
        return False
    return data == {"text": "\n".join(texts)} or (
        data is not None and "truncated" not in structured and _is_json_of(data, texts)
    )


def _is_json_of(data: Any, texts: Sequence[str]) -> bool:
    """True if the one text is the structured content once more, as MCP recommends."""
    try:
        return len(texts) == 1 and bool(json.loads(texts[0]) == data)
    except (ValueError, RecursionError):
        return False


@asynccontextmanager
async def _progress_passed_on(context: Context) -> AsyncGenerator[None]:
    """Meanwhile pass the progress of a call on, if the client has asked for it."""
    if (context.meta or {}).get("progress_token") is None:
        yield
        return
    reports: asyncio.Queue[ToolProgress] = asyncio.Queue()

    async def pass_on() -> None:
        while True:
            report = await reports.get()
            with suppress(MCPError, OSError):
                # The numbers alone: the words of a server would be read before its result has tainted anything.
                await context.session.report_progress(report.done, report.total, None if report.of_server else report.message)
            reports.task_done()

    passing = asyncio.create_task(pass_on())
    try:
        with progress_to(reports.put_nowait):
            yield
        # What was reported before the answer is sent before it.
        await reports.join()
    finally:
        passing.cancel()


def _token_of(context: Context) -> Any:
    """Return the verified token of a request, or None. That of the session may be older."""
    user = context.request.scope.get("user") if context.request is not None else None
    return user.access_token if isinstance(user, AuthenticatedUser) else None


def _roles_of(context: Context) -> tuple[str, ...]:
    token = _token_of(context)
    return () if token is None else tuple((token.claims or {}).get(ROLES, ()))


def _may_write(context: Context) -> bool:
    token = _token_of(context)
    return token is None or WRITE_SCOPE in token.scopes
