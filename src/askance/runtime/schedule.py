"""One thread computes: coroutines bring their sequences to it, and wait.

It is one for all models of a process. On a CPU each would take the cores that another one needs, and OpenMP
keeps a team of threads for every thread that computes: with two of them all passes take twice as long. Models
on several GPUs take turns in it, too.
"""

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar, cast

from askance.runtime.backend import Request
from askance.runtime.batch import Batch

T = TypeVar("T")


class _Order:
    """What somebody waits for: sequences to be computed beside others, or work to be done between passes."""

    def __init__(self, requests: Sequence[Request], work: Callable[[], Any] | None) -> None:
        self.requests, self.work, self.num_left = requests, work, len(requests)
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self._loop.create_future()

    def end(self, result: Any = None, error: BaseException | None = None) -> None:
        """Tell who waits, from the thread that computes; the first time counts."""
        tell(self._loop, partial(self._set, result, error))

    def abandon(self) -> None:
        """Nobody waits any more, or nothing can come of it."""
        self.work = None
        for request in self.requests:
            request.is_abandoned = True

    def _set(self, result: Any, error: BaseException | None) -> None:
        if self.future.done():
            return
        if error is None:
            self.future.set_result(result)
        elif isinstance(error, StopIteration):  # which a future does not take
            self.future.set_exception(RuntimeError(repr(error)))
        else:
            self.future.set_exception(error)


_Orders = dict[Request, _Order]


class _Worker:
    """The thread, and what it is asked for."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """With nothing. In the child of a fork, too: it has neither the thread nor who waits for it."""
        self._asked = SimpleQueue[tuple[Batch[Any], _Order] | None]()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._is_left = False
        self._told = dict[asyncio.AbstractEventLoop, list[Callable[[], None]]]()

    def put(self, batch: Batch[Any], order: _Order) -> None:
        """Bring an order, in its turn.

        Raises:
            RuntimeError: the process is ending.
        """
        with self._lock:
            if self._is_left:
                raise RuntimeError("the process is ending: models compute nothing any more")
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="askance", daemon=True)
                self._thread.start()
            self._asked.put((batch, order))

    def leave(self) -> None:
        """Let it end its pass: a thread that is cut off inside torch takes the process down with it."""
        with self._lock:
            self._is_left = True
        self._asked.put(None)
        if self._thread is not None:
            self._thread.join()

    def tell(self, loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
        """Have `call` called on a loop before the next pass begins."""
        self._told.setdefault(loop, []).append(call)

    def _serve(self) -> None:
        """The thread. Of batches that have nothing to do it knows nothing, so that they can go."""
        at_work = dict[Batch[Any], _Orders]()
        while not self._is_left:
            self._go_on(at_work)
        self._send()

    def _go_on(self, at_work: dict[Batch[Any], _Orders]) -> None:
        """Take an order; where there is none, compute a pass of each batch."""
        self._send()
        try:
            found = self._asked.get(block=not at_work)
        except Empty:
            for batch, orders in list(at_work.items()):
                self._send()  # what one batch has to tell does not wait for the pass of the next
                if _step(batch, orders):
                    del at_work[batch]
            return
        if found is not None:  # all that has come takes part in the next pass
            batch, order = found
            _begin(batch, order, at_work.setdefault(batch, {}))

    def _send(self) -> None:
        """Tell event loops, in order, what there is to tell.

        A loop that is woken takes the interpreter's lock, and who computes waits for it. So all is told at
        once, right before the thread computes the next pass, which needs no lock, or waits.
        """
        told, self._told = self._told, {}
        for loop, calls in told.items():
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(_schedule_all, loop, calls)


def _schedule_all(loop: asyncio.AbstractEventLoop, calls: Sequence[Callable[[], None]]) -> None:
    for call in calls:  # each by itself: what one raises does not keep the others from being called
        loop.call_soon(call)


def _begin(batch: Batch[Any], order: _Order, orders: _Orders) -> None:
    for request in order.requests:
        orders[request] = order
        batch.put(request)
    work = order.work
    if work is not None:
        try:
            order.end(work())
        except BaseException as error:  # raised again where the work is awaited
            order.end(error=error)


def _step(batch: Batch[Any], orders: _Orders) -> bool:
    """Compute a pass, and tell whose sequences are over. Whether there is nothing more to do."""
    try:
        over = batch.step()
    except BaseException as error:  # a fault of ours: nobody must wait for ever
        for each in orders.values():
            each.end(error=error)
            each.abandon()
        orders.clear()
        return batch.is_idle
    for request, stopped in over:
        order = orders.pop(request, None)
        if order is None:  # it had a part in such a fault
            continue
        order.num_left -= 1
        if stopped is not None:
            order.end(error=stopped)
            order.abandon()
        elif not order.num_left:
            order.end()
    return batch.is_idle


_worker = _Worker()
tell = _worker.tell
atexit.register(_worker.leave)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_worker.begin)


class Scheduler:
    """Has computed what coroutines of any event loop bring, in the order in which they bring it."""

    def __init__(self, batch: Batch[Any]) -> None:
        self._batch = batch

    async def compute(self, requests: Sequence[Request]) -> None:
        """Compute sequences to their ends. Cancelling this abandons them, within one pass.

        Raises:
            Exception: what stopped the first of them that was stopped; the others are abandoned.
        """
        if requests:
            await self._wait(_Order(requests, None))

    async def alone(self, work: Callable[[], T]) -> T:
        """Do something else with the model, between two passes. Raises what it raises."""
        return cast(T, await self._wait(_Order((), work)))

    async def _wait(self, order: _Order) -> Any:
        _worker.put(self._batch, order)
        try:
            return await order.future
        finally:
            order.abandon()
