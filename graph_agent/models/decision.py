"""The input of a turn (`DecisionContext`) and its result (`AgentDecision`)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from operator import not_
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from graph_agent.models.approval import MAX_RENEWALS, ApprovalAnswer, ApprovalState, RequiredEvidence, count_approvals
from graph_agent.models.authors import TextAuthors
from graph_agent.models.base import Frozen, NotBlank, UtcDatetime
from graph_agent.models.canonical import canonical_json, digest, same_call_digest
from graph_agent.models.facts import ShownFact
from graph_agent.models.llm import FunctionCall, LLMErrorCause
from graph_agent.models.mandate import JobName, Plan, RecordedPlan
from graph_agent.models.origin import Origin
from graph_agent.models.rules_digests import RulesDigests
from graph_agent.models.said import Said, SaidCall
from graph_agent.models.sources import CallSources
from graph_agent.models.time_zone import TimeZoneName
from graph_agent.models.tools import ToolCall
from graph_agent.models.undo import UndoneCall, UndoneDecision

MAX_MESSAGE_LENGTH = 4000
MAX_HISTORY_MESSAGES = 20
CONFIRMATION_LIFETIME = timedelta(minutes=5)
JOB_QUESTION_LIFETIME = timedelta(hours=24)
"""The time in which a question from the run of a job can be answered: its person may be away."""
MAX_TIMES_ASKED = 3
"""A question is asked once and, after an unclear answer, at most twice again."""


def unstorable(text: str) -> str | None:
    """Return the reason why `text` cannot be stored (NUL fails in PostgreSQL, a lone surrogate in UTF-8), or None."""
    if "\x00" in text:
        return "contains a NUL character"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "contains a lone surrogate"
    return None


def require_storable(value: str) -> str:
    """Return the text. Raises `ValueError` if it cannot be stored."""
    if reason := unstorable(value):
        raise ValueError(reason)
    return value


StorableText = Annotated[str, AfterValidator(require_storable)]
"""A text that every database can store."""
FilledText = Annotated[NotBlank, AfterValidator(require_storable)]
"""A storable text that is not blank."""


class DecisionType(StrEnum):
    RESPOND_ONLY = "RESPOND_ONLY"
    """An answer without a tool call; also every refusal and every failure."""
    INVOKE_TOOL = "INVOKE_TOOL"
    """Tools were called."""
    ASK_CLARIFICATION = "ASK_CLARIFICATION"
    """The model asks the user."""
    REQUEST_CONFIRMATION = "REQUEST_CONFIRMATION"
    """A call waits for the confirmation of the user, or for the approval of other people."""
    EXECUTE_PENDING = "EXECUTE_PENDING"
    """The user confirmed, and the call was made."""
    CANCEL_PENDING = "CANCEL_PENDING"
    """The user declined, and nothing was done."""


class OutcomeCategory(StrEnum):
    """The outcome taxonomy, as `CATEGORY:SUBCATEGORY`."""

    TASK_COMPLETED = "SUCCESS:TASK_COMPLETED"
    """At least one tool succeeded."""
    RESPONSE_GIVEN = "SUCCESS:RESPONSE_GIVEN"
    """An answer without tools, the question of a confirmation, or a declined action."""
    CLARIFICATION_ANSWERED = "SUCCESS:CLARIFICATION_ANSWERED"
    """An answer after the model had asked in this conversation."""
    USER_INPUT = "ERROR:USER_INPUT"
    """The message was refused for its content or size."""
    INTENT_CLASSIFICATION = "ERROR:INTENT_CLASSIFICATION"
    """Reserved."""
    TOOL_INVOCATION = "ERROR:TOOL_INVOCATION"
    """Every attempted change failed, or nothing succeeded."""
    RESPONSE_GENERATION = "ERROR:RESPONSE_GENERATION"
    """The model failed or gave nothing usable, or the turn reached its cap or deadline or was interrupted."""
    OUT_OF_SCOPE = "REFUSAL:OUT_OF_SCOPE"
    """The model declined."""
    MISSING_PERMISSION = "REFUSAL:MISSING_PERMISSION"
    """Every call was refused because it named another user, or by the conditions of the policy."""
    RATE_LIMITED = "REFUSAL:RATE_LIMITED"
    """A rate limit was reached: ours, or that of the provider of the model."""
    UNCLEAR_INTENT = "AMBIGUITY:UNCLEAR_INTENT"
    """The model asks what is meant."""
    MULTIPLE_MATCHES = "AMBIGUITY:MULTIPLE_MATCHES"
    """The model asks which of several things is meant."""
    MISSING_CONTEXT = "AMBIGUITY:MISSING_CONTEXT"
    """The model asks for something that it needs to know."""

    @property
    def category(self) -> str:
        """The part before the colon: SUCCESS, ERROR, REFUSAL or AMBIGUITY."""
        return self.value.partition(":")[0]


class IntentType(StrEnum):
    CREATE_TASK = "CREATE_TASK"
    """`add_task` was requested."""
    LIST_TASKS = "LIST_TASKS"
    """`list_tasks` was requested."""
    COMPLETE_TASK = "COMPLETE_TASK"
    """`complete_task` was requested."""
    UPDATE_TASK = "UPDATE_TASK"
    """`update_task` was requested."""
    DELETE_TASK = "DELETE_TASK"
    """`delete_task` was requested."""
    MULTI_INTENT = "MULTI_INTENT"
    """Calls of several kinds were requested."""
    GENERAL_CHAT = "GENERAL_CHAT"
    """The model answered without a call."""
    AMBIGUOUS = "AMBIGUOUS"
    """The model asked the user."""
    CONFIRM_YES = "CONFIRM_YES"
    """The user confirmed a pending action."""
    CONFIRM_NO = "CONFIRM_NO"
    """The user declined a pending action."""


class UserIntent(Frozen):
    """The user's intent, derived from the calls that the model requested."""

    intent_type: IntentType
    confidence: float | None = Field(default=None, ge=0.0, le=1.0)
    """The confidence that the model declared; None if it declared none."""
    extracted_params: dict[str, Any] = Field(default_factory=dict)


