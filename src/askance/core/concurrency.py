"""Several coroutines side by side."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")
Together = Callable[[Iterable[Awaitable[Any]]], Awaitable[list[Any]]]
"""`abreast` or `in_turn`."""


async def abreast(work: Iterable[Awaitable[T]]) -> list[T]:
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
