"""Concurrency for coroutines: all of them or the first failure, and many items with each failure kept
apart.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypeVar

from askance.core.errors import InputError
from askance.core.panics import INTERRUPTIONS

T = TypeVar("T")
R = TypeVar("R")
Together = Callable[[Iterable[Awaitable[Any]]], Awaitable[list[Any]]]
"""`gather_or_cancel` or `in_turn`."""


async def gather_or_cancel(work: Iterable[Awaitable[T]]) -> list[T]:
    """The results in the order of `work`.

    The first failure cancels the others and, once all of them have ended, is raised as it is: nothing goes
    on behind a question that has failed.
    """
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


async def in_turn(work: Iterable[Awaitable[T]]) -> list[T]:
    """The same, one after the other: what each leaves for the next never depends on timing."""
    waiting = list(work)
    try:
        return [await each for each in waiting]
    finally:  # those behind one that failed have never begun
        for each in waiting:
            if isinstance(each, Coroutine):
                each.close()


@dataclass(frozen=True, slots=True)
class ItemResult(Generic[T, R]):
    """What became of one item: a result, or the error that stopped it."""

    item: T
    result: R | None = None
    error: BaseException | None = None


async def map_concurrent(
    items: Iterable[T], work: Callable[[T], Awaitable[R]], in_flight: int
) -> AsyncGenerator[list[ItemResult[T, R]]]:
    """Do `work` for every item, and yield those that have finished since the last time, in the items' order.

    Results that finish faster than the caller deals with them come together, so that they can be written to a
    disk at once. No more than `in_flight` items are begun and not yet yielded, whatever their number. Closing
    the iterator cancels what is in flight.

    Raises:
        InputError: `in_flight` is below 1.
    """
    if in_flight < 1:
        raise InputError(f"{in_flight} questions in flight answer none: use 1 or more.")
    waiting, running = enumerate(items), set[asyncio.Task[tuple[int, ItemResult[T, R]]]]()
    try:
        while True:
            for number, item in islice(waiting, in_flight - len(running)):
                running.add(asyncio.create_task(_outcome(number, item, work)))
            if not running:
                return
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            finished = sorted((task.result() for task in done), key=lambda numbered: numbered[0])
            yield [outcome for _, outcome in finished]
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _outcome(number: int, item: T, work: Callable[[T], Awaitable[R]]) -> tuple[int, ItemResult[T, R]]:
    try:
        return number, ItemResult(item, result=await work(item))
    except asyncio.CancelledError as error:  # of the work, which ends it, or of something that it waited for
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return number, ItemResult(item, error=error)
    except INTERRUPTIONS:
        raise
    except BaseException as error:  # whatever broke, the other items go on; the caller records it
        return number, ItemResult(item, error=error)
