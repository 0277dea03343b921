import asyncio

import pytest

from askance.core.concurrency import gather_or_cancel


def test_results_come_in_the_order_of_the_work():
    async def slow(number):
        await asyncio.sleep((3 - number) / 200)
        return number

    assert asyncio.run(gather_or_cancel(slow(number) for number in range(4))) == [0, 1, 2, 3]
    assert asyncio.run(gather_or_cancel([])) == []


def test_all_of_it_runs_at_once():
    async def meet(barrier):
        async with asyncio.timeout(5):
            await barrier.wait()
        return True

    async def main():
        barrier = asyncio.Barrier(3)
        return await gather_or_cancel(meet(barrier) for _ in range(3))

    assert asyncio.run(main()) == [True, True, True]


class Work:
    """Waits until it is cancelled, takes a moment to tidy up, and says so."""

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


def test_the_first_failure_cancels_the_rest_and_is_raised_as_it_is():
    work = Work()

    async def main():
        with pytest.raises(OSError, match="gone"):
            await gather_or_cancel([work.wait("a"), work.fail(), work.wait("b")])
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


def test_what_the_others_raise_while_they_end_does_not_hide_the_first_failure():
    async def spiteful():
        try:
            await asyncio.sleep(60)
        finally:
            raise KeyError("second")

    with pytest.raises(OSError, match="gone"):
        asyncio.run(gather_or_cancel([spiteful(), Work().fail()]))
