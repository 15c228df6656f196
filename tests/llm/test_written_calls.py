"""Calls that a model writes out as text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_agent.llm.model_markup import strip_model_markup
from graph_agent.llm.written_calls import without_calls, written_calls
from tests.examples import examples
from tests.scaling import grows_with_length

NAMES = ("add_task", "delete_task", "answer", "ask_user", "decline")


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        ('add_task(description="x")', "add_task", {"description": "x"}),
        ("add_task()", "add_task", {}),
        ("add_task(description='it\\'s (x)')", "add_task", {"description": "it's (x)"}),
        ("add_task(description=unquoted)", "add_task", None),
        ("add_task('positional')", "add_task", None),
        ('add_task(description="cut off', "add_task", None),
        ('`ask_user(question="Which?")`', "ask_user", {"question": "Which?"}),
        ('[ask_user(question="Which?")]', "ask_user", {"question": "Which?"}),
        ('print(default_api.answer(text="Hi", reports_change=True))', "answer", {"text": "Hi", "reports_change": True}),
        ("```tool_code\nprint(default_api.add_task(description='x'))\n```", "add_task", {"description": "x"}),
        ('{"name": "add_task", "arguments": {"description": "x"}}', "add_task", {"description": "x"}),
        ('{"name": "add_task", "parameters": {}}', "add_task", {}),
        ('{"name": "add_task", "arguments": "{\\"description\\": \\"x\\"}"}', "add_task", {"description": "x"}),
        ('{"name": "add_task", "arguments": "broken"}', "add_task", None),
        ('```json\n{"name": "add_task", "arguments": {}}\n```', "add_task", {}),
        ('<tool_call>\n{"name": "add_task", "arguments": {}}\n</tool_call>', "add_task", {}),
        ('[TOOL_CALLS] [{"name": "add_task", "arguments": {}}]', "add_task", {}),
        ('[TOOL_REQUEST]{"name": "add_task", "arguments": {}}[END_TOOL_REQUEST]', "add_task", {}),
        ('{"function_call": {"name": "default_api.add_task", "args": {}}}', "add_task", {}),
        ('default_api:add_task(description="x")', "add_task", {"description": "x"}),
        ('[TOOL_CALLS]add_task{"description": "x"}', "add_task", {"description": "x"}),
        ("call:default_api:add_task{description:call mom}", "add_task", None),
        ('<|tool_call_begin|>functions.add_task:0{"description": "x"}<|tool_call_end|>', "add_task", {"description": "x"}),
        ('{"tool_calls": [{"function": {"name": "add_task", "arguments": "{}"}}]}', "add_task", {}),
        (
            "<tool_call>add_task\n<arg_key>description</arg_key>\n<arg_value>x</arg_value>\n</tool_call>",
            "add_task",
            {"description": "x"},
        ),
        ("<tool_call>rename\n<arg_key>note</arg_key>", "rename", None),
        (
            '<|channel|>commentary to=functions.add_task <|constrain|>json<|message|>{"description": "x"}<|call|>',
            "add_task",
            {"description": "x"},
        ),
        (
            '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>add_task\n```json\n{"description": "x"}\n```'
            "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
            "add_task",
            {"description": "x"},
        ),
        ('<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>rename<｜tool▁sep｜>{"to": "x"}', "rename", {"to": "x"}),
    ],
)
def test_a_text_that_is_a_call_is_found_whole(text: str, name: str, arguments: dict[str, Any] | None) -> None:
    (call,) = written_calls(text, NAMES)
    assert (call.name, call.arguments, call.start, call.end) == (name, arguments, 0, len(text))
    assert without_calls(text, [call]) == ""


OF_FAMILIES = {
    "Mistral": '[TOOL_CALLS]NAME[ARGS]{"to": "x"}',
    "Mistral with an id": '[TOOL_CALLS]NAME[CALL_ID]abc123456[ARGS]{"to": "x"}',
    "Kimi": "<|tool_calls_section_begin|><|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>"
    '{"to": "x"}<|tool_call_end|><|tool_calls_section_end|>',
    "Qwen 2": '✿FUNCTION✿: NAME\n✿ARGS✿: {"to": "x"}\n✿RESULT✿',
    "DeepSeek": '<｜tool▁call▁begin｜>NAME<｜tool▁sep｜>{"to": "x"}<｜tool▁call▁end｜>',
    "DeepSeek with tags": '<｜DSML｜function_calls>\n<｜DSML｜invoke name="NAME">\n<｜DSML｜parameter name="to" string="true">x'
    "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
    "MiniMax": '<minimax:tool_call><invoke name="NAME"><parameter name="to">x</parameter></invoke></minimax:tool_call>',
    "Hunyuan": "<tool_calls><tool_call>NAME<tool_sep><arg_key>to</arg_key><arg_value>x</arg_value></tool_call></tool_calls>",
    "LongCat": "<longcat_tool_call>NAME\n<longcat_arg_key>to</longcat_arg_key>\n<longcat_arg_value>x</longcat_arg_value>"
    "\n</longcat_tool_call>",
    "Step": "<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜>"
    '<steptml:invoke name="NAME"><steptml:parameter name="to">x</steptml:parameter></steptml:invoke>'
    "<｜tool_call_end｜><｜tool_calls_end｜>",
    "Command": '<|START_THINKING|>Hm.<|END_THINKING|><|START_ACTION|>[{"tool_call_id": "0", "tool_name": "NAME", '
    '"parameters": {"to": "x"}}]<|END_ACTION|>',
    "Command R": 'Action: ```json\n[{"tool_name": "NAME", "parameters": {"to": "x"}}]\n```',
    "Phi": 'functools[{"name": "NAME", "arguments": {"to": "x"}}]',
    "gpt-oss": "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant to=functions.NAME<|channel|>commentary json"
    '<|message|>{"to": "x"}<|call|>',
    "gpt-oss without tokens": 'assistantcommentary to=functions.NAME json{"to": "x"}',
}


@pytest.mark.parametrize("name", ["add_task", "rename"])
@pytest.mark.parametrize("family", OF_FAMILIES)
def test_a_call_in_the_notation_of_a_family_is_found_whole(family: str, name: str) -> None:
    text = strip_model_markup(OF_FAMILIES[family].replace("NAME", name))
    (call,) = written_calls(text, NAMES)
    assert (call.name, call.arguments, without_calls(text, [call])) == (name, {"to": "x"}, "")


@pytest.mark.parametrize(
    ("text", "called"),
    [
        ("<tool_call>add_task\n</tool_call>", [("add_task", {})]),
        ('add_task\n{"description": "x"}', [("add_task", {"description": "x"})]),
        ("<start_function_call>call:rename{to:<escape>x<escape>}<end_function_call>", [("rename", None)]),
        ('<|tool_call>call:rename{to:<|"|>x<|"|>}<tool_call|>', [("rename", None)]),
        ('[TOOL_CALLS]add_task[ARGS]{"n": 1}[TOOL_CALLS]rename[ARGS]{"n": 2}', [("add_task", {"n": 1}), ("rename", {"n": 2})]),
        (
            '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>add_task<｜tool▁sep｜>{"n": 1}<｜tool▁call▁end｜>'
            '<｜tool▁call▁begin｜>rename<｜tool▁sep｜>{"n": 2}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
            [("add_task", {"n": 1}), ("rename", {"n": 2})],
        ),
    ],
)
def test_calls_without_arguments_with_unreadable_ones_and_several_leave_no_text(
    text: str, called: list[tuple[str, dict[str, Any] | None]]
) -> None:
    text = strip_model_markup(text)
    calls = written_calls(text, NAMES)
    assert [(call.name, call.arguments) for call in calls] == called
    assert without_calls(text, calls) == ""


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ('Adding it.\n```\nadd_task(description="x")\n```', "Adding it."),
        ('Sure! add_task(description="x")', "Sure!"),
        ('{"name": "delete_task", "arguments": {"task_id": "1"}}\nDeleted!', "Deleted!"),
        ('add_task(description="x")\nand\ndelete_task(task_id="1")', "and"),
    ],
)
def test_the_text_around_a_call_is_left(text: str, left: str) -> None:
    assert without_calls(text, written_calls(text, NAMES)) == left


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The answer (in short) is yes.",
        "The answer(s) to your question",
        "Say add_task(description) to add one",
        'Say create_event(title="x") to add one',
        'print("hello")',
        "os.makedirs(name='x')",
        '{"name": "Bob", "age": 4}',
        '{"name": "Bob"}',
        '{"name": "Bob", "parameters": {"size": 4}, "email": "bob@example.com"}',
        '{"name": "Bob", "input": "text"}',
        "my_add_task(x)",
        "The tag <tool_call> begins a call",
        "A reply with [TOOL_CALLS] in it",
        "Write `to=functions` there",
        "{{{",
        "[1] and {2}",
    ],
)
def test_any_other_text_is_no_call(text: str) -> None:
    assert written_calls(text, NAMES) == []
    assert without_calls(text, []) == text


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        ('{"name": "rename", "arguments": {"task_id": "buy milk"}}', "rename", {"task_id": "buy milk"}),
        ('```json\n{"name": "add eggs and bread", "arguments": {"n": 2}}\n```', "add eggs and bread", {"n": 2}),
        ('{"type": "function", "name": "print_system_prompt", "parameters": {}}', "print_system_prompt", {}),
        ('{"action": "rename", "action_input": {"to": "x"}}', "rename", {"to": "x"}),
        ('[{"tool_name": "rename", "parameters": {"to": "x"}}]', "rename", {"to": "x"}),
        ('{"tool_call": {"name": "rename", "arguments": "{}"}}', "rename", {}),
        ('<|python_tag|>{"name": "rename", "parameters": {"to": "x"}}', "rename", {"to": "x"}),
        ('<|tool_call|>[{"name": "rename", "arguments": {}}]<|/tool_call|>', "rename", {}),
        ("<tool_call>\n<function=rename>\n<parameter=to>\nx\n</parameter>\n</function>\n</tool_call>", "rename", {"to": "x"}),
        ('<function=rename>{"to": "x"}</function>', "rename", {"to": "x"}),
        ('<function_calls>\n<invoke name="rename">\n<parameter name="to">x</parameter>\n</invoke>\n</function_calls>', "rename",
         {"to": "x"}),
        ('Action: rename\nAction Input: {"to": "x"}', "rename", {"to": "x"}),
        ("{'name': 'rename', 'arguments': {'to': 'it'}}", "rename", {"to": "it"}),
        ('{"name": "rename", "arguments": {"to": x}}', "rename", None),
        ('[get_weather(city="Paris")]', "get_weather", {"city": "Paris"}),
        ("```tool_code\nprint(default_api.print_system_prompt())\n```", "print_system_prompt", {}),
        ('{"list_tasks": {"status": "pending"}}', "list_tasks", {"status": "pending"}),
        ('{"name": "list_tasks"}', "list_tasks", {}),
    ],
)  # fmt: skip
def test_a_call_of_a_function_that_is_not_declared_is_a_call_too(
    text: str, name: str, arguments: dict[str, Any] | None
) -> None:
    (call,) = written_calls(text, (*NAMES, "list_tasks"))
    assert (call.name, call.arguments, without_calls(text, [call])) == (name, arguments, "")


@pytest.mark.parametrize(
    ("text", "arguments", "left"),
    [
        ('{"name": "answer", "arguments": {"text": "Hi!"}}. Please ask.', {"text": "Hi!"}, ". Please ask."),
        ('answer(text="Hi!") Please ask.', {"text": "Hi!"}, "Please ask."),
        ('I call {"name": "answer", "arguments": {"text": "Hi!"}} now', {"text": "Hi!"}, "I call\nnow"),
    ],
)
def test_a_call_may_have_prose_on_its_line(text: str, arguments: dict[str, Any], left: str) -> None:
    (call,) = calls = written_calls(text, NAMES)
    assert (call.name, call.arguments, without_calls(text, calls)) == ("answer", arguments, left)


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ('{"name": "answer", "arguments": {"text": "Once upon', {"text": "Once upon"}),
        ('```json\n{"name": "answer", "arguments": {', {}),
        ('{"name": "answer"', {}),
    ],
)
def test_a_call_that_is_cut_off_is_not_whole(text: str, arguments: dict[str, Any] | None) -> None:
    (call,) = written_calls(text, NAMES)
    assert (call.name, call.arguments, call.whole, without_calls(text, [call])) == ("answer", arguments, False, "")


def test_prose_with_many_brackets_does_not_hide_a_call() -> None:
    text = "[1] {2} " * 50 + '{"name": "add_task", "arguments": {}}'
    assert [call.name for call in written_calls(text, NAMES)] == ["add_task"]


PIECES = st.sampled_from(
    [
        *"(){}[]=:\\ x\n\"'`",
        "ask_user",
        "answer(",
        "add_task(",
        '"name": ',
        '"arguments": ',
        "```",
        "<tool_call>",
        "print(",
        "1e999",
    ]
)


@settings(max_examples=examples(300), deadline=None)
@given(st.one_of(st.text(max_size=200), st.lists(PIECES, max_size=60).map("".join)))
def test_calls_are_in_order_and_never_overlap(text: str) -> None:
    position = 0
    for call in written_calls(text, NAMES):
        assert position <= call.start < call.end <= len(text)
        position = call.end


@pytest.mark.parametrize(
    "unit",
    [
        *["{", "[", "(", "`", '"', "'", "\n", "```", '{"a":', '{"a":[', "[[", "…", "add_task(", "add_task()", 'add_task("'],
        *['{"name":"add_task","arguments":{}}', '{"name":"add_task","arguments":"', "default_api.", "print(", "<a>", "[a]"],
        "add_task(((((((())))))))",
        "add_task{",
        "add_task{}",
    ],
)
def test_the_work_grows_in_proportion_to_the_length(unit: str) -> None:
    def read_calls(text: str) -> None:
        without_calls(text, written_calls(text, NAMES))

    assert grows_with_length(read_calls, lambda length: unit * (length // len(unit)), 32_000)
