"""The fixed sentences that a user reads instead of the model's text."""

from __future__ import annotations

from collections.abc import Sequence

from graph_agent.errors import ToolErrorCode
from graph_agent.models.approval import ApprovalAnswer, ApprovalState
from graph_agent.models.decision import AnswerState, ApprovalRequest, PendingAction
from graph_agent.models.llm import LLMErrorCause, LLMErrorCode
from graph_agent.reply.authored import Parts, by_code, capitalized, joined, plain
from graph_agent.reply.text import one_line, quoted

FAILURE_REPLY = "I'm having trouble processing your request. Please try again."
RATE_LIMIT_REPLY = "I'm receiving too many requests. Please wait a moment."
CAP_REPLY = "That request is too complex. Could you break it into smaller steps?"
REPEATED_REPLY = "The model made the same call again and again, and gave no answer."
REPEATED_AND_FAILED_REPLY = "The model made the same call again and again, and it failed each time."
TOOL_REFUSED_REPLY = "That was refused, so nothing was changed."
"""The reply to a call that its tool has refused; the words of the tool follow."""
DECLINED_REPLY = "OK, I won't do that. Nothing was changed."
CHECK_FIRST = "Please check before you try again."
INTERRUPTED_UNKNOWN = f"I could not finish your request. {CHECK_FIRST}"
"""The reply to a failure after which it is not known whether a change was made; the receipts follow."""
DRY_RUN = "this is a dry run: "
"""The start of the reason for which a call of a dry run is not made."""
UNKNOWN_REPLY = f"I can't tell whether that was done. {CHECK_FIRST}"
REPORTED_FAILURE_REPLY = f"That reported a failure; what was done before is not known. {CHECK_FIRST}"
QUESTION_END = "Please answer yes or no."
CHANGED_SINCE_ASKED = "It has changed since I asked, so nothing was done."
"""The sentence before a question that is asked again."""
REST_CHANGED_SINCE_ASKED = "This has changed since I asked, so it was not done."
"""The same sentence, if an action before it on the same card was done."""
COULD_NOT_GO_ON = "I could not go on after that."
"""The end of a reply about confirmed actions, if the model then failed."""
IT_FAILED = "it failed"
"""The reason for an action that was confirmed and not done, as a clause."""
STOPPED_BEFORE = "the action before it was not done"
"""The same, for the actions after it on the card."""
NOT_ON_SCREEN = "Your answer may belong to another question, so nothing was done. This one is waiting now."
"""The sentence before a question whose answer was typed below another one."""
NO_ANSWER_TO_THIS = "Your answer does not name this question, or was given before, so nothing was done. Please answer this one."
"""The notice beside a question after a value that is no answer to it."""
NO_ANSWER = "That was neither yes nor no, so nothing was done. The question is still open."
"""The sentence before a question whose form was closed, or answered with something else."""
ONE_AT_A_TIME = "I ask about one action at a time. Ask me for the others next."
"""The notice beside a question that leaves out other changes, if the model is not asked again after the answer."""
NOTHING_CHANGED = "Nothing was changed."
NOTHING_OF_PLAN_RUNS = "There is no plan to agree to: nothing of it runs under the rules in force."
CONFIRMED_NOT_DONE = "You confirmed it, but it was not done: I was interrupted before. Please ask me again."
"""The reply to a yes whose turn was interrupted before the call, or whose call certainly had no effect."""
FORBIDDEN_NOT_DONE = {
    LLMErrorCause.STOPPED: "It was not done: the operator has stopped this. Please ask me again later.",
    LLMErrorCause.RULES_REPLACED: "It was not done: the rules have changed. Please ask me again.",
}
"""The reply to a yes, or the report about an approved call, by what an operator did before it was made."""
APPROVED_NOT_DONE = "It was not done: I was interrupted before. Please ask me again."
"""The report about a call that other people have approved, if its turn was interrupted before it."""
CLOSING_MESSAGES = {
    ApprovalState.APPROVED: "The request was approved.",
    ApprovalState.DENIED: "The request was denied.",
    ApprovalState.CANCELLED: "The request was withdrawn.",
    ApprovalState.EXPIRED: "The request has expired.",
    ApprovalState.VOID: "The request is void.",
}
"""The message in place of the user's with which an approval request is closed."""
CHANGED_SINCE_APPROVED = "It has changed since the request, so nothing was done."
"""The sentence before a request that is opened anew."""
_MAX_PERSON = 80
_MAX_DESCRIBED = 5
"""The number of refused actions that a notice describes."""
_MAX_NAMED = 400
"""The number of characters by which a notice names an action that was dropped."""
CUT_MARK = " […] (this answer was cut short)"

