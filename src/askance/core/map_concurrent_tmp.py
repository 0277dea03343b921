"""Many questions at once: as many in flight as wanted, each failure kept apart from the others."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

from askance.core.errors import InputError
from askance.core.panics import INTERRUPTIONS

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T, R]):
    """What became of one item: a result, or the error that stopped it."""

    item: T
    result: R | None = None
    error: BaseException | None = None


async def many(
    items: Iterable[T], work: Callable[[T], Awaitable[R]], in_flight: int
) -> AsyncGenerator[list[Outcome[T, R]]]:
    """Do `work` for every item, and yield those that have finished since the last time, in the items' order.

    Results that finish faster than the caller deals with them come together, so that they can be written to a
    disk at once. No more than `in_flight` items are begun and not yet yielded, whatever their number. Closing
    the iterator cancels what is in flight.

    Raises:
        InputError: `in_flight` is below 1.
    """
    if in_flight < 1:
        raise InputError(f"{in_flight} questions in flight answer none: use 1 or more.")
    waiting, running = enumerate(items), set[asyncio.Task[tuple[int, Outcome[T, R]]]]()
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


async def _outcome(number: int, item: T, work: Callable[[T], Awaitable[R]]) -> tuple[int, Outcome[T, R]]:
    try:
        return number, Outcome(item, result=await work(item))
    except asyncio.CancelledError as error:  # of the work, which ends it, or of something that it waited for
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return number, Outcome(item, error=error)
    except INTERRUPTIONS:
        raise
    except BaseException as error:  # whatever broke, the other items go on; the caller records it
        return number, Outcome(item, error=error)
