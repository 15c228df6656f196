"""The state machine: node -> {outcome: next node}.

A node returns an outcome and does not know the next node. The compiled graph, the diagrams, the documentation and the
tests are derived from this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

BUILD_REQUEST = "BUILD_REQUEST"
INVOKE_LLM = "INVOKE_LLM"
CHECK_RESPONSE = "CHECK_RESPONSE"
EXECUTE_TOOLS = "EXECUTE_TOOLS"
APPEND_RESULTS = "APPEND_RESULTS"
CHECK_ITERATIONS = "CHECK_ITERATIONS"
TIMEOUT_RESPONSE = "TIMEOUT_RESPONSE"
ERROR_RESPONSE = "ERROR_RESPONSE"
BUILD_DECISION = "BUILD_DECISION"
END = "END"
START = BUILD_REQUEST

TOPOLOGY: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        BUILD_REQUEST: {
            "request_built": INVOKE_LLM,
            "confirmed": EXECUTE_TOOLS,
            "declined": BUILD_DECISION,
            "unclear": BUILD_DECISION,
            "void_answer": BUILD_DECISION,
        },
        INVOKE_LLM: {"responded": CHECK_RESPONSE},
        CHECK_RESPONSE: {"answered": BUILD_DECISION, "tool_calls": EXECUTE_TOOLS, "failed": ERROR_RESPONSE},
        EXECUTE_TOOLS: {"executed": APPEND_RESULTS, "awaiting": BUILD_DECISION, "confirmed_done": BUILD_DECISION},
        APPEND_RESULTS: {"appended": CHECK_ITERATIONS},
        CHECK_ITERATIONS: {"below_cap": INVOKE_LLM, "cap_reached": TIMEOUT_RESPONSE},
        TIMEOUT_RESPONSE: {"answered": BUILD_DECISION},
        ERROR_RESPONSE: {"answered": BUILD_DECISION},
        BUILD_DECISION: {"decided": END},
    }
)

_STATES_PER_ROUND = 5
_OTHER_STATES = 4


def recursion_limit(max_iterations: int) -> int:
    """Return LangGraph's own limit of states: the longest path through the table and one more.

    It is never reached, because CHECK_ITERATIONS ends the loop before.
    """
    return _STATES_PER_ROUND * max_iterations + _OTHER_STATES + 1
