"""The causes of a failed model call, each with its remedy, for the operator; a user reads the fixed reply instead."""

from __future__ import annotations

from collections.abc import Mapping

from graph_agent.models.base import Frozen
from graph_agent.models.llm import LLMErrorCause, LLMResponse


class FailureCause(Frozen):
    """A cause: its code, what happened, and what the operator can do about it, as two clauses of one sentence."""

    code: LLMErrorCause
    sentence: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.sentence}: {self.remedy}"


_CAUSES = {
    "KEY_REFUSED": ("the provider refused the API key", "set GEMINI_API_KEY or OPENAI_API_KEY to a valid key"),
    "MODEL_NOT_FOUND": ("the endpoint does not serve this model", "set GEMINI_MODEL or OPENAI_MODEL, or correct the base URL"),
    "TOOLS_NOT_SUPPORTED": ("the server refuses requests with tools", "use a model that supports tools, or enable them there"),
    "REQUEST_REFUSED": ("the server refused the request", "run `graph-agent doctor`, which quotes it, and check the base URL"),
    "CONTEXT_EXCEEDED": (
        "the request does not fit the model's context",
        "give the model's server a larger context, grant fewer tools, or use another model",
    ),
    "CALLS_AS_TEXT": (
        "the model writes its calls as text",
        "run `graph-agent doctor`; the server needs the model's template for tools, or another model",
    ),
    "REPEATED_CALLS": ("the model repeats its calls and gives no answer", "use a larger model"),
    "QUOTA_EXHAUSTED": ("the quota of this API key is exhausted", "raise it at the provider, or use another key or model"),
    "TURN_TOKENS": ("the turn has used its tokens; the model was not called again", "raise GRAPH_AGENT_TURN_TOKENS"),
    "DAY_TOKENS": ("the user has used the tokens of the day; the model was not called", "raise GRAPH_AGENT_DAY_TOKENS"),
    "RATE_LIMITED": ("the provider got too many requests", "send fewer at a time, or raise the limit at the provider"),
    "SERVER_ERROR": ("the model's server failed", "try again later; if the server is yours, read its log"),
    "UNREACHABLE": ("the model's endpoint cannot be reached", "check the base URL and the network, and start the server"),
    "NOT_JSON": ("the endpoint's answer is not JSON", "check the base URL, which may be that of a web page or a proxy"),
    "SCRIPT_ENDED": ("the script that plays the model has ended", "add a step for this call to its file"),
    "CANCELLED": ("the turn was stopped by its user, or its caller was gone", "send the message again"),
    "STOPPED": ("an operator has stopped the turn", "see `graph-agent stops`"),
    "RULES_REPLACED": ("other rules were put in force during the turn", "see `graph-agent rules list`; send the message again"),
    "TIMEOUT": ("the model did not answer in time", "use a faster model, or raise GRAPH_AGENT_TIMEOUT_SECONDS"),
    "INVALID_RESPONSE": ("the model's response cannot be used", "try again; if it happens often, use another model"),
    "BLOCKED": ("the provider's content filter blocked the answer", "rephrase the message"),
    "UNAVAILABLE": ("the model could not be reached, or its server failed", "run `graph-agent doctor` to see which"),
}
CAUSES: Mapping[LLMErrorCause, FailureCause] = {
    LLMErrorCause(code): FailureCause(code=LLMErrorCause(code), sentence=sentence, remedy=remedy)
    for code, (sentence, remedy) in _CAUSES.items()
}


def cause_of(response: LLMResponse) -> FailureCause:
    """Return the cause of a response that cannot be used, with the sizes of a request that did not fit the context."""
    cause, overflow = CAUSES[response.error_cause], response.overflow
    if overflow is None or overflow.context_tokens is None:
        return cause
    request = "the request" if overflow.request_tokens is None else f"the request of {overflow.request_tokens:,} tokens"
    return cause.replace(sentence=f"{request} does not fit the model's context of {overflow.context_tokens:,} tokens")
