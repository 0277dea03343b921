"""The thread between coroutines and a batch: who is told what, and that nobody waits for ever."""

import asyncio
import gc
import os
import subprocess
import sys
import threading
import weakref
from functools import partial

import pytest

from askance.inference.batch import Batch
from askance.inference.scheduler import Scheduler, tell
from tests.inference.tokens import Asked, Tokens

LONG = 10**6


@pytest.fixture
def backend():
    return Tokens(10 * LONG)


@pytest.fixture
def batch(backend):
    return Batch(backend)


@pytest.fixture
def scheduler(batch):
    return Scheduler(batch)


async def until(is_so):
    for _ in range(500):
        if is_so():
            return
        await asyncio.sleep(0.01)
    pytest.fail("never so")


def test_all_of_an_order_are_done_when_it_is_over(scheduler):
    asked = [Asked((5, 6), 3), Asked((7, 8), 9)]
    asyncio.run(scheduler.compute(asked))
    assert all(each.is_done for each in asked)
    asyncio.run(scheduler.compute([]))


def test_what_is_cancelled_leaves_and_the_others_go_on(scheduler, backend):
    long, short = Asked((5, 6), LONG), Asked((7, 8), 5)

    async def ask():
        task = asyncio.create_task(scheduler.compute([long]))
        await until(lambda: long.written)
        task.cancel()
        await scheduler.compute([short])
        await until(lambda: not backend.slots)
        return task

    assert asyncio.run(ask()).cancelled()
    assert short.is_done
    assert not long.is_done


def test_of_an_order_of_which_one_fails_the_others_are_abandoned(scheduler, backend):
    backend.breaks_on = {66}
    long = Asked((5, 6), LONG)

    async def ask():
        with pytest.raises(RuntimeError, match="out of order"):
            await scheduler.compute([long, Asked((65, 66))])
        await until(lambda: not backend.slots)

    asyncio.run(ask())
    assert not long.is_done


def test_a_loop_that_is_closed_before_its_order_is_over_harms_nobody(scheduler, backend):
    long, other = Asked((5, 6), LONG), Asked((1, 2), 1)

    async def begin():
        order = asyncio.create_task(scheduler.compute([long]))
        await until(lambda: long.written)
        return order

    loop = asyncio.new_event_loop()
    order = loop.run_until_complete(begin())
    loop.close()
    backend.breaks_on = {*range(3, 100)}  # all that a text may write
    asyncio.run(scheduler.compute([other]))
    asyncio.run(until(lambda: not backend.slots))
    assert other.is_done
    assert not order.done()


def test_loops_of_several_threads(scheduler):
    asked = [Asked((number, 6), 20) for number in range(8)]
    threads = [threading.Thread(target=asyncio.run, args=(scheduler.compute([each]),)) for each in asked]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert all(each.is_done for each in asked)


def test_work_is_done_between_passes_and_raises_where_it_is_awaited(scheduler):
    async def ask():
        names = await scheduler.alone(lambda: threading.current_thread().name)
        with pytest.raises(ZeroDivisionError):
            await scheduler.alone(lambda: 1 / 0)
        return names

    assert asyncio.run(ask()) == "askance"


def test_a_fault_of_the_batch_itself_is_told_to_all_and_does_not_end_the_thread(
    scheduler, batch, monkeypatch
):
    def broken():
        raise AssertionError("ours")

    async def ask(asked):
        return await asyncio.gather(*(scheduler.compute([each]) for each in asked), return_exceptions=True)

    with monkeypatch.context() as patch:
        patch.setattr(batch, "step", broken)
        assert [str(error) for error in asyncio.run(ask([Asked((5, 6)), Asked((7, 8))]))] == ["ours", "ours"]
    assert asyncio.run(ask([Asked((9, 9))])) == [None]


def test_a_batch_that_nobody_needs_goes():
    scheduler = Scheduler(Batch(Tokens()))
    asyncio.run(scheduler.compute([Asked((5, 6))]))
    batch = weakref.ref(scheduler._batch)
    del scheduler
    asyncio.run(until(lambda: gc.collect() >= 0 and batch() is None))


