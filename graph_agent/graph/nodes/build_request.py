"""BUILD_REQUEST: reads the user's answer to a pending confirmation and builds the model request.

A decision without a model has its calls already: they go to EXECUTE_TOOLS at once. One about a plan from the record asks.
"""

from __future__ import annotations

from dataclasses import replace

from graph_agent.graph.plan import ask_about_recorded_plan
from graph_agent.graph.state import Ending, EndingKind, Turn, TurnRuntime
from graph_agent.models.approval import ApprovalState
from graph_agent.models.decision import MAX_TIMES_ASKED, AfterYes, AnswerState, ClosedRequest, PendingAction
from graph_agent.models.llm import LLMRequest
from graph_agent.models.prompt import Prompt, by_user, said_earlier
from graph_agent.policy.consent import Consent, read_consent
from graph_agent.reply.authored import by_code
from graph_agent.reply.fixed import DECLINED_REPLY, NO_ANSWER, NOT_ON_SCREEN, not_done, pending_question, void_answer_reply
from graph_agent.reply.forms import PLAN_DECLARATION, REPLY_FORM_DECLARATIONS
from graph_agent.words.approvals import ended_without_call, reason_notices
from graph_agent.words.plan import plan_agreed
from graph_agent.words.said import brief_of

_ANSWERS = {Consent.YES: True, Consent.NO: False}


async def build_request(turn: Turn, runtime: TurnRuntime) -> Turn:
    if turn.context.called:
        return turn.to("called")
    if turn.context.proposed is not None:
        return await ask_about_recorded_plan(turn, runtime, turn.context.proposed)
    if turn.context.approval is not None:
        return _closed(turn, runtime, turn.context.approval)
    turn = turn.to("request_built", prompt=_prompt(turn, runtime))
    pending, answers = turn.context.pending_confirmation, turn.context.answers
    if pending is not None and not runtime.ports.verify(pending):
        pending = None
    if answers is not None and answers.state is not AnswerState.CURRENT:
        return _void_answer(turn, answers.state)
    if answers is not None and (pending is None or pending.id != answers.pending_action):
        return _void_answer(turn, AnswerState.UNKNOWN)
    if pending is None:
        gone = _typed_to_gone_question(turn)
        return turn if gone is None else _void_answer(turn, gone)
    return await _answered(turn, runtime, pending)


def _closed(turn: Turn, runtime: TurnRuntime, closed: ClosedRequest) -> Turn:
    """Begin the closing decision of an approval request: its call is made if it was approved, and nothing else is."""
    action = closed.request.action
    turn = turn.to("confirmed", notices=tuple(reason_notices(closed.answers)))
    if not runtime.ports.verify(action):
        return _void_answer(turn, AnswerState.UNKNOWN)
    if closed.end is not ApprovalState.APPROVED:
        return turn.to("declined", ending=Ending.of(EndingKind.DECLINED, by_code(ended_without_call(closed))))
    return turn.to("confirmed", confirmed=action)


