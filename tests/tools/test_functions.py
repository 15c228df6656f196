"""`FunctionTools`: Python functions as tools."""

from __future__ import annotations

import asyncio
import functools
import sys
import threading
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator
from typing_extensions import TypedDict

from graph_agent import FunctionTools, ToolResult
from graph_agent.errors import ToolErrorCode, ToolRefusal
from graph_agent.tools.function_server import open_server


def order(dish: Literal["soup", "salad"], user_id: str, portions: int = 1) -> dict[str, Any]:
    """Order a dish."""
    return {"order": f"{portions} {dish} for {user_id}"}


async def count(words: list[str]) -> int:
    """Count words."""
    return len(words)


def where() -> str:
    """Name the thread."""
    return threading.current_thread().name


def fail() -> None:
    """Fail."""
    raise ValueError("a secret")


def run_out() -> None:
    """Refuse with a sentence."""
    raise ToolRefusal("Only 10 of bolt are in stock.")


def refuse() -> ToolResult:
    """Refuse."""
    return ToolResult(success=False, error="sold out", error_code=ToolErrorCode.NOT_FOUND)


TOOLS = FunctionTools(order, count, where, fail, run_out, refuse)


def test_the_declaration_is_the_signature_without_the_user() -> None:
    declared = TOOLS.declarations()[0]
    assert (declared.name, declared.description) == ("order", "Order a dish.")
    assert declared.parameters["properties"]["dish"]["enum"] == ["soup", "salad"]
    assert (set(declared.parameters["properties"]), declared.parameters["required"]) == ({"dish", "portions"}, ["dish"])


async def test_results_are_json_data() -> None:
    ordered = await TOOLS.execute("order", {"dish": "soup"}, "ann")
    assert (ordered.success, ordered.data) == (True, {"order": "1 soup for ann"})
    assert (await TOOLS.execute("count", {"words": ["a", "b"]}, "ann")).data == {"result": 2}
    assert (await TOOLS.execute("refuse", {}, "ann")).error == "sold out"
    assert (await TOOLS.execute("nothing", {}, "ann")).error_code is ToolErrorCode.TOOL_NOT_FOUND


async def test_a_function_that_blocks_runs_in_a_thread() -> None:
    assert (await TOOLS.execute("where", {}, "ann")).data != {"result": threading.current_thread().name}


async def test_an_exception_of_a_change_leaves_open_what_was_done_and_hides_its_text() -> None:
    read, change = await TOOLS.execute("fail", {}, "ann"), await TOOLS.execute("fail", {}, "ann", operation_key="k")
    assert (read.error_code, change.error_code) == (ToolErrorCode.TOOL_EXECUTION_ERROR, ToolErrorCode.TOOL_REPORTED_FAILURE)
    assert "secret" not in f"{read}{change}"


async def test_a_refusal_changed_nothing_and_keeps_its_sentence() -> None:
    refused = await TOOLS.execute("run_out", {}, "ann", operation_key="k")
    assert (refused.error, refused.error_code) == ("Only 10 of bolt are in stock.", ToolErrorCode.TOOL_REFUSED)
    assert not refused.unknown


def test_a_refusal_has_a_code_that_says_that_nothing_was_done() -> None:
    with pytest.raises(ValueError, match="NOT_FOUND, TOOL_REFUSED"):
        ToolRefusal("No answer.", ToolErrorCode.TIMEOUT_ERROR)


def not_json() -> Any:
    """Return an object."""
    return object()


def not_a_number() -> float:
    """Return NaN."""
    return float("nan")


def cyclic() -> list[Any]:
    """Return a list that contains itself."""
    returned: list[Any] = []
    returned.append(returned)
    return returned


def no_more() -> Any:
    """Take the first of nothing."""
    return next(iter(()))


def leave() -> None:
    """Exit."""
    raise SystemExit("a secret")


async def leave_later() -> None:
    """Exit."""
    raise SystemExit("a secret")


async def await_a_cancelled_task() -> None:
    """Await what was cancelled."""
    task = asyncio.create_task(asyncio.sleep(9))
    task.cancel()
    await task