def test_batches_of_several_models_take_turns():
    backends = [Tokens(10 * LONG), Tokens(10 * LONG)]
    asked = [Asked((5, 6), LONG), Asked((7, 8), 20)]

    async def ask():
        schedulers = [Scheduler(Batch(each)) for each in backends]
        long = asyncio.create_task(schedulers[0].compute([asked[0]]))
        await until(lambda: asked[0].written)
        await schedulers[1].compute([asked[1]])
        long.cancel()
        await until(lambda: not backends[0].slots)

    asyncio.run(ask())
    assert asked[1].is_done
    assert not asked[0].is_done


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (StopIteration(5), RuntimeError),
        (SystemExit(3), SystemExit),
        (asyncio.CancelledError(), asyncio.CancelledError),
    ],
    ids=lambda each: getattr(each, "__name__", type(each).__name__),
)
def test_whatever_a_request_raises_is_told_and_harms_nobody(scheduler, monkeypatch, raised, told):
    """A future does not take the first, and the others would end a thread."""
    bad, good = Asked((5, 6), 9), Asked((7, 8), 20)

    def take(fed, num_reused):
        raise raised

    async def told_to(request):
        try:
            async with asyncio.timeout(10):  # wait_for would take it to a task of its own
                await scheduler.compute([request])
        except BaseException as error:
            return error

    async def ask():
        return await asyncio.gather(told_to(bad), told_to(good))

    monkeypatch.setattr(bad, "take", take)
    error, none = asyncio.run(ask())
    assert type(error) is told
    assert none is None
    assert good.is_done
    assert asyncio.run(told_to(Asked((9, 9)))) is None


FORKED = """
import asyncio, os
from askance.inference.batch import Batch
from askance.inference.scheduler import Scheduler, tell
from tests.inference.tokens import Asked, Tokens

scheduler = Scheduler(Batch(Tokens()))

def ask(said):
    asyncio.run(asyncio.wait_for(scheduler.compute([Asked((5, 6))]), 20))
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
from askance.inference.batch import Batch
from askance.inference.scheduler import Scheduler, tell
from tests.inference.tokens import Tokens

scheduler = Scheduler(Batch(Tokens()))

def work():
    time.sleep(0.5)
    os.write(1, b"ended")

async def leave():
    asyncio.create_task(scheduler.alone(work))
    await asyncio.sleep(0.1)

asyncio.run(leave())
os.write(1, b"left, ")
"""


def test_a_process_that_is_left_waits_for_the_pass_under_way():
    """Torch would end it by a signal otherwise."""
    done = subprocess.run([sys.executable, "-c", LEAVING], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "left, ended", "")


LATE = """
import asyncio, atexit

def late():
    async def ask():
        try:
            await scheduler.compute([Asked((5, 6))])
        except RuntimeError as error:
            print(error)

    asyncio.run(ask())

atexit.register(late)  # runs after what is registered later
from askance.inference.batch import Batch
from askance.inference.scheduler import Scheduler, tell
from tests.inference.tokens import Asked, Tokens

scheduler = Scheduler(Batch(Tokens()))
"""


def test_who_asks_when_all_has_ended_is_told():
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, timeout=60)
    assert "the process is ending" in done.stdout


class Telling(Asked):
    """Tells a loop of each of its tokens."""

    def __init__(self, told):
        super().__init__((1, 2, 3), 5)
        self._told, self._loop = told, asyncio.get_running_loop()

    def take(self, fed, num_reused):
        tell(self._loop, partial(self._told.append, (id(self), len(self.ids))))
        return super().take(fed, num_reused)


def test_a_loop_is_woken_once_a_pass_and_told_all_in_order(scheduler, backend):
    async def work():
        loop, told, woken = asyncio.get_running_loop(), [], []
        wake = loop.call_soon_threadsafe

        def counted(*given):
            woken.append(len(backend.passes))
            wake(*given)

        loop.call_soon_threadsafe = counted
        requests = [Telling(told) for _ in range(4)]
        await scheduler.compute(requests)
        return told, woken, requests

    told, woken, requests = asyncio.run(work())
    assert sorted(set(woken)) == woken, "never twice after a pass"
    assert len(woken) <= len(backend.passes)
    for request in requests:
        assert [count for owner, count in told if owner == id(request)] == [3, 4, 5, 6, 7]


class Gated:
    """A batch whose one pass waits at a gate, for a minute at most."""

    def __init__(self, gate):
        self._gate, self._requests = gate, []

    @property
    def is_idle(self):
        return not self._requests

    def put(self, request):
        self._requests.append(request)

    def step(self):
        opened = self._gate.wait(60)
        over, self._requests = self._requests, []
        return [(each, None if opened else RuntimeError("nobody opened")) for each in over]


def test_an_answer_does_not_wait_for_the_pass_of_another_model():
    opened, gate, holding = (threading.Event() for _ in range(3))
    opened.set()

    async def work():
        quick, slow = Scheduler(Gated(opened)), Scheduler(Gated(gate))
        # Both stand in the queue before either computes.
        held = asyncio.ensure_future(quick.alone(lambda: holding.wait(60)))
        first = asyncio.ensure_future(quick.compute([Asked((1,))]))
        second = asyncio.ensure_future(slow.compute([Asked((2,))]))
        await asyncio.sleep(0)
        holding.set()
        await asyncio.gather(held, first)
        gate.set()
        await second

    asyncio.run(work())
