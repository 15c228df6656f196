"""Model text for people: cleaning, forms written out as text, calls written out as text."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_agent.models.llm import FunctionCall
from graph_agent.reply.sanitize import MAX_REPLY_CHARS, clean_reply, imitates_call, read_imitated_form
from tests.growth import grows_with_length

TOOLS = ("add_task", "list_tasks", "update_task", "complete_task", "delete_task")
NAMES = (*TOOLS, "ask_user", "decline")


def question(text: str, **more: str) -> FunctionCall:
    return FunctionCall(name="ask_user", arguments={"question": text, **more})


def refusal(text: str) -> FunctionCall:
    return FunctionCall(name="decline", arguments={"message": text})


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text stays", "plain text stays"),
        ("  trimmed \n", "trimmed"),
        ("a\r\nb\rc\u2028d\x85e", "a\nb\nc\nd\ne"),
        ("a\n\n\n\n\nb", "a\n\nb"),
        ("tab\tkept, bell\x07 and null\x00 not", "tab\tkept, bell and null not"),
        ("\x1b[31mred\x1b[0m and \x1b]0;title\x07done", "red and done"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\u202eevil\u202c \u2066x\u2069 \u200fy", "evil x y"),
        ("zero\u200bwidth\ufeff soft\u00adhyphen", "zerowidth softhyphen"),
        ("tags\U000e0041\U000e0042 and selectors\U000e0101\ufe01", "tags and selectors"),
        ("lone \ud800 surrogate", "lone  surrogate"),
        ("Grüße, 你好, مرحبا, नमस्ते", "Grüße, 你好, مرحبا, नमस्ते"),
    ],
)
def test_what_could_fool_a_screen_is_taken_out(text: str, shown: str) -> None:
    assert clean_reply(text, NAMES) == shown


@pytest.mark.parametrize(
    "text",
    ["👨\u200d👩\u200d👧", "❤\ufe0f\u200d🔥", "👍🏽", "🏳\ufe0f\u200d🌈", "می\u200cخواهم", "क\u094d\u200dष", "✔\ufe0f done"],
)
def test_joined_emoji_and_scripts_stay_whole(text: str) -> None:
    assert clean_reply(text, NAMES) == text


def test_a_joiner_between_letters_cannot_hide_a_name() -> None:
    assert clean_reply("I called add\u200d_task and del\u200bete_task.", NAMES) == "I called add task and delete task."


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("I used add_task.", "I used add task."),
        ("I used `add_task` for it.", "I used add task for it."),
        ("I used `default_api.add_task` for it.", "I used add task for it."),
        ("The tool add_task() failed.", "The tool add task failed."),
        ("I wrote tool_code for default_api", "I wrote tool code for default api"),
        ("**delete_task** is next", "**delete task** is next"),
        ("ADD_TASK and Add\\_Task", "ADD TASK and Add Task"),
        ("mcp__tasks__list_tasks was called", "list tasks was called"),
        ("I will ask_user first", "I will ask user first"),
        ("add_tasks_now is not a name", "add_tasks_now is not a name"),
        ("I must decline that.", "I must decline that."),
        ("(add_task,delete_task)", "(add task,delete task)"),
    ],
)
def test_hidden_names_become_plain_words(text: str, shown: str) -> None:
    assert clean_reply(text, NAMES) == shown


def test_names_of_other_servers_become_words_too() -> None:
    names = ("createIssue", "repo.search", "get-file", "echo")
    shown = clean_reply("I ran createIssue, `repo.search`, get-file and echo.", names)
    assert shown == "I ran create Issue, repo search, get file and echo."


def test_without_hidden_names_text_is_only_cleaned() -> None:
    assert clean_reply("add_task\x00", ()) == "add_task"
    assert clean_reply("a", ("", "_")) == "a"


def test_long_text_is_cut_at_a_word() -> None:
    shown = clean_reply("word " * 10_000, NAMES)
    assert len(shown) <= MAX_REPLY_CHARS
    assert shown.endswith("word…")
    assert len(clean_reply("x" * 10_000, NAMES)) == MAX_REPLY_CHARS


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Adding it now.\n```tool_code\nprint(default_api.add_task(description='x'))\n```", "Adding it now."),
        ('{"name": "delete_task", "arguments": {"task_id": "1"}}\nDeleted!', "Deleted!"),
        ('Sure! add_task(description="x")', "Sure!"),
        ('<tool_call>{"name": "add_task", "arguments": {}}</tool_call>', ""),
        ("Say add_task(description) to add", "Say add task(description) to add"),
    ],
)
def test_calls_written_on_lines_of_their_own_are_not_shown(text: str, shown: str) -> None:
    assert clean_reply(text, NAMES) == shown


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ('ask_user(question="Which one?", reason="multiple_matches")', question("Which one?", reason="multiple_matches")),
        ("ask_user('Which one?', 'unclear_intent')", question("Which one?", reason="unclear_intent")),
        ('ask_user({"question": "Which one?"})', question("Which one?")),
        ('ask_user(question: "Which\none?")', question("Which\none?")),
        ("[ask_user(question='Which one?')]", question("Which one?")),
        ('print(default_api.ask_user(question="Which one?"))', question("Which one?")),
        ('```tool_code\nprint(default_api.ask_user(question="Which one?"))\n```', question("Which one?")),
        ('`ask_user(question="Which one?")`', question("Which one?")),
        ('ask_user(message="Which one?")', question("Which one?")),
        ('{"name": "ask_user", "arguments": {"question": "Which one?"}}', question("Which one?")),
        ('```json\n{"name": "ask_user", "arguments": {"question": "Which one?"}}\n```', question("Which one?")),
        ('[{"name": "ask_user", "parameters": {"question": "Which one?"}}]', question("Which one?")),
        ('{"ask_user": {"question": "Which one?"}}', question("Which one?")),
        ('{"function": "ask_user", "question": "Which one?"}', question("Which one?")),
        ("{'name': 'ask_user', 'args': {'question': \"it's which?\"}}", question("it's which?")),
        ('{"function_call": {"name": "default_api.ask_user", "args": {"question": "Which?"}}}', question("Which?")),
        ('{"tool_calls": [{"function": {"name": "ask_user", "arguments": "{\\"question\\": \\"Q?\\"}"}}]}', question("Q?")),
        ('<function_call>{"name": "ask_user", "arguments": {"question": "Q?"}}</function_call>', question("Q?")),
        ('<tool_call>\n{"name": "ask_user", "arguments": {"question": "Q?"}}\n</tool_call>', question("Q?")),
        (
            "<ask_user><question>Q?</question><reason>missing_context</reason></ask_user>",
            question("Q?", reason="missing_context"),
        ),
        ("<function=ask_user><parameter=question>Q?</parameter></function>", question("Q?")),
        ('<invoke name="ask_user"><parameter name="question">Q?</parameter></invoke>', question("Q?")),
        ("ask_user: Which one?", question("Which one?")),
        ("ask_user\nquestion: Which one?\nreason: missing_context", question("Which one?", reason="missing_context")),
        ('Action: ask_user\nAction Input: {"question": "Which one?"}', question("Which one?")),
        ('decline("I can only help with tasks.")', refusal("I can only help with tasks.")),
        ("print(default_api.decline(message='Sorry (really), no.'))", refusal("Sorry (really), no.")),
        ('decline(reason="I can only help with tasks.")', refusal("I can only help with tasks.")),
        ('{"decline": "I can only help with tasks."}', refusal("I can only help with tasks.")),
        ("ask_user()", FunctionCall(name="ask_user", arguments={})),
        ('Let me ask.\n\nask_user(question="Which one?")', question("Which one?")),
        ('ask_user(question="Which one?")\n\nI will wait for your answer.', question("Which one?")),
    ],
)
def test_a_form_written_out_is_read(text: str, form: FunctionCall) -> None:
    assert read_imitated_form(text) == form


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Which one did you mean?",
        "I must decline (politely).",
        "I decline.",
        "The decline(s) of last year",
        'Use ask_user(question="x") whenever you need it.',
        'ask_user(question="cut off',
        '{"name": "ask_user", "arguments": ',
        '{"name": "Bob"}',
        '{"name": "add_task", "arguments": {"description": "ask_user"}}',
        'default_api.add_task(description="x")',
        'print(default_api.add_task(description="ask_user(question=1)"))',
        'my_ask_user(question="x")',
        "Your newest task is decline('everything')",
        'default_api.my_own(question="x")',
        "ask_user(open('/etc/passwd').read())",
    ],
)
def test_anything_else_is_no_form(text: str) -> None:
    assert read_imitated_form(text) is None


def test_a_tool_is_never_read_as_a_form() -> None:
    for tool in TOOLS:
        assert read_imitated_form(f'{tool}(question="x", message="y")') is None


def test_what_a_form_says_is_cleaned() -> None:
    assert read_imitated_form('{"name": "decline", "arguments": {"message": "no\\u202e\\ud800\\u0007"}}') == refusal("no")


@pytest.mark.parametrize(
    "text",
    [
        '```tool_code\nprint(default_api.add_task(description="x"))\n```',
        'add_task(description="x")',
        'add_task(description="x")\ndelete_task(task_id="1")',
        "add_task(description=some_variable)",
        'print(default_api.create_event(title="not even a tool"))',
        '{"name": "delete_task", "arguments": {"task_id": "1"}}',
        '```json\n{"name": "delete_task", "arguments": {"task_id": "1"}}\n```',
        '[{"name": "add_task", "arguments": {}}, {"name": "list_tasks", "arguments": {}}]',
        '<tool_call>{"name": "add_task", "arguments": {}}</tool_call>',
        "<function=add_task><parameter=description>x</parameter></function>",
        '[TOOL_CALLS] [{"name": "add_task", "arguments": {}}]',
        "```tool_code\nprint(default_api.add_task(description='cut off",
        'Action: add_task\nAction Input: {"description": "x"}',
        'ask_user(question="Which?")',
    ],
)
def test_nothing_but_a_call_is_seen_for_what_it_is(text: str) -> None:
    assert imitates_call(text, NAMES)
    assert clean_reply(text, NAMES) == "" or ":" in text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I've added 'x'.",
        'Sure, adding it. add_task(description="x")',
        '{"name": "Bob", "age": 4}',
        "Your tasks (3): a, b, c",
        "add_tasks(x)",
    ],
)
def test_a_reply_that_says_something_is_no_imitation(text: str) -> None:
    assert not imitates_call(text, NAMES)


def test_a_plain_word_that_names_a_tool_does_not_swallow_an_answer() -> None:
    assert not imitates_call("search: three results were found", ("search",))
    assert clean_reply("search: three results were found", ("search",)) == "search: three results were found"


PIECES = st.sampled_from(
    [*"(){}[]=:\\ x\n\"'", "ask_user", "decline", "add_task", "question", "name", "```", "<ask_user>", "</ask_user>", "print("]
).flatmap(lambda piece: st.sampled_from([piece, "default_api.", "\x1b[", "\u200d", "👍", "\ufe0f", "1e999", "\ud800"]))


@settings(max_examples=250, deadline=None)
@given(st.one_of(st.text(max_size=200), st.lists(PIECES, max_size=60).map("".join)))
def test_no_text_breaks_any_of_it(text: str) -> None:
    shown = clean_reply(text, NAMES)
    assert len(shown) <= MAX_REPLY_CHARS
    assert shown == shown.strip()
    assert not any(unicodedata.category(char) in {"Cc", "Cs"} and char not in "\n\t" for char in shown)
    assert not re.search(r"(?<!\w)(?:add_task|ask_user|default_api)(?!\w)", shown)
    imitates_call(text, NAMES)
    form = read_imitated_form(text)
    if form is not None:
        assert form.name in {"ask_user", "decline"}
        assert all(isinstance(value, str) for value in form.arguments.values())
        assert hash(form) == hash(form)


@pytest.mark.parametrize("name", TOOLS)
@given(before=st.text(alphabet="ab .,`*(", max_size=6), after=st.text(alphabet=" .,`*)", max_size=6))
@settings(max_examples=50, deadline=None)
def test_a_tool_name_that_stands_alone_never_survives(name: str, before: str, after: str) -> None:
    text = f"{before} {name}{after}"
    assert name not in clean_reply(text, NAMES)


@pytest.mark.parametrize(
    "unit",
    [
        *[
            "{",
            "(",
            "[",
            "`",
            "'",
            '"',
            " ",
            "\n",
            " \n",
            "```",
            "\x1b]",
            "\u200d",
            '{"a":',
            "add_",
            "add_task ",
            "default_api.",
        ],
        *["ask_user(", "<ask_user>", 'ask_user(question="'],
    ],
)
def test_a_hundred_kilobytes_are_cleaned_in_proportion_to_their_length(unit: str) -> None:
    def work(text: str) -> None:
        clean_reply(text, NAMES)
        read_imitated_form(text)
        imitates_call(text, NAMES)

    assert grows_with_length(work, lambda length: unit * (length // len(unit)) + "x", 100_000)
