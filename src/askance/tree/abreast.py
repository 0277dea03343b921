"""Several coroutines side by side."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
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


async def both(first: Awaitable[A], second: Awaitable[B]) -> tuple[A, B]:
    """Two results of different kinds; see `abreast`."""
    work: tuple[Awaitable[Any], Awaitable[Any]] = (first, second)
    found = await abreast(work)
    return found[0], found[1]


async def in_turn(work: Iterable[Awaitable[T]]) -> list[T]:
    """The same, one after the other: what each leaves for the next never depends on timing."""
    return [await each for each in work]
