"""The invariants, which hold for any model output, and the tests that prove each of them."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
HERE = "tests/invariants"


@dataclass(frozen=True)
class Invariant:
    """A statement and the node ids of the tests that prove it."""

    statement: str
    tests: tuple[str, ...]


_ANY_MODEL = f"{HERE}/test_any_model.py::test_every_invariant_of_a_turn_holds_for_any_model_output"
_GRAPH = f"{HERE}/test_compiled_graph.py::test_no_path_through_the_compiled_graph_exceeds_the_limits"
_RESERVED = (
    f"{HERE}/test_compiled_graph.py::test_the_compiled_graph_sends_what_guard_and_reservation_permit_and_uses_up_each_yes_once"
)
_FAULTS = f"{HERE}/test_faults.py::test_a_fault_anywhere_leaves_one_terminal_row_that_reports_every_effect"
_CANCELLATION = f"{HERE}/test_faults.py::test_a_cancellation_at_any_step_leaves_a_closed_row"
_INJECTION = f"{HERE}/test_users.py::test_an_injected_model_cannot_reach_another_users_tasks"
_QUESTION = "tests/graph/test_transitions.py::test_the_question_is_composed_by_code_and_the_changes_after_it_wait_too"

INVARIANTS = {
    1: Invariant(
        "At most `max_iterations` rounds and adapter calls.",
        (f"{HERE}/test_any_model.py::test_a_model_that_never_stops_gets_five_iterations", _GRAPH),
    ),
    2: Invariant(
        "No call beyond a limit of its batch or of its message is sent.",
        (
            f"{HERE}/test_any_model.py::test_no_call_beyond_a_limit_of_its_batch_is_sent",
            "tests/policy/test_guard.py::test_at_most_five_calls_a_round_and_ten_a_turn",
        ),
    ),
    3: Invariant(
        "Only whitelisted names reach MCP (and the previews that a server declares).",
        (_ANY_MODEL, f"{HERE}/test_any_model.py::test_a_preview_is_requested_only_from_a_server_that_declares_it"),
    ),
    4: Invariant(
        "An unknown tool is a recorded refusal, and the turn continues.",
        (_ANY_MODEL, "tests/turn/test_engine.py::test_a_refused_call_is_recorded_answered_and_the_turn_goes_on"),
    ),
    5: Invariant(
        "Arguments are valid against the strict schema before the call.",
        (_ANY_MODEL, "tests/policy/test_guard.py::test_arguments_must_be_valid_against_the_strict_schema"),
    ),
    6: Invariant(
        "The user in every statement on tasks is the authenticated one.",
        (_INJECTION, "tests/task_server/test_tools.py::test_another_users_task_is_not_found"),
    ),
    7: Invariant(
        "No read or write across users.",
        (_INJECTION, "tests/task_server/test_server.py::test_a_preview_shows_only_the_users_own_task"),
    ),
    8: Invariant(
        "No call that needs confirmation is made without the user's own consent to exactly that call.",
        (
            _ANY_MODEL,
            _GRAPH,
            _RESERVED,
            f"{HERE}/test_shown_values.py::test_a_yes_makes_a_call_only_if_every_value_is_as_it_was_at_the_question",
            f"{HERE}/test_shown_values.py::test_a_planted_mistake_about_shown_values_is_found",
            f"{HERE}/test_shown_values.py::test_a_mistake_about_shown_values_can_be_planted_in_the_source_as_it_is_now",
            f"{HERE}/test_plans.py::test_a_mandate_lets_run_exactly_what_the_yes_would_let_run",
            f"{HERE}/test_plans.py::test_the_mandate_is_read_after_the_conditions_and_drawn_before_the_effect",
            f"{HERE}/test_plans.py::test_no_call_is_sent_that_the_rules_or_the_lines_of_a_plan_do_not_permit",
            f"{HERE}/test_compiled_graph.py::test_a_plan_from_the_record_is_asked_about_and_nothing_is_sent",
            f"{HERE}/test_compiled_graph.py::test_a_standing_plan_begins_with_its_own_yes_once_and_nothing_is_sent",
            f"{HERE}/test_plans.py::test_a_planted_mistake_about_plans_is_found",
            f"{HERE}/test_plans.py::test_a_mistake_about_plans_can_be_planted_in_the_source_as_it_is_now",
        ),
    ),
    9: Invariant(
        "Consent works once, within five minutes (24 hours in the run of a job), for that user and conversation.",
        (
            "tests/words/test_confirmation.py::test_a_pending_action_can_be_answered_for_five_minutes",
            "tests/question/test_transitions.py::test_a_question_expires_when_its_time_is_over_and_not_before",
            f"{HERE}/test_one_approval.py::test_each_yes_is_for_one_effect_of_each_call_that_it_was_shown_for",
            "tests/words/test_confirmation.py::test_a_signature_binds_every_field_the_user_and_the_conversation",
            "tests/question/test_confirmations.py::test_one_of_many_concurrent_decisions_uses_a_confirmation",
        ),
    ),
    10: Invariant(
        "Gates fail closed.",
        (
            f"{HERE}/test_consent.py::test_consent_is_refused_when_its_database_fails",
            "tests/policy/test_guard.py::test_arguments_that_are_not_json_are_refused",
            "tests/turn/test_engine.py::test_without_the_log_nothing_is_called",
        ),
    ),
    11: Invariant("Code writes the confirmation.", (_QUESTION,)),
    12: Invariant(
        "Exactly one `AgentDecision` and exactly one terminal `DecisionLog` row per accepted request.",
        (_FAULTS, _CANCELLATION),
    ),
    13: Invariant(
        "The opening row precedes the first model call; a model response's row precedes its first tool call.",
        (f"{HERE}/test_faults.py::test_each_row_is_written_before_the_next_step_begins",),
    ),
    14: Invariant("One `ToolInvocationLog` row per call attempted, refused or skipped.", (_ANY_MODEL,)),
    15: Invariant(
        "An effect exists if and only if its ledger row exists.",
        (_FAULTS, "tests/task_server/test_ledger.py::test_every_effect_has_a_ledger_row_even_without_a_key"),
    ),
    16: Invariant(
        "A mutating call is sent again only under the same key to a server that declares the ledger.",
        (
            f"{HERE}/test_faults.py::test_a_recovery_sends_a_change_again_only_to_a_server_with_a_ledger",
            "tests/graph/test_transitions.py::test_without_a_ledger_unknown_stays_unknown_and_nothing_is_sent_again",
        ),
    ),
    17: Invariant(
        "Same key and body: same answer; other body: 422; still running: 409.",
        (
            "tests/chat/conversations/test_turns.py::test_the_same_key_gets_the_same_answer_and_adds_no_row",
            "tests/chat/conversations/test_turns.py::test_the_same_key_with_another_body_is_refused_whether_done_or_running",
            "tests/chat/conversations/test_turns.py::test_a_repetition_of_a_running_request_is_refused_as_in_progress",
        ),
    ),
    18: Invariant(
        "One running turn per conversation, across replicas.",
        (
            "tests/chat/conversations/test_turns.py::test_a_conversation_has_one_running_turn",
            "tests/chat/conversations/test_turns.py::test_one_of_many_claims_on_one_conversation_succeeds",
        ),
    ),
    19: Invariant(
        "A turn is answered within its deadline whatever hangs.",
        (f"{HERE}/test_deadlines.py::test_a_turn_is_answered_within_its_deadline_whatever_hangs",),
    ),
    20: Invariant(
        "Tokens, result sizes and parallelism are capped.",
        (
            f"{HERE}/test_limits.py::test_tokens_and_result_sizes_are_capped",
            f"{HERE}/test_limits.py::test_a_reply_of_megabytes_is_truncated_in_linear_time",
            "tests/api/test_chat_route.py::test_a_turn_above_the_admission_limit_is_refused_at_once",
        ),
    ),
    21: Invariant(
        "Disconnect and SIGTERM leave a closed log; nothing that can be cancelled keeps running, "
        "and the rest can no longer write.",
        (
            _CANCELLATION,
            f"{HERE}/test_deadlines.py::test_an_abandoned_task_can_no_longer_write",
            f"{HERE}/test_faults.py::test_a_process_whose_turn_was_taken_over_stops",
            "tests/api/test_server.py::test_a_shutdown_closes_the_record_of_a_disconnected_client",
        ),
    ),
    22: Invariant(
        "No exception text, tool name, prompt, key, DSN or foreign data in any text written for people "
        "(structured fields name tools).",
        (_ANY_MODEL, f"{HERE}/test_users.py::test_a_model_that_repeats_everything_reveals_nothing_internal"),
    ),
    23: Invariant(
        "Log lines cannot be forged.",
        (f"{HERE}/test_limits.py::test_log_lines_contain_no_text_of_a_user_model_or_tool",),
    ),
    24: Invariant(
        "An empty or malformed model output is never a success.",
        (f"{HERE}/test_any_model.py::test_an_empty_or_malformed_output_is_never_a_success",),
    ),
    25: Invariant(
        "No database connection is held across a model or tool await.",
        (f"{HERE}/test_limits.py::test_no_database_connection_is_held_while_a_model_or_tool_is_awaited",),
    ),
    26: Invariant(
        "Stored text is inert in the page.",
        ("tests/api/test_middleware.py::test_every_response_has_the_security_headers",),
    ),
    27: Invariant(
        "Every call in the conversation has exactly one response, also when a turn stops for confirmation.",
        (_ANY_MODEL, _QUESTION),
    ),
    30: Invariant(
        "Nothing is confirmed that was not shown in full.",
        (
            f"{HERE}/test_shown.py::test_a_call_is_sent_only_if_the_question_or_what_the_client_read_has_all_of_it",
            "tests/words/test_confirmation.py::"
            "test_a_question_shows_every_argument_in_full_on_a_line_that_its_value_cannot_end",
            "tests/words/test_confirmation.py::test_a_longer_argument_is_visibly_shortened_and_counts_as_not_shown",
            "tests/graph/test_confirmation.py::"
            "test_an_action_that_is_not_shown_in_full_is_confirmed_only_by_id_and_after_it_was_read",
            "tests/cli/test_ask.py::test_a_question_that_another_terminal_asked_is_shown_here_before_a_yes_confirms_it",
        ),
    ),
}

NOT_PROVED = {
    28: "Without a ledger a call is sent at most once per key, also with clocks apart and processes paused.",
    29: "A budget is never overspent; refused and repeated calls use nothing.",
    31: "A record whose path the topology does not allow is never written.",
}
"""The statements that have no test yet: nothing may rely on them."""

SUPPORTING = {
    f"{HERE}/test_plans.py::test_a_mandate_lets_run_exactly_what_the_yes_would_let_run",
    f"{HERE}/test_plans.py::test_the_mandate_is_read_after_the_conditions_and_drawn_before_the_effect",
    f"{HERE}/test_approval_model.py::test_a_planted_mistake_of_the_protocol_is_found",
    f"{HERE}/test_approval_model.py::test_no_reachable_state_of_a_request_is_wrong_and_each_can_end",
    f"{HERE}/test_compiled_graph.py::test_aisvs_9_2_1_no_path_of_the_compiled_graph_sends_a_call_that_waits_without_its_claim",
    f"{HERE}/test_card_faults.py::test_a_fault_anywhere_on_a_card_leaves_each_effect_at_most_once",
    f"{HERE}/test_faults.py::test_a_recovery_cancelled_at_any_step_keeps_the_recorded_effects",
    f"{HERE}/test_random_conversations.py::test_a_batch_whose_calls_all_succeed_gets_the_verdicts_that_a_proof_foresees",
    f"{HERE}/test_random_conversations.py::test_in_every_conversation_the_gates_keep_their_promises_and_the_end_is_as_stored",
    f"{HERE}/test_text_origins.py::test_a_trusted_result_taints_nothing",
    f"{HERE}/test_text_origins.py::test_a_message_without_an_origin_is_an_error",
    f"{HERE}/test_text_origins.py::test_each_message_with_a_foreign_text_has_the_origin_of_it",
    f"{HERE}/test_text_origins.py::test_what_code_says_quotes_no_foreign_text",
    f"{HERE}/test_text_origins.py::test_a_call_that_obeys_a_foreign_text_asks_its_user",
    f"{HERE}/test_faulty_ports.py::test_a_port_that_raises_yields_an_error_result",
    f"{HERE}/test_faulty_ports.py::test_a_failed_settlement_reports_the_change_as_unknown",
    f"{HERE}/test_faulty_ports.py::test_a_rate_limit_with_an_invalid_delay_is_still_a_rate_limit",
    f"{HERE}/test_faulty_ports.py::test_ports_cannot_modify_the_turn",
    f"{HERE}/test_faulty_ports.py::test_a_record_whose_policy_snapshot_is_lost_is_closed",
    f"{HERE}/test_faulty_ports.py::test_text_that_a_database_cannot_store_never_leaves_a_row_open",
    f"{HERE}/test_faulty_ports.py::test_a_context_that_cannot_be_recorded_is_rejected",
}
"""Tests in this folder of assumptions that several invariants share."""


@cache
def _tests_in(path: Path) -> frozenset[str]:
    """Return the names of the test functions in a file; a file that does not exist has none."""
    if not path.exists():
        return frozenset()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(function.name for function in functions if function.name.startswith("test_"))


def test_every_number_from_1_to_31_is_proved_or_named_as_not_proved() -> None:
    assert sorted([*INVARIANTS, *NOT_PROVED]) == list(range(1, 32))


def test_every_invariant_names_tests_that_exist() -> None:
    missing = {
        number: test
        for number, invariant in INVARIANTS.items()
        for test in invariant.tests
        if test.partition("::")[2] not in _tests_in(ROOT / test.partition("::")[0])
    }
    assert missing == {}
    assert all(invariant.tests for invariant in INVARIANTS.values())


def test_every_test_of_this_folder_is_in_the_table() -> None:
    listed = SUPPORTING.union(*(invariant.tests for invariant in INVARIANTS.values()))
    present = {
        f"{HERE}/{path.name}::{name}"
        for path in (ROOT / HERE).glob("test_*.py")
        if path != Path(__file__)
        for name in _tests_in(path)
    }
    assert present - listed == set()
    assert SUPPORTING - present == set()
