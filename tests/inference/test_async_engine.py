"""The engine thread: each coroutine gets its own result or error, and none waits for ever."""

import asyncio
import gc
import os
import subprocess
import sys
import threading
import weakref
from functools import partial

import pytest

from askance.inference.async_engine import AsyncLLMEngine, call_soon
from askance.inference.engine import LLMEngine
from tests.inference.fake_backend import FakeBackend, FakeRequest

LONG = 10**6


@pytest.fixture
def backend():
    return FakeBackend(10 * LONG)


@pytest.fixture
def engine(backend):
    return LLMEngine(backend)


@pytest.fixture
def async_engine(engine):
    return AsyncLLMEngine(engine)


async def until(is_so):
    for _ in range(500):
        if is_so():
            return
        await asyncio.sleep(0.01)
    pytest.fail("never so")


def test_what_is_cancelled_or_ordered_with_a_failing_one_leaves_and_others_go_on(async_engine, backend):
    backend.breaks_on = {666}  # no text writes it
    long, beside, short = FakeRequest((5, 6), LONG), FakeRequest((5, 9), LONG), FakeRequest((7, 8), 5)

    async def ask():
        task = asyncio.create_task(async_engine.run([long]))
        await until(lambda: long.written)
        with pytest.raises(RuntimeError, match="out of order"):
            await async_engine.run([beside, FakeRequest((65, 666))])
        task.cancel()
        await async_engine.run([short])
        await until(lambda: not backend.slots)
        return task

    assert asyncio.run(ask()).cancelled()
    assert [request.is_done for request in (long, beside, short)] == [False, False, True]


def test_a_loop_that_is_closed_before_its_order_is_over_harms_nobody(async_engine, backend):
    long, other = FakeRequest((5, 6), LONG), FakeRequest((1, 2), 1)

    async def begin():
        order = asyncio.create_task(async_engine.run([long]))
        await until(lambda: long.written)
        return order

    loop = asyncio.new_event_loop()
    order = loop.run_until_complete(begin())
    loop.close()
    backend.breaks_on = {*range(3, 100)}  # all that a text may write
    asyncio.run(async_engine.run([other]))
    asyncio.run(until(lambda: not backend.slots))
    assert other.is_done
    assert not order.done()


def test_loops_of_several_threads_get_all_they_ordered(async_engine):
    orders = [[FakeRequest((number, 6), 20), FakeRequest((number, 7), 3)] for number in range(8)] + [[]]
    threads = [threading.Thread(target=asyncio.run, args=(async_engine.run(order),)) for order in orders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert all(request.is_done for order in orders for request in order)


def test_work_is_done_between_passes_and_raises_where_it_is_awaited(async_engine):
    async def ask():
        names = await async_engine.run_exclusively(lambda: threading.current_thread().name)
        with pytest.raises(ZeroDivisionError):
            await async_engine.run_exclusively(lambda: 1 / 0)
        return names

    assert asyncio.run(ask()) == "askance"


def test_an_error_of_the_engine_itself_reaches_all_and_does_not_end_the_thread(
    async_engine, engine, monkeypatch
):
    def broken():
        raise AssertionError("ours")

    async def ask(*requests):
        orders = (async_engine.run([request]) for request in requests)
        return await asyncio.gather(*orders, return_exceptions=True)

    with monkeypatch.context() as patch:
        patch.setattr(engine, "step", broken)
        errors = asyncio.run(ask(FakeRequest((5, 6)), FakeRequest((7, 8))))
    assert [*map(str, errors)] == ["ours", "ours"]
    assert asyncio.run(ask(FakeRequest((9, 9)))) == [None]


def test_a_batch_that_nobody_needs_goes():
    async_engine = AsyncLLMEngine(LLMEngine(FakeBackend()))
    asyncio.run(async_engine.run([FakeRequest((5, 6))]))
    engine = weakref.ref(async_engine._engine)
    del async_engine
    asyncio.run(until(lambda: gc.collect() >= 0 and engine() is None))


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (StopIteration(5), RuntimeError),
        (SystemExit(3), SystemExit),
        (asyncio.CancelledError(), asyncio.CancelledError),
    ],
    ids=lambda each: getattr(each, "__name__", type(each).__name__),
)
def test_any_error_of_a_request_reaches_its_coroutine_alone(async_engine, monkeypatch, raised, told):
    """A future does not take the first, and the others would end a thread."""
    bad, good = FakeRequest((5, 6), 9), FakeRequest((7, 8), 20)

    def take(fed, num_cached):
        raise raised

    async def told_to(request):
        try:
            async with asyncio.timeout(10):  # wait_for would take it to a task of its own
                await async_engine.run([request])
        except BaseException as error:
            return error

    async def ask():
        return await asyncio.gather(told_to(bad), told_to(good))

    monkeypatch.setattr(bad, "take", take)
    error, none = asyncio.run(ask())
    assert type(error) is told
    assert none is None
    assert good.is_done
    assert asyncio.run(told_to(FakeRequest((9, 9)))) is None