_VOID_ANSWERS = {
    AnswerState.SUPERSEDED: "That question has been replaced by a later one, so nothing was done.",
    AnswerState.WITHDRAWN: "You have withdrawn that question, so nothing was done.",
    AnswerState.EXPIRED: "That question has expired, so nothing was done. Please ask me again.",
    AnswerState.LATE: "You confirmed it in time, but it was not done before the question expired. Please ask me again.",
    AnswerState.INTERRUPTED: "I was interrupted before I could do it, so nothing was done. It still waits for your yes.",
    AnswerState.OTHER_RULES: "The rules are no longer those under which I asked, so nothing was done. Please ask me again.",
    AnswerState.USED: "That question has already been answered, so nothing was done now.",
}
_READ_FIRST = "Read all of it on the page or in a terminal, and confirm it there."
_UNKNOWN_QUESTION = "I have no such question waiting for you here, so nothing was done."

_BY_CAUSE = {
    LLMErrorCause.TURN_TOKENS: "That request needs more work than one message may use. Could you break it into smaller steps?",
    LLMErrorCause.DAY_TOKENS: "You have used up what I may do for you today. Please come back tomorrow.",
    LLMErrorCause.CONTEXT_EXCEEDED: (
        "This conversation, with my instructions and tools, is more than the model here can read at once. "
        "A new conversation may help; `graph-agent doctor` says how much it takes."
    ),
    LLMErrorCause.CANCELLED: "This was stopped, so I did nothing further.",
    LLMErrorCause.STOPPED: "The operator has stopped this, so I did nothing further.",
    LLMErrorCause.RULES_REPLACED: "The rules have changed, so I did nothing further. Please ask again.",
    LLMErrorCause.SCRIPT_ENDED: "The script that plays the model here has ended, so nothing answers this.",
    LLMErrorCause.CALLS_AS_TEXT: (
        "The model wrote a call as text instead of making it, so nothing came of it: "
        "it cannot call tools here as it should. `graph-agent doctor` says what to change."
    ),
}
_CONFIRMED_FAILURES = {ToolErrorCode.NOT_FOUND: "I couldn't find that any more, so nothing was changed."}
_CONFIRMED_FAILURE = "That didn't work, so nothing was changed. Please try again."


def not_undone(description: str, why: str) -> str:
    """Return the sentence before the question of an undo about a change that stays; `why` is a clause."""
    return f"This stays as it is: {lowered(description).removesuffix('.')} ({why})."


def not_in_plan(description: str, why: str) -> str:
    """Return the sentence before the question about a plan from the record, about a change that no line permits."""
    return f"Not in the plan: {lowered(description).removesuffix('.')} ({why})."


def may_have_changed(description: str) -> str:
    """Return the sentence before the question of an undo about a change that is not compared with what it had left."""
    what = lowered(description).removesuffix(".")
    return f"It is not known whether others have changed this since, which the undo takes away too: {what}."


def pending_question(pending: PendingAction) -> str:
    """Return the question about an action, after why it is asked, and after what its message has changed before."""
    before = "".join(f"{sentence} " for sentence in sentences_before(pending))
    return before + question(pending.description, by_id_only=pending.by_id_only, several=bool(pending.calls))


def sentences_before(pending: PendingAction) -> tuple[str, ...]:
    """Return the sentences before a question: what has changed, why it is asked, what was done, and whose values they are."""
    rules = map(by_rule, pending.because)
    said = (*pending.changed_since, *rules, pending.approval_then, pending.changed_before, *pending.origins)
    return tuple(filter(None, said))


def described_together(descriptions: Sequence[str]) -> str:
    """Return the actions of a card: one as it is, several as a numbered list. Texts in them are quoted, so none is a number."""
    if len(descriptions) == 1:
        return descriptions[0]
    listed = [f"{number}. {one}" for number, one in enumerate(descriptions, 1)]
    return "\n".join([f"{len(descriptions)} actions, in this order:", *listed])