class Message(Frozen, kw_only=False):
    """One message of a conversation, as the user sees it."""

    role: Literal["user", "assistant"]
    content: StorableText
    timestamp: UtcDatetime | None = None
    """None if it is not known: a default of now would make every record of the same context differ."""
    # Left out of the JSON if it is None, as in most messages.
    decision_type: DecisionType | None = Field(default=None, exclude_if=not_)
    """The type of the decision that this message of the assistant replied with; None if it is not known, or for a user."""
    # As above.
    origin: Origin | None = Field(default=None, exclude_if=not_)
    """The origin, if it is not the one that the role says: FOREIGN for another agent of an application, whose words taint, and
    MODEL for a message in place of the user's, which names the calls of a program."""


class AfterYes(StrEnum):
    """The continuation of a turn after the calls that the user has confirmed."""

    END = "end"
    """The turn ends with a reply composed by code."""
    EXPLAIN = "explain"
    """The model goes on if a confirmed call was not done; otherwise as END.

    A question that leaves out other calls of its batch, and one from the run of a job, has GO_ON instead.
    """
    GO_ON = "go_on"
    """The model goes on in the same turn."""


class PendingCall(Frozen):
    """One call of a pending action."""

    tool_name: str
    arguments: dict[str, Any]
    description: str
    said: Said | None = Field(default=None, exclude_if=not_)
    """The sentence and the details; `description` is their text."""
    whole_digest: str = Field(default="", exclude_if=not_)
    known: dict[str, dict[str, Any]] = Field(default_factory=dict, exclude_if=not_)
    by_id_only: bool = Field(default=False, exclude_if=not_)
    object_text: str = Field(default="", exclude_if=not_)
    undoes: UndoneCall | None = Field(default=None, exclude_if=not_)


class EarlierCall(Frozen):
    """A change that was made, or may have been made, before the call in hand."""

    tool_name: str
    arguments: dict[str, Any]
    unknown: bool = Field(default=False, exclude_if=not_)
    """True if it is not known whether it was done."""