SETUP = """
import asyncio, atexit, os, sys, time
from tests.inference.fake_backend import FakeBackend, FakeRequest

def ask(said):
    try:
        asyncio.run(asyncio.wait_for(async_engine.run([FakeRequest((5, 6))]), 20))
    except RuntimeError as error:
        said = str(error).encode()
    os.write(1, said)

if "late" in sys.argv[1:]:
    atexit.register(ask, b"never said")  # runs after what is registered later
from askance.inference.async_engine import AsyncLLMEngine
from askance.inference.engine import LLMEngine

async_engine = AsyncLLMEngine(LLMEngine(FakeBackend()))
"""
FORKED = """
ask(b"parent, ")
if os.fork() == 0:
    ask(b"child, ")
else:
    os.wait()
    ask(b"parent")
"""
LEAVING = """
def work():
    time.sleep(0.5)
    os.write(1, b"ended")

async def leave():
    asyncio.create_task(async_engine.run_exclusively(work))
    await asyncio.sleep(0.1)

asyncio.run(leave())
os.write(1, b"left, ")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a system without fork")
@pytest.mark.parametrize(
    ("code", "order", "told"),
    [
        (FORKED, "", "parent, child, parent"),
        (LEAVING, "", "left, ended"),
        ("", "late", "the process is ending"),
    ],
    ids=["a fork", "leaving during a pass, which torch would end by a signal", "a request after the end"],
)
def test_the_end_or_the_fork_of_a_process(code, order, told):
    command = [sys.executable, "-c", SETUP + code, order]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert told in done.stdout


class Telling(FakeRequest):
    """A request that calls back on an event loop for each of its tokens."""

    def take(self, fed, num_cached):
        call_soon(self.loop, partial(self.told.append, (self.prompt, len(self.ids))))
        return super().take(fed, num_cached)


def test_a_loop_is_woken_once_a_pass_with_all_callbacks_in_order(async_engine, backend):
    requests, told, woken = [Telling((number, 3)) for number in range(4)], [], []

    async def work():
        loop = asyncio.get_running_loop()
        wake = loop.call_soon_threadsafe
        loop.call_soon_threadsafe = lambda *given: (woken.append(len(backend.passes)), wake(*given))
        for request in requests:
            request.loop, request.told = loop, told
        await async_engine.run(requests)

    asyncio.run(work())
    assert sorted(set(woken)) == woken, "never twice after a pass"
    assert len(woken) <= len(backend.passes)
    for request in requests:
        assert [count for prompt, count in told if prompt == request.prompt] == [2, 3, 4]


def test_models_take_turns_and_an_answer_does_not_wait_for_the_pass_of_another(backend):
    other, gate, holding = FakeBackend(10 * LONG), threading.Event(), threading.Event()
    long, short, later = FakeRequest((5, 6), LONG), FakeRequest((7, 8), 1), FakeRequest((7, 8), 20)
    forward = other.forward

    def slow_forward(inputs):
        assert gate.wait(60)
        return forward(inputs)

    other.forward = slow_forward

    async def work():
        quick, slow = AsyncLLMEngine(LLMEngine(backend)), AsyncLLMEngine(LLMEngine(other))
        # Both stand in the queue before either computes.
        held = asyncio.ensure_future(quick.run_exclusively(lambda: holding.wait(60)))
        first = asyncio.ensure_future(quick.run([short]))
        task = asyncio.create_task(slow.run([long]))
        await asyncio.sleep(0)
        holding.set()
        await asyncio.gather(held, first)
        gate.set()
        await until(lambda: long.written)
        await quick.run([later])
        task.cancel()
        await until(lambda: not other.slots)

    asyncio.run(work())
    assert (short.is_done, later.is_done, long.is_done) == (True, True, False)
