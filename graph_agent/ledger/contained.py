"""Calls of functions that others wrote: whatever one raises, only its own call fails.

KeyboardInterrupt and SystemExit would end the event loop, a CancelledError would look like the end of the request, and no
future can carry a StopIteration, so that its caller would wait for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

T = TypeVar("T")


def run_contained(function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
    """Call a function. Raises its exception, and RuntimeError in place of one that would end more than this call."""
    try:
        return function(*args, **kwargs)
    except BaseException as error:
        if _ends_only_its_call(error):
            raise
        raise _failed(error) from error


async def await_contained(work: Awaitable[T]) -> T:
    """Await the result of an async function. Raises as `run_contained`; a cancellation of the caller cancels `work`."""
    # In a task of its own: a function that cancels its task does not cancel that of the caller.
    task = asyncio.ensure_future(_awaited(work))
    try:
        return await task
    except asyncio.CancelledError as error:
        if _is_cancelled():
            raise
        raise _failed(error) from error


def run_until_done(work: Awaitable[T]) -> T:
    """Run `work` in an event loop that a task which raises KeyboardInterrupt or SystemExit does not end."""
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        task = asyncio.ensure_future(_awaited(work), loop=loop)
        task.add_done_callback(lambda _: loop.stop())
        while not task.done():
            try:
                loop.run_forever()
            except (KeyboardInterrupt, SystemExit) as error:
                loop.call_exception_handler({"message": "a task would have ended the event loop", "exception": error})
        return task.result()


async def _awaited(work: Awaitable[T]) -> T:
    try:
        return await work
    except BaseException as error:
        if _ends_only_its_call(error) or (isinstance(error, asyncio.CancelledError) and _is_cancelled()):
            raise
        raise _failed(error) from error


def _ends_only_its_call(error: BaseException) -> bool:
    return isinstance(error, Exception) and not isinstance(error, StopIteration)


def _failed(error: BaseException) -> RuntimeError:
    return RuntimeError(f"the function raised {type(error).__name__}")


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