MAX_DONE_BEFORE = 20
"""The number of earlier changes that a pending action names, the last ones."""


class PendingAction(Frozen):
    """A card: calls that wait for one confirmation of the user.

    It is signed, bound to user and conversation and to the rules under which it was asked about, valid for five minutes or, in
    the run of a job, 24 hours, and
    used once. `id` is also the operation key under which its first call will run.
    """

    id: str = Field(min_length=1)
    tool_name: str
    arguments: dict[str, Any]
    description: str
    created_at: UtcDatetime
    expires_at: UtcDatetime
    asked: int = Field(default=1, ge=1, le=MAX_TIMES_ASKED, exclude_if=lambda asked: asked == 1)
    """The number of times the user was asked. Left out of the JSON while it is 1."""
    # Left out of the JSON if it is empty, as in most actions.
    said: Said | None = Field(default=None, exclude_if=not_)
    """The sentence of the first call; see `each`."""
    because: tuple[str, ...] = Field(default=(), exclude_if=not_)
    """The rules that ask for the yes, as clauses."""
    approval_then: str = Field(default="", exclude_if=not_)
    """The sentence about the other people who have to approve after the yes."""
    whole_digest: str = Field(default="", exclude_if=not_)
    """SHA-256 of the arguments of the first call and of everything that was read about it: by it a change is noticed."""
    known: dict[str, dict[str, Any]] = Field(default_factory=dict, exclude_if=not_)
    """The values that were read about the first call, by their source and name; of a long one the digest."""
    by_id_only: bool = Field(default=False, exclude_if=not_)
    """True if `description` does not show all of it: only an answer by id confirms it, with the digest as `read`."""
    object_text: str = Field(default="", exclude_if=not_)
    """The whole text of the object that the preview describes, if `description` shows only a part of it."""
    undoes: UndoneCall | None = Field(default=None, exclude_if=not_)
    """The earlier call that this one undoes. The same in each of `calls`."""
    changed_since: tuple[str, ...] = Field(default=(), exclude_if=not_)
    """For calls that people had agreed to: the sentences about what has changed since, so that they are asked again."""
    changed_before: str = Field(default="", exclude_if=not_)
    """The sentences before the question: what its message had changed before, but for what was certainly another object."""
    origins: tuple[str, ...] = Field(default=(), exclude_if=not_)
    """The sentences before the question about values that are not the user's words, if conditions read where they come from."""
    asked_under: RulesDigests = Field(default=RulesDigests(), exclude_if=lambda rules: not rules.constitution)
    """The rules under which the user was asked. Without them no yes counts."""
    calls: tuple[PendingCall, ...] = Field(default=(), exclude_if=not_)
    """All calls of a card of several, in their order. The first is also in `tool_name` and `arguments`; see `each`."""
    done_before: tuple[EarlierCall, ...] = Field(default=(), max_length=MAX_DONE_BEFORE, exclude_if=not_)
    """The changes of the turn that asked, and of those that it went on from: a model that goes on must not repeat them."""
    plan: Plan | None = Field(default=None, exclude_if=not_)
    """The plan that is asked about, in place of calls: `tool_name` is that of the reply form, and `arguments` are the plan."""
    job: JobName = Field(default="", exclude_if=not_)
    """The job whose run asks; the turn of the answer is a part of the run. Empty outside of jobs."""
    then: AfterYes = Field(default=AfterYes.END, exclude_if=lambda then: then is AfterYes.END)
    """The continuation after a yes. END for the calls of a decision without a model."""
    signature: str = ""

    @property
    def each(self) -> tuple[PendingCall, ...]:
        """Every call that a yes confirms, in their order."""
        if self.calls:
            return self.calls
        named = {name: getattr(self, name) for name in PendingCall.model_fields}
        return (PendingCall(**named),)

    @property
    def described(self) -> tuple[tuple[str], ...]:
        """The first line of the description of every call, which begins with its title."""
        return tuple((one.description.partition("\n")[0],) for one in self.each)

    def operation_key(self, number: int) -> str:
        """Return the operation key of the call with this number, from 1."""
        return self.id if number == 1 else f"{self.id}:{number}"

    def can_be_answered(self, now: datetime) -> bool:
        """True from the creation to the expiry. A clock that was set back before the creation does not extend it."""
        return self.created_at <= now < self.expires_at

    @model_validator(mode="before")
    @classmethod
    def _expires_in_five_minutes(cls, data: Any) -> Any:
        if isinstance(data, dict) and isinstance(created_at := data.get("created_at"), datetime):
            return {"expires_at": created_at + CONFIRMATION_LIFETIME, **data}
        return data

    @model_validator(mode="after")
    def _expires_after_creation(self) -> PendingAction:
        if self.expires_at <= self.created_at:
            raise ValueError("expires_at must be after created_at")
        return self

    @model_validator(mode="after")
    def _begins_with_its_first_call(self) -> PendingAction:
        first = self.each[0]
        if len(self.calls) == 1 or (first.tool_name, first.arguments) != (self.tool_name, self.arguments):
            raise ValueError("calls has all of several, and the first of them is in tool_name and arguments")
        return self

    @model_validator(mode="after")
    def _can_be_signed(self) -> PendingAction:
        calls = [call.to_json() for call in (*self.calls, *self.done_before)]
        try:
            canonical_json(
                [
                    self.id,
                    self.tool_name,
                    self.arguments,
                    self.description,
                    self.object_text,
                    self.known,
                    self.changed_since,
                    self.changed_before,
                    self.origins,
                    self.because,
                    self.approval_then,
                    calls,
                ]
            ).encode()
        except (ValueError, TypeError, RecursionError):
            raise ValueError("must be plain JSON") from None
        return self