async def _answered(turn: Turn, runtime: TurnRuntime, pending: PendingAction) -> Turn:
    """Read the user's answer to `pending`, whose signature is valid.

    After an unclear answer the question is asked again. Any other answer uses the action up: it can be answered only once.
    """
    ports, answers = runtime.ports, turn.context.answers
    in_time = pending.can_be_answered(ports.now())
    if in_time and answers is not None and answers.yes is None:
        # It is not asked again, so it does not count as asked.
        return _still_open(turn, pending, f"{NO_ANSWER} ")
    consent = _read_answer(turn, runtime, pending)
    before = ""
    if consent is Consent.YES and pending.by_id_only and (answers is None or answers.read != pending.whole_digest):
        # Nothing is confirmed that was not shown in full.
        consent = Consent.UNCLEAR
    if consent in (Consent.YES, Consent.NO) and _is_typed_elsewhere(turn, pending):
        consent, before = Consent.UNCLEAR, f"{NOT_ON_SCREEN} "
    if not in_time and consent is Consent.YES and pending.can_be_answered(turn.started_at):
        # The process that took the yes has died: its user does not expect any more that it is followed.
        return _void_answer(turn, AnswerState.LATE)
    if not in_time:
        if answers is not None or (consent in (Consent.YES, Consent.NO) and turn.context.shown is not None):
            return _void_answer(turn, AnswerState.EXPIRED)
        return turn.to(turn.outcome, notices=(not_done(brief_of(pending), "the question has expired"),))
    if consent in (Consent.YES, Consent.UNCLEAR) and ports.differing_rules(pending):
        # Not used up: the question can be answered where the rules are those under which it was asked. A no needs no rules.
        return _void_answer(turn, AnswerState.OTHER_RULES)
    if consent is Consent.YES and ports.interrupted:
        return _void_answer(turn, AnswerState.INTERRUPTED)
    if consent is Consent.UNCLEAR and pending.asked < MAX_TIMES_ASKED:
        again = pending.replace(asked=pending.asked + 1, signature="")
        return _still_open(turn, again.replace(signature=ports.sign(again)), before)
    if not await ports.consume(pending, yes=_ANSWERS.get(consent)):
        return turn if turn.context.answers is None else _void_answer(turn, AnswerState.USED)
    if consent is Consent.YES and pending.plan is not None:
        await ports.mint(pending)
        if pending.then is AfterYes.END:
            return turn.to("agreed", ending=Ending.of(EndingKind.ANSWER, by_code(plan_agreed(pending.plan))))
        return turn.to(turn.outcome, agreed=pending, notices=(plan_agreed(pending.plan),))
    if consent is Consent.YES:
        return turn.to("confirmed", confirmed=pending)
    if consent is Consent.NO:
        return turn.to("declined", ending=Ending.of(EndingKind.DECLINED, by_code(DECLINED_REPLY)))
    return turn.to(turn.outcome, notices=(not_done(brief_of(pending)),))


def _still_open(turn: Turn, pending: PendingAction, before: str) -> Turn:
    text = before + pending_question(pending)
    return turn.to("unclear", pending=pending, ending=Ending.of(EndingKind.AWAITING, by_code(text)))


def _read_answer(turn: Turn, runtime: TurnRuntime, pending: PendingAction) -> Consent:
    """Return the user's answer: by id if one was given, else as `read_consent` reads the message."""
    if turn.context.answers is not None:
        return Consent.YES if turn.context.answers.yes else Consent.NO
    policy = runtime.snapshot.policy
    return read_consent(turn.context.message, [policy.titles_of(one.tool_name) for one in pending.each])


def _is_typed_elsewhere(turn: Turn, pending: PendingAction) -> bool:
    """True if the message may answer a question other than `pending`: an answer by id names its question."""
    shown = turn.context.shown
    return turn.context.answers is None and shown is not None and shown.pending_action != pending.id


def _typed_to_gone_question(turn: Turn) -> AnswerState | None:
    """Return the state of the question that is on the user's screen and waits no more, if the message is a yes or a no to it.

    The model must not read it as an answer to anything else.
    """
    shown = turn.context.shown
    if turn.context.answers is not None or shown is None or shown.state in (None, AnswerState.CURRENT):
        return None
    return shown.state if read_consent(turn.context.message) in (Consent.YES, Consent.NO) else None


def _void_answer(turn: Turn, state: AnswerState) -> Turn:
    ending = Ending.of(EndingKind.VOID_ANSWER, by_code(void_answer_reply(state)))
    return turn.to("void_answer", ending=replace(ending, void_answer=state))


def _prompt(turn: Turn, runtime: TurnRuntime) -> Prompt:
    policy, kept = runtime.snapshot.policy, runtime.snapshot.config.include_history_messages
    history = turn.context.message_history[-kept:] if kept else []
    instruction = runtime.snapshot.prompt
    if runtime.snapshot.config.tell_time:
        instruction = f"{instruction}\n\nThe current time is {runtime.ports.now().isoformat(timespec='seconds')} (UTC)."
    request = LLMRequest(
        system_instruction=instruction,
        messages=[],
        tools=[*policy.declarations, *REPLY_FORM_DECLARATIONS, *([PLAN_DECLARATION] if runtime.snapshot.offers_plans else [])],
        temperature=runtime.snapshot.config.temperature,
        max_tokens=runtime.snapshot.config.max_tokens,
        # The model ends the turn by calling a reply form.
        tool_choice="required",
    )
    earlier = [said_earlier(message) for message in history if message.content]
    return Prompt.of(request, *earlier, by_user(turn.context.message))
