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


def test_all_of_an_order_are_done_when_it_is_over(async_engine):
    requests = [FakeRequest((5, 6), 3), FakeRequest((7, 8), 9)]
    asyncio.run(async_engine.run(requests))
    assert all(request.is_done for request in requests)
    asyncio.run(async_engine.run([]))


def test_what_is_cancelled_leaves_and_the_others_go_on(async_engine, backend):
    long, short = FakeRequest((5, 6), LONG), FakeRequest((7, 8), 5)

    async def ask():
        task = asyncio.create_task(async_engine.run([long]))
        await until(lambda: long.written)
        task.cancel()
        await async_engine.run([short])
        await until(lambda: not backend.slots)
        return task

    assert asyncio.run(ask()).cancelled()
    assert short.is_done
    assert not long.is_done


def test_of_an_order_of_which_one_fails_the_others_are_abandoned(async_engine, backend):
    backend.breaks_on = {66}
    long = FakeRequest((5, 6), LONG)

    async def ask():
        with pytest.raises(RuntimeError, match="out of order"):
            await async_engine.run([long, FakeRequest((65, 66))])
        await until(lambda: not backend.slots)

    asyncio.run(ask())
    assert not long.is_done


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


def test_loops_of_several_threads(async_engine):
    requests = [FakeRequest((number, 6), 20) for number in range(8)]
    threads = [
        threading.Thread(target=asyncio.run, args=(async_engine.run([request]),)) for request in requests
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert all(request.is_done for request in requests)


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

    async def ask(requests):
        return await asyncio.gather(
            *(async_engine.run([request]) for request in requests), return_exceptions=True
        )

    with monkeypatch.context() as patch:
        patch.setattr(engine, "step", broken)
        assert [str(error) for error in asyncio.run(ask([FakeRequest((5, 6)), FakeRequest((7, 8))]))] == [
            "ours",
            "ours",
        ]
    assert asyncio.run(ask([FakeRequest((9, 9))])) == [None]


def test_a_batch_that_nobody_needs_goes():
    async_engine = AsyncLLMEngine(LLMEngine(FakeBackend()))
    asyncio.run(async_engine.run([FakeRequest((5, 6))]))
    engine = weakref.ref(async_engine._engine)
    del async_engine
    asyncio.run(until(lambda: gc.collect() >= 0 and engine() is None))


def test_batches_of_several_models_take_turns():
    backends = [FakeBackend(10 * LONG), FakeBackend(10 * LONG)]
    requests = [FakeRequest((5, 6), LONG), FakeRequest((7, 8), 20)]

    async def ask():
        async_engines = [AsyncLLMEngine(LLMEngine(each)) for each in backends]
        long = asyncio.create_task(async_engines[0].run([requests[0]]))
        await until(lambda: requests[0].written)
        await async_engines[1].run([requests[1]])
        long.cancel()
        await until(lambda: not backends[0].slots)

    asyncio.run(ask())
    assert requests[1].is_done
    assert not requests[0].is_done


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


FORKED = """
import asyncio, os
from askance.inference.engine import LLMEngine
from askance.inference.async_engine import AsyncLLMEngine, call_soon
from tests.inference.fake_backend import FakeRequest, FakeBackend

async_engine = AsyncLLMEngine(LLMEngine(FakeBackend()))

def ask(said):
    asyncio.run(asyncio.wait_for(async_engine.run([FakeRequest((5, 6))]), 20))
    os.write(1, said)

ask(b"parent, ")
if os.fork() == 0:
    ask(b"child, ")
else:
    os.wait()
    ask(b"parent")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a system without fork")
def test_the_child_of_a_fork_computes_too():
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "parent, child, parent")


LEAVING = """
import asyncio, os, time
from askance.inference.engine import LLMEngine
from askance.inference.async_engine import AsyncLLMEngine, call_soon
from tests.inference.fake_backend import FakeBackend

async_engine = AsyncLLMEngine(LLMEngine(FakeBackend()))

def work():
    time.sleep(0.5)
    os.write(1, b"ended")

async def leave():
    asyncio.create_task(async_engine.run_exclusively(work))
    await asyncio.sleep(0.1)

asyncio.run(leave())
os.write(1, b"left, ")
"""


def test_a_process_that_is_left_waits_for_the_pass_under_way():
    """Otherwise torch would end the process by a signal."""
    done = subprocess.run([sys.executable, "-c", LEAVING], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "left, ended", "")


LATE = """
import asyncio, atexit

def late():
    async def ask():
        try:
            await async_engine.run([FakeRequest((5, 6))])
        except RuntimeError as error:
            print(error)

    asyncio.run(ask())

atexit.register(late)  # runs after what is registered later
from askance.inference.engine import LLMEngine
from askance.inference.async_engine import AsyncLLMEngine, call_soon
from tests.inference.fake_backend import FakeRequest, FakeBackend

async_engine = AsyncLLMEngine(LLMEngine(FakeBackend()))
"""


def test_a_request_after_the_end_is_an_error():
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, timeout=60)
    assert "the process is ending" in done.stdout


class Telling(FakeRequest):
    """A request that calls back on an event loop for each of its tokens."""

    def __init__(self, told):
        super().__init__((1, 2, 3), 5)
        self._told, self._loop = told, asyncio.get_running_loop()

    def take(self, fed, num_cached):
        call_soon(self._loop, partial(self._told.append, (id(self), len(self.ids))))
        return super().take(fed, num_cached)


def test_a_loop_is_woken_once_a_pass_with_all_callbacks_in_order(async_engine, backend):
    async def work():
        loop, told, woken = asyncio.get_running_loop(), [], []
        wake = loop.call_soon_threadsafe

        def counted(*given):
            woken.append(len(backend.passes))
            wake(*given)

        loop.call_soon_threadsafe = counted
        requests = [Telling(told) for _ in range(4)]
        await async_engine.run(requests)
        return told, woken, requests

    told, woken, requests = asyncio.run(work())
    assert sorted(set(woken)) == woken, "never twice after a pass"
    assert len(woken) <= len(backend.passes)
    for request in requests:
        assert [count for owner, count in told if owner == id(request)] == [3, 4, 5, 6, 7]


class Gated:
    """An engine whose one pass waits for an event, for a minute at most."""

    def __init__(self, gate):
        self._gate, self._requests = gate, []

    @property
    def is_idle(self):
        return not self._requests

    def add_request(self, request):
        self._requests.append(request)

    def step(self):
        opened = self._gate.wait(60)
        over, self._requests = self._requests, []
        return [(each, None if opened else RuntimeError("nobody opened")) for each in over]


def test_an_answer_does_not_wait_for_the_pass_of_another_model():
    opened, gate, holding = (threading.Event() for _ in range(3))
    opened.set()

    async def work():
        quick, slow = AsyncLLMEngine(Gated(opened)), AsyncLLMEngine(Gated(gate))
        # Both stand in the queue before either computes.
        held = asyncio.ensure_future(quick.run_exclusively(lambda: holding.wait(60)))
        first = asyncio.ensure_future(quick.run([FakeRequest((1,))]))
        second = asyncio.ensure_future(slow.run([FakeRequest((2,))]))
        await asyncio.sleep(0)
        holding.set()
        await asyncio.gather(held, first)
        gate.set()
        await second

    asyncio.run(work())
