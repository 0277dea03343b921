"""Concurrent coroutines: gather all results or cancel the rest, map a function over items, and block."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import Future
from contextvars import copy_context
from dataclasses import dataclass
from itertools import islice
from threading import Thread
from typing import Any, Generic, TypeVar

from askance.core.errors import InputError
from askance.core.panics import INTERRUPTIONS

T = TypeVar("T")
R = TypeVar("R")
Together = Callable[[Iterable[Awaitable[Any]]], Awaitable[list[Any]]]
"""The type of `gather_or_cancel` and `in_turn`."""


async def gather_or_cancel(work: Iterable[Awaitable[T]]) -> list[T]:
    """Run awaitables concurrently, and return their results in the order of `work`.

    The first failure cancels the other awaitables. Once they have ended, the failure is raised unchanged, so
    no call outlives a failed question.
    """
    tasks = [asyncio.ensure_future(awaitable) for awaitable in work]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


async def in_turn(work: Iterable[Awaitable[T]]) -> list[T]:
    """Run awaitables one after the other, and return their results in order.

    The effects of the awaitables on each other therefore never depend on timing.
    """
    waiting = list(work)
    try:
        return [await awaitable for awaitable in waiting]
    finally:  # close the coroutines that a failure kept from starting
        for awaitable in waiting:
            if isinstance(awaitable, Coroutine):
                awaitable.close()


@dataclass(frozen=True, slots=True)
class ItemResult(Generic[T, R]):
    """The result of the work on one item, or the error that stopped it."""

    item: T
    result: R | None = None
    error: BaseException | None = None


async def map_concurrent(
    items: Iterable[T], work: Callable[[T], Awaitable[R]], in_flight: int
) -> AsyncGenerator[list[ItemResult[T, R]]]:
    """Run `work` on every item, and yield the results in batches as they finish.

    Results that arrive while the caller handles a batch form the next batch, in the order of the items. The
    caller can thus write them to disk together. Closing the iterator cancels the items in flight.

    Args:
        items: The items, which are read lazily.
        in_flight: The maximum number of items that have been started but not yet yielded.

    Raises:
        InputError: `in_flight` is below 1.
    """
    if in_flight < 1:
        raise InputError(f"{in_flight} questions in flight answer none: use 1 or more.")
    waiting, running = enumerate(items), set[asyncio.Task[tuple[int, ItemResult[T, R]]]]()
    try:
        while True:
            for number, item in islice(waiting, in_flight - len(running)):
                running.add(asyncio.create_task(_run_item(number, item, work)))
            if not running:
                return
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            finished = sorted((task.result() for task in done), key=lambda numbered: numbered[0])
            yield [result for _, result in finished]
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _run_item(number: int, item: T, work: Callable[[T], Awaitable[R]]) -> tuple[int, ItemResult[T, R]]:
    try:
        return number, ItemResult(item, result=await work(item))
    except asyncio.CancelledError as error:  # either this task or a task that it awaits was cancelled
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return number, ItemResult(item, error=error)
    except INTERRUPTIONS:
        raise
    except BaseException as error:  # the other items continue; the caller records the error
        return number, ItemResult(item, error=error)


def run_blocking(call: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine from synchronous code, even in a thread with an event loop, and return its result."""
    result, context = Future[T](), copy_context()

    def run() -> None:
        try:
            result.set_result(context.run(asyncio.run, call))
        except BaseException as error:  # The waiting thread raises it again.
            result.set_exception(error)

    # The thread is a daemon, so that an interrupted program need not wait for the server.
    Thread(target=run, name="askance-wait", daemon=True).start()
    return result.result()
