"""Many questions at once: what is in flight, what becomes of failures, what is left behind."""

import asyncio
from itertools import count

import pytest

from askance.core.concurrency import map_concurrent
from askance.core.errors import InputError


def collect(items, work, in_flight):
    async def all_of_them():
        return [outcome async for batch in map_concurrent(items, work, in_flight) for outcome in batch]

    return asyncio.run(all_of_them())


async def double(number):
    await asyncio.sleep(0)
    return 2 * number


@pytest.mark.parametrize("in_flight", [1, 3, 100])
def test_every_item_comes_back_once(in_flight):
    outcomes = collect(range(20), double, in_flight)
    assert sorted((each.item, each.result) for each in outcomes) == [(n, 2 * n) for n in range(20)]


def test_one_at_a_time_keeps_the_order():
    assert [each.item for each in collect(range(9), double, 1)] == list(range(9))


def test_what_finishes_together_comes_in_the_order_of_the_items():
    async def by_size(number):
        await asyncio.sleep(0)
        if number == 1:
            await asyncio.sleep(0)
        return number

    async def batches():
        return [[each.item for each in batch] async for batch in map_concurrent(range(3), by_size, 3)]

    assert asyncio.run(batches()) in ([[0, 2], [1]], [[0, 1, 2]])


def test_a_failure_stops_nothing_else():
    async def odd_fails(number):
        if number % 2:
            raise ValueError(f"{number} is odd")
        return number

    outcomes = {each.item: each for each in collect(range(6), odd_fails, 2)}
    assert [outcomes[n].result for n in (0, 2, 4)] == [0, 2, 4]
    assert [str(outcomes[n].error) for n in (1, 3, 5)] == ["1 is odd", "3 is odd", "5 is odd"]


class Panic(BaseException):
    """Like that of a Rust extension: no `Exception`."""


def test_a_panic_stops_nothing_else():
    async def two_panics(number):
        if number == 2:
            raise Panic("not a char boundary")
        return number

    outcomes = {each.item: each for each in collect(range(5), two_panics, 2)}
    assert [outcomes[n].result for n in (0, 1, 3, 4)] == [0, 1, 3, 4]
    assert str(outcomes[2].error) == "not a char boundary"


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit])
def test_an_interruption_stops_all(interruption):
    async def interrupted(number):
        raise interruption

    with pytest.raises(interruption):
        collect(range(3), interrupted, 1)


def test_what_cancels_itself_has_failed_and_stops_nothing_else():
    async def first_waits_for_what_is_cancelled(number):
        if number == 0:
            future = asyncio.get_running_loop().create_future()
            future.cancel()
            await future
        return number

    outcomes = {each.item: each for each in collect(range(4), first_waits_for_what_is_cancelled, 2)}
    assert isinstance(outcomes[0].error, asyncio.CancelledError)
    assert [outcomes[n].result for n in (1, 2, 3)] == [1, 2, 3]


def test_nothing_goes_on_when_the_items_break_off():
    finished = []

    async def slow(number):
        await asyncio.sleep(0)
        finished.append(number)

    def broken_off():
        yield 1
        raise ValueError("no more")

    async def all_of_them():
        with pytest.raises(ValueError, match="no more"):
            await anext(map_concurrent(broken_off(), slow, 3))
        await asyncio.sleep(0.01)

    asyncio.run(all_of_them())
    assert finished == []


def test_no_more_are_begun_than_may_be_in_flight():
    begun, yielded = [], []

    async def note(number):
        begun.append(number)
        assert len(begun) - len(yielded) <= 4
        await asyncio.sleep(0)

    async def slow_reader():
        async for batch in map_concurrent(range(30), note, 4):
            for _ in range(10):
                await asyncio.sleep(0)
            assert len(begun) - len(yielded) <= 4
            yielded.extend(batch)

    asyncio.run(slow_reader())
    assert len(yielded) == 30


def test_items_are_taken_only_when_there_is_room():
    endless = count()

    async def first_batch():
        batches = map_concurrent(endless, double, 5)
        await anext(batches)
        await batches.aclose()

    asyncio.run(first_batch())
    assert next(endless) == 5


def test_closing_cancels_what_is_in_flight():
    cancelled = []

    async def wait(number):
        try:
            await asyncio.sleep(60 * (number > 0))
        except asyncio.CancelledError:
            cancelled.append(number)
            raise

    async def first_batch():
        batches = map_concurrent(range(3), wait, 3)
        await anext(batches)
        await batches.aclose()

    asyncio.run(first_batch())
    assert sorted(cancelled) == [1, 2]


@pytest.mark.parametrize("in_flight", [0, -1])
def test_none_in_flight_is_an_error(in_flight):
    with pytest.raises(InputError, match=f"{in_flight} questions in flight answer none: use 1 or more"):
        collect(range(3), double, in_flight)