def question(description: str, *, by_id_only: bool = False, several: bool = False) -> str:
    """Return the question to the user about an action, or about `several`."""
    text = description + ("\n" if "\n" in description else ". ")
    if by_id_only:
        return f"{text}This is too long to show here, so a typed yes does not confirm it. {_READ_FIRST}"
    return f"{text}Should I go ahead{' with all of them' if several else ''}? {QUESTION_END}"


def by_rule(rule: str) -> str:
    """Return the sentence before a question that conditions require; `rule` names them."""
    return f"A rule asks for your yes: {rule}."


def not_done(description: str, why: str = "") -> str:
    """Return the notice for an action that was dropped. `why` is the reason, as a clause."""
    text = one_line(description, _MAX_NAMED)
    return f"Not done: {text[:1].lower()}{text[1:]}{why and f' ({why})'}."


def refused(descriptions: Sequence[str], rule: str) -> str:
    """Return the notice for actions that code refused by `rule`, a clause."""
    shown = [*descriptions[:_MAX_DESCRIBED], *([f"{len(left)} more"] if (left := descriptions[_MAX_DESCRIBED:]) else [])]
    text = "; ".join(f"{one[:1].lower()}{one[1:]}" for one in shown)
    return f"Not done: {text}. {rule[:1].upper()}{rule[1:]}."


def waits_for_approval(request: ApprovalRequest, until: str) -> str:
    """Return the reply about a call that waits for the approval of other people; `until` is the end of the request in words."""
    action = request.action
    end = "\n" if "\n" in action.description else " " if action.description.endswith((".", ":")) else ". "
    rules = "; ".join(request.rules)
    return (
        f"{action.description}{end}"
        f"This waits for the approval of another person with the role {in_roles(request.roles)}. A rule asks for it: {rules}. "
        f"Nothing has been done yet. The request {request.id} is open until {until}."
    )


def in_roles(roles: Sequence[str]) -> str:
    """Return roles for a sentence."""
    return " or ".join(roles)


def approved_by(answers: Sequence[ApprovalAnswer]) -> str:
    """Return the sentence that names the people who approved a call, without its end."""
    people = [f"{quoted(one.approver, _MAX_PERSON)} as {one.role}" for one in answers if one.approve]
    return f"Approved by {' and '.join(people)}"


def denied_by(answer: ApprovalAnswer) -> str:
    """Return the sentence that names the person who denied a call, without its end."""
    return f"Denied by {quoted(answer.approver, _MAX_PERSON)} as {answer.role}"


def lowered(description: str) -> str:
    """Return the description of an action for the end of a sentence, on one line."""
    text = one_line(description, _MAX_NAMED)
    return f"{text[:1].lower()}{text[1:]}{'' if text.endswith('.') else '.'}"


def failure_reply(error: LLMErrorCode | None, cause: LLMErrorCause | None = None) -> str:
    """Return the reply to a model call without a usable response, or to one that a limit has prevented."""
    if cause in _BY_CAUSE:
        return _BY_CAUSE[cause]
    return RATE_LIMIT_REPLY if error is LLMErrorCode.RATE_LIMITED else FAILURE_REPLY


def void_answer_reply(state: AnswerState) -> str:
    """Return the reply to an answer whose question cannot be answered any more."""
    return _VOID_ANSWERS.get(state, _UNKNOWN_QUESTION)


def failed_call_reply(error_code: ToolErrorCode | None, *, unknown: bool) -> str:
    """Return the reply to a confirmed call that failed, or whose outcome is `unknown`."""
    if unknown:
        return REPORTED_FAILURE_REPLY if error_code is ToolErrorCode.TOOL_REPORTED_FAILURE else UNKNOWN_REPLY
    return _CONFIRMED_FAILURES.get(error_code, _CONFIRMED_FAILURE) if error_code else _CONFIRMED_FAILURE


def as_notice(uncertain: Parts) -> Parts:
    """Return the notice for a change that may have been made."""
    return capitalized(uncertain) + by_code(".")


def with_receipts(reply: Parts, done: Sequence[Parts], unknown: Sequence[Parts]) -> Parts:
    """Return `reply`, followed by the receipts of what was done and of what may have been done."""
    for title, receipts in (("Already done", done), ("Not certain", unknown)):
        if receipts:
            # A quoted result ends with a line of its own.
            space = "\n\n" if "\n" in plain(reply) else " " if reply else ""
            reply += by_code(f"{space}{title}: ") + joined("; ", receipts) + by_code(".")
    return reply