class ApprovalRequest(Frozen):
    """One exact call that waits for the approval of other people than its requester.

    The id of its action is the id of the request, its single-use nonce, and the operation key of the call.
    """

    action: PendingAction
    """The signed call, with the rules under which it was requested, and its expiry."""
    roles: tuple[str, ...]
    """The roles whose approvals the rules count that deny the call without them."""
    further_roles: tuple[str, ...] = Field(default=(), exclude_if=not_)
    """The other roles whose approvals the rules count for the tool."""
    rules: tuple[str, ...]
    """The names of the rules that deny the call."""
    sources: CallSources | None = Field(default=None, exclude_if=not_)
    """The origin of the arguments when the call was requested; the end is judged by it too. None if it was not known."""
    facts: tuple[ShownFact, ...] = Field(default=(), exclude_if=not_)
    """The facts that conditions read about the call when it was requested."""
    by_program: bool = Field(default=False, exclude_if=not_)
    """True if a program of the requester has made the call, so that no message asked for it."""
    confirmed: bool = Field(default=False, exclude_if=not_)
    """True if the requester has confirmed the call; an approval is no yes."""
    prompt: str
    """The digest of the system prompt."""
    user_id: str
    user_roles: tuple[str, ...] = Field(default=(), exclude_if=not_)
    """The requester's roles when the call was requested; it is judged by them also at the end."""
    conversation_id: str
    decision_id: str
    """The decision that opened the request."""
    origin: str
    """The origin of the log that has this decision."""
    evidence: RequiredEvidence = Field(default=RequiredEvidence(), exclude_if=lambda evidence: not evidence.to_json())
    """The evidence that answers need where the call was requested."""
    renewals: int = Field(default=0, ge=0, le=MAX_RENEWALS, exclude_if=not_)
    """The number of requests before this one, which were approved when what the call acts on had changed."""

    @property
    def id(self) -> str:
        return self.action.id

    @property
    def counted_roles(self) -> tuple[str, ...]:
        """Every role in which people may answer, those that are needed first."""
        return (*self.roles, *self.further_roles)

    @property
    def digest(self) -> str:
        """SHA-256 over everything that an approver is shown, in hex: an answer names it."""
        return digest(self.to_json())

    @property
    def call_digest(self) -> str:
        """SHA-256 of the tool and its arguments: the same call has the same, however its numbers are written."""
        return same_call_digest(self.action.tool_name, self.action.arguments)


