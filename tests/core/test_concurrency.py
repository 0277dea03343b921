"""Many questions at once: what is in flight, what becomes of failures, what is left behind."""

import asyncio
from itertools import count

import pytest

from askance.core.concurrency import gather_or_cancel, map_concurrent
from askance.core.errors import InputError


class Panic(BaseException):
    """Like that of a Rust extension: no `Exception`."""


class Work:
    """Waits until it is cancelled, takes a moment to tidy up, and notes that it has."""

    def __init__(self):
        self.tidied = []

    async def wait(self, name):
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.01)
            self.tidied.append(name)

    async def fail(self):
        await asyncio.sleep(0)
        raise OSError("gone")

    async def fail_at_the_end(self):
        try:
            await asyncio.sleep(60)
        finally:
            raise KeyError("second")


def test_work_that_is_gathered_runs_at_once_and_its_results_come_in_order():
    async def meet(barrier, number):
        async with asyncio.timeout(5):
            await barrier.wait()
        await asyncio.sleep((3 - number) / 200)
        return number

    async def main():
        barrier = asyncio.Barrier(3)
        return await gather_or_cancel(meet(barrier, number) for number in range(3))

    assert asyncio.run(main()) == [0, 1, 2]
    assert asyncio.run(gather_or_cancel([])) == []


def test_the_first_failure_cancels_the_rest_and_is_raised_as_it_is():
    work = Work()

    async def main():
        with pytest.raises(OSError, match="gone"):
            await gather_or_cancel([work.wait("a"), work.fail(), work.fail_at_the_end(), work.wait("b")])
        assert sorted(work.tidied) == ["a", "b"], "all have ended before it is raised"
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_one_that_is_cancelled_cancels_all():
    work = Work()

    async def main():
        task = asyncio.create_task(gather_or_cancel([work.wait("a"), work.wait("b")]))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert sorted(work.tidied) == ["a", "b"]

    asyncio.run(main())


def collect(items, work, in_flight):
    async def all_of_them():
        return [outcome async for batch in map_concurrent(items, work, in_flight) for outcome in batch]

    return asyncio.run(all_of_them())


@pytest.mark.parametrize("in_flight", [1, 3, 100])
def test_every_item_comes_back_once_and_one_at_a_time_in_order(in_flight):
    async def double(number):
        await asyncio.sleep(0)
        return 2 * number

    outcomes = [(each.item, each.result) for each in collect(range(20), double, in_flight)]
    expected = [(number, 2 * number) for number in range(20)]
    assert sorted(outcomes) == expected
    assert outcomes == expected or in_flight > 1


def test_what_finishes_together_comes_in_the_order_of_the_items():
    async def by_size(number):
        await asyncio.sleep(0)
        if number == 1:
            await asyncio.sleep(0)

    async def batches():
        return [[each.item for each in batch] async for batch in map_concurrent(range(3), by_size, 3)]

    assert asyncio.run(batches()) in ([[0, 2], [1]], [[0, 1, 2]])


def test_a_failure_a_panic_and_what_cancels_itself_stop_nothing_else():
    async def odd_fails(number):
        if number == 1:
            raise ValueError("no luck")
        if number == 3:
            raise Panic("not a char boundary")
        if number == 5:
            future = asyncio.get_running_loop().create_future()
            future.cancel()
            await future
        return number

    outcomes = {each.item: each for each in collect(range(7), odd_fails, 2)}
    assert [outcomes[number].result for number in (0, 2, 4, 6)] == [0, 2, 4, 6]
    assert [type(outcomes[number].error) for number in (1, 3, 5)] == [
        ValueError, Panic, asyncio.CancelledError
    ]  # fmt: skip
    assert str(outcomes[3].error) == "not a char boundary"


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit])
def test_an_interruption_stops_all(interruption):
    async def interrupted(number):
        raise interruption

    with pytest.raises(interruption):
        collect(range(3), interrupted, 1)


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


def test_no_more_are_taken_or_begun_than_may_be_in_flight_and_closing_cancels_these():
    items, begun, cancelled = count(), [], []

    async def first_is_done(number):
        begun.append(number)
        try:
            await asyncio.sleep(60 * (number > 0))
        except asyncio.CancelledError:
            cancelled.append(number)
            raise

    async def slow_reader():
        batches = map_concurrent(items, first_is_done, 5)
        await anext(batches)
        for _ in range(10):
            await asyncio.sleep(0)
        await batches.aclose()

    asyncio.run(slow_reader())
    assert next(items) == 5
    assert begun == [0, *sorted(cancelled)] == list(range(5))


@pytest.mark.parametrize("in_flight", [0, -1])
def test_none_in_flight_is_an_error(in_flight):
    with pytest.raises(InputError, match=f"{in_flight} questions in flight answer none: use 1 or more"):
        collect(range(3), None, in_flight)