async def cancel_itself() -> None:
    """Cancel the task that runs it."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(9)


def interrupt() -> None:
    """Interrupt."""
    raise KeyboardInterrupt


async def interrupt_later() -> None:
    """Interrupt."""
    raise KeyboardInterrupt


async def close() -> None:
    """End like a generator that is closed."""
    raise GeneratorExit


def cancelled() -> None:
    """Raise what a cancelled task raises."""
    raise asyncio.CancelledError


def recurse() -> None:
    """Call itself."""
    recurse()


RETURN_NOTHING = [not_json, not_a_number, cyclic, no_more, leave, leave_later, await_a_cancelled_task, cancel_itself]
RETURN_NOTHING += [interrupt, interrupt_later, close, cancelled, recurse]


@pytest.mark.parametrize("function", RETURN_NOTHING)
async def test_a_change_that_returns_nothing_usable_may_have_been_done(function: Callable[..., Any]) -> None:
    async with asyncio.timeout(30):
        result = await FunctionTools(function).execute(function.__name__, {}, "ann", operation_key="k")
    assert result.error_code is ToolErrorCode.TOOL_REPORTED_FAILURE
    assert "secret" not in f"{result}"


async def test_a_call_that_is_cancelled_cancels_its_function() -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        """Wait."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    call = asyncio.create_task(FunctionTools(wait).execute("wait", {}, "ann"))
    await started.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert ended.is_set()


async def test_arguments_that_a_validator_refuses_are_not_repeated() -> None:
    def refuse_value(value: str) -> str:
        raise ValueError(f"a secret: {value}")

    def pay(code: str) -> str:
        """Pay."""
        return code

    # As text, as this module has its annotations, it could not name the validator.
    pay.__annotations__["code"] = Annotated[str, AfterValidator(refuse_value)]
    refused = await FunctionTools(pay).execute("pay", {"code": "1234"}, "ann", operation_key="k")
    assert (refused.error, refused.error_code) == ("The arguments are not valid.", ToolErrorCode.VALIDATION_ERROR)


class _Line(TypedDict):
    sku: str


@pytest.mark.parametrize("name", ["_id", "model_dump", "model_config", "schema", "copy", "self", "cls", "function", "args"])
async def test_a_parameter_may_have_any_name(name: str) -> None:
    written = f"def get({name}: str, lines: list[_Line]) -> Unknown:\n    'Get.'\n    return [{name}, lines]"
    names: dict[str, Any] = {"_Line": _Line}
    # As text, so that the names are those of a file of functions.
    exec(compile(f"from __future__ import annotations\n{written}", "shop.py", "exec"), names)
    tools = FunctionTools(names["get"])
    assert list(tools.declarations()[0].parameters["properties"]) == [name, "lines"]
    result = await tools.execute("get", {name: "a", "lines": [{"sku": "b"}]}, "ann")
    assert result.data == ["a", [{"sku": "b"}]]


async def test_a_cached_function_and_a_bound_method_are_tools(tmp_path: Path) -> None:
    file = tmp_path / "shop.py"
    lines = ["import functools", "@functools.lru_cache", "def price(item: str) -> int:", " 'Price.'", " return len(item)"]
    lines += ["class Shop:", " def stock(self, item: str) -> int:", "  'Stock.'", "  return 3", "stock = Shop().stock"]
    file.write_text("\n".join(lines), encoding="utf-8")
    assert [tool.name for tool in await open_server(str(file), None).list_tools()] == ["price", "stock"]


def test_a_typed_dict_that_cannot_be_read_says_from_where_to_import_one() -> None:
    class Order(typing.TypedDict):
        gift: bool

    def order(one: Any) -> None:
        """Order."""

    order.__annotations__["one"] = Order
    if sys.version_info >= (3, 12):
        FunctionTools(order)
    else:
        with pytest.raises(TypeError, match="import TypedDict from typing_extensions"):
            FunctionTools(order)


async def test_an_async_function_may_be_decorated() -> None:
    @functools.wraps(count)
    def decorated(words: list[str]) -> Any:
        return count(words)

    assert (await FunctionTools(decorated).execute("count", {"words": ["a"]}, "ann")).data == {"result": 1}


def test_a_function_that_a_model_cannot_use_is_a_mistake() -> None:
    def without_docstring() -> None: ...

    def without_annotation(text) -> None:  # type: ignore[no-untyped-def]  # the missing annotation is tested
        """Do something."""

    for function in (without_docstring, without_annotation):
        with pytest.raises(TypeError, match="needs"):
            FunctionTools(function)