class ClosedRequest(Frozen):
    """A request at its end, with all answers: the input of its closing decision."""

    request: ApprovalRequest
    answers: tuple[ApprovalAnswer, ...] = ()
    end: ApprovalState
    why: str = Field(default="", exclude_if=not_)
    """For VOID: the reason, as a clause."""

    @property
    def counts(self) -> dict[str, int]:
        """The number of people who approved, by role."""
        return count_approvals(self.answers, self.request.user_id)


class ApprovalLook(Frozen):
    """A look at what the call of an approval request would act on now, and at what the rules read about it."""

    request: str
    viewer: str
    """The approver who looks; empty for the process that decides the request."""
    sources: CallSources | None = Field(default=None, exclude_if=not_)
    """The origin of the arguments when the call was requested."""


class AnswerState(StrEnum):
    """The state of the pending action that an answer names."""

    CURRENT = "current"
    SUPERSEDED = "superseded"
    """Another question has been asked in its conversation since, or its action was dropped."""
    WITHDRAWN = "withdrawn"
    """The user has withdrawn the question."""
    EXPIRED = "expired"
    LATE = "late"
    """The answer came in time, but its turn was continued only after the question had expired."""
    INTERRUPTED = "interrupted"
    """The turn was interrupted before it followed the answer. The question still waits."""
    OTHER_RULES = "other_rules"
    """Asked under other rules than those in force here. The question can still be answered where they are in force."""
    USED = "used"
    UNKNOWN = "unknown"
    """Never asked of this user in this conversation."""


STILL_WAITING = frozenset({AnswerState.INTERRUPTED, AnswerState.OTHER_RULES})
"""The states in which an answer had no effect, and the question can still be answered."""


class ConfirmationAnswer(Frozen):
    """The user's answer to one pending action, by its id."""

    pending_action: StorableText = Field(min_length=1, max_length=255)
    yes: bool | None
    """None for neither a yes nor a no, such as a closed form: the question stays open."""
    read: str = Field(default="", max_length=64, exclude_if=lambda value: not value)
    """The `whole_digest` of an action that the question did not show in full: the client has shown all of it."""
    state: AnswerState = AnswerState.CURRENT


class ShownQuestion(Frozen):
    """The confirmation question on the screen on which a message was typed."""

    pending_action: StorableText | None = Field(default=None, min_length=1, max_length=255)
    """None if no question was shown, or if it is not known which one."""
    state: AnswerState | None = Field(default=None, exclude_if=not_)
    """The state of the named question when the message arrived, which the chat service sets."""


def content_problem(message: str) -> str | None:
    """Return the reason why a message is rejected, as a sentence for the user, or None if it is accepted."""
    if not message.strip():
        return "The message is empty."
    if len(message) > MAX_MESSAGE_LENGTH:
        return f"The message is longer than {MAX_MESSAGE_LENGTH} characters."
    return None if unstorable(message) is None else "The message contains characters that are not valid text."


class DecisionContext(Frozen):
    """The complete input of a turn; the runtime keeps no session. The available tools come from the policy."""

    user_id: FilledText = Field(max_length=255)
    message: FilledText = Field(max_length=MAX_MESSAGE_LENGTH)
    conversation_id: FilledText = Field(max_length=255)
    message_history: list[Message] = Field(default_factory=list)
    pending_confirmation: PendingAction | None = None
    # Left out of the JSON if it is None, as `decision_type` of a message is.
    answers: ConfirmationAnswer | None = Field(default=None, exclude_if=not_)
    """An answer by id. Without it the message itself is read as the answer to `pending_confirmation`."""
    shown: ShownQuestion | None = Field(default=None, exclude_if=lambda value: value is None)
    """A typed yes or no belongs to this question. Without it, the message can only belong to `pending_confirmation`."""
    # Left out of the JSON if it is empty, as in most records.
    roles: tuple[FilledText, ...] = Field(default=(), exclude_if=not_)
    """The user's roles, which conditions can name."""
    # As above.
    dry_run: bool = Field(default=False, exclude_if=not_)
    """True to judge calls, but to send none that may change something or needs a yes."""
    # As above.
    time_zone: TimeZoneName = Field(default="", exclude_if=not_)
    """The name of the user's time zone, in which people read times; empty if it is not known. No value changes by it."""
    # As above.
    job: JobName = Field(default="", exclude_if=not_)
    """The job of which this is a run, as its client says: the user's standing plans for it are in force. Else empty."""
    # As above.
    typed: bool = Field(default=False, exclude_if=not_)
    """True if the user has typed `called`: they are one message. An agent makes any number of calls for one."""
    # As above.
    called: tuple[FunctionCall, ...] = Field(default=(), exclude_if=not_)
    """The calls of a decision without a model, which are judged as one batch; see `for_calls`."""
    # As above.
    undoes: UndoneDecision | None = Field(default=None, exclude_if=not_)
    """The decision whose changes the `called` calls undo. Each of them needs the user's yes."""
    # As above.
    proposed: RecordedPlan | None = Field(default=None, exclude_if=not_)
    """The plan that the user is asked about, made from an earlier decision. No model is asked."""
    # As above.
    approval: ClosedRequest | None = Field(default=None, exclude_if=not_)
    """For a closing decision: the request that has ended. It asks no model, and answers nothing else."""
    # As above.
    unknown: tuple[EarlierCall, ...] = Field(default=(), exclude_if=not_)
    """The changes of earlier turns of which it is not known whether they were done: a repetition needs the user's yes."""

    # As above.
    look: ApprovalLook | None = Field(default=None, exclude_if=not_)
    """For a dry run of the call of an approval request: its object is read too."""

    @field_validator("message_history")
    @classmethod
    def _keep_last_messages(cls, value: list[Message]) -> list[Message]:
        return value[-MAX_HISTORY_MESSAGES:]

    @model_validator(mode="after")
    def _calls_are_no_answer(self) -> DecisionContext:
        answers = self.pending_confirmation is not None or self.answers is not None
        if answers and self.is_without_model:
            raise ValueError("a decision without a model cannot answer a confirmation")
        if [bool(self.called), self.proposed is not None, self.approval is not None].count(True) > 1:
            raise ValueError("a decision without a model is one of calls, of a plan, or of an approval request")
        if self.look is not None and not (self.dry_run and len(self.called) == 1):
            raise ValueError("a look is a dry run of one call")
        if self.undoes is not None and len(self.undoes.calls) != len(self.called):
            raise ValueError("each call of a decision that undoes another one undoes one call of it")
        return self

    @field_validator("called")
    @classmethod
    def _calls_can_be_recorded(cls, value: tuple[FunctionCall, ...]) -> tuple[FunctionCall, ...]:
        try:
            _calls_text(value).encode()
            # In the order in which a replay reads them from the record, because a question names them in their order.
            return tuple(call.replace(arguments=json.loads(canonical_json(call.arguments))) for call in value)
        except (ValueError, TypeError, RecursionError):
            raise ValueError("the arguments must be plain JSON") from None

    @property
    def said_in(self) -> str:
        """The name of the time zone in which the sentences say times: the user's, or that of the question before."""
        request = None if self.approval is None else self.approval.request
        asked = self.pending_confirmation if request is None else request.action
        return self.time_zone or ("" if asked is None or asked.said is None else asked.said.time_zone)

    @property
    def is_of_message(self) -> bool:
        """True if the calls of the turn belong to one message of the user, so that they can be counted for it."""
        return self.typed or not self.called

    @property
    def question_lifetime(self) -> timedelta:
        """The time in which a question of the turn can be answered."""
        return JOB_QUESTION_LIFETIME if self.job else CONFIRMATION_LIFETIME

    @property
    def is_without_model(self) -> bool:
        """True if no model is asked, so that the message is the text of code."""
        return bool(self.called) or self.proposed is not None or self.approval is not None

    @classmethod
    def for_plan(
        cls, user_id: str, proposed: RecordedPlan, conversation_id: str, roles: tuple[str, ...] = ()
    ) -> DecisionContext:
        """Return the input of a decision that asks about a plan from the record. Its message names the decision."""
        message = again_message(proposed.decision_id)
        return cls(user_id=user_id, message=message, conversation_id=conversation_id, roles=roles, proposed=proposed)

    @classmethod
    def for_calls(
        cls,
        user_id: str,
        called: Sequence[FunctionCall],
        conversation_id: str,
        roles: tuple[str, ...] = (),
        *,
        typed: bool = False,
        undoes: UndoneDecision | None = None,
        time_zone: str = "",
    ) -> DecisionContext:
        """Return the input of a decision without a model.

        Its message names the calls, or the decision that they undo, for the reader of the log.
        """
        text = _calls_text(called) if undoes is None else f"undo decision {undoes.decision_id}"
        message = text if len(text) <= MAX_MESSAGE_LENGTH else f"{text[: MAX_MESSAGE_LENGTH - 1]}…"
        return cls(
            user_id=user_id,
            message=message,
            conversation_id=conversation_id,
            roles=roles,
            called=tuple(called),
            typed=typed,
            undoes=undoes,
            time_zone=time_zone,
        )


def again_message(decision_id: str) -> str:
    """Return the message of a decision that asks about a plan to do another one again."""
    return f"do decision {decision_id} again"


def _calls_text(called: Sequence[FunctionCall]) -> str:
    return "; ".join(f"call {canonical_json(call.name)} {canonical_json(call.arguments)}" for call in called)


class AgentDecision(Frozen, kw_only=False):
    """The one result of a turn.

    A question to the user is only in `clarification_question`; the question of a confirmation is in `response_text`. `effects`
    are receipts that code composes from committed tool results, and `notices` are further lines that code composes, such as
    "Not done: …"; a user interface shows both next to the model's words. A decision of the runtime always has one text; one
    that only requests tools (INVOKE_TOOL) may have none. `authors` is None if it is not known who wrote the texts.
    """

    decision_type: DecisionType
    tool_calls: list[ToolCall] | None = None
    response_text: str | None = None
    clarification_question: str | None = None
    pending_action: PendingAction | None = None
    # Left out of the JSON if there is none, as in most decisions.
    approval: ApprovalRequest | None = Field(default=None, exclude_if=not_)
    """The request that waits for the approval of other people: the user is asked nothing."""
    decision_id: str | None = None
    intent: UserIntent | None = None
    outcome_category: OutcomeCategory | None = None
    effects: list[str] = Field(default_factory=list)
    # Left out of the JSON if it is empty, as in most decisions.
    notices: list[str] = Field(default_factory=list, exclude_if=not_)
    calls_said: tuple[SaidCall, ...] = Field(default=(), exclude_if=not_)
    """The changes of the turn, and the calls that were refused or confirmed, as people read them."""
    authors: TextAuthors | None = Field(default=None, exclude_if=not_)
    void_answer: AnswerState | None = Field(default=None, exclude_if=not_)
    """The state of the question, if the user's answer to it had no effect."""
    confirmed: str = Field(default="", exclude_if=not_)
    """The id of the action that was done after the user's yes, if the turn did not end with that."""
    failure: LLMErrorCause | None = Field(default=None, exclude_if=not_)
    """Why a response of the model without an error could not be used, if that is known."""

    @model_validator(mode="after")
    def _has_one_text(self) -> AgentDecision:
        missing = [self.response_text, self.clarification_question].count(None)
        if missing != 1 and not (missing == 2 and self.decision_type is DecisionType.INVOKE_TOOL):
            raise ValueError("exactly one of response_text and clarification_question is set")
        if (self.clarification_question is not None) != (self.decision_type is DecisionType.ASK_CLARIFICATION):
            raise ValueError("a clarification question goes with ASK_CLARIFICATION")
        waits = [self.pending_action, self.approval].count(None) == 1
        if waits != (self.decision_type is DecisionType.REQUEST_CONFIRMATION) or (self.pending_action and self.approval):
            raise ValueError("either a pending action or an approval request goes with REQUEST_CONFIRMATION")
        if self.tool_calls is not None and not self.tool_calls:
            raise ValueError("without calls, tool_calls is None")
        return self

    @property
    def reply(self) -> str:
        """The text that the user reads."""
        return self.response_text or self.clarification_question or ""
