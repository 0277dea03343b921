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
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from askance.inference.backend import Request
from askance.inference.batch import Batch

T = TypeVar("T")


_Orders = dict[Request, asyncio.Future[None]]
"""What is to be computed, each with the future of who waits for it."""


class _Worker:
    """The thread, and what it is asked for."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """With nothing. In the child of a fork, too: it has neither the thread nor who waits for it."""
        self._asked = SimpleQueue[tuple[Batch[Any], Callable[[_Orders], None]] | None]()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._is_left = False
        self._told = dict[asyncio.AbstractEventLoop, list[Callable[[], None]]]()

    def put(self, batch: Batch[Any], begin: Callable[[_Orders], None]) -> None:
        """Have `begin` called in its turn, with what is being computed in a batch.

        Raises:
            RuntimeError: the process is ending.
        """
        with self._lock:
            if self._is_left:
                raise RuntimeError("the process is ending: models compute nothing any more")
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="askance", daemon=True)
                self._thread.start()
            self._asked.put((batch, begin))

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
        """Begin what was asked for; where there is nothing, compute a pass of each batch."""
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
            batch, begin = found
            begin(at_work.setdefault(batch, {}))

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


def _step(batch: Batch[Any], orders: _Orders) -> bool:
    """Compute a pass, and tell whose sequences are over. Whether there is nothing more to do."""
    try:
        over = batch.step()
    except BaseException as error:  # a fault of ours: nobody must wait for ever
        for request, future in orders.items():
            request.is_abandoned = True
            _settle(future, error=error)
        orders.clear()
        return batch.is_idle
    for request, stopped in over:
        if request in orders:  # it may have had a part in such a fault
            _settle(orders.pop(request), error=stopped)
    return batch.is_idle


def _settle(future: asyncio.Future[Any], result: Any = None, error: BaseException | None = None) -> None:
    """Tell who waits, from the thread that computes; the first time counts."""

    def settle() -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        elif isinstance(error, StopIteration):  # which a future does not take
            future.set_exception(RuntimeError(repr(error)))
        else:
            future.set_exception(error)

    tell(future.get_loop(), settle)


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
        loop = asyncio.get_running_loop()
        futures: _Orders = {request: loop.create_future() for request in requests}

        def begin(orders: _Orders) -> None:
            orders.update(futures)
            for request in futures:
                self._batch.put(request)

        _worker.put(self._batch, begin)
        try:
            await asyncio.gather(*futures.values())
        finally:
            for request in requests:
                request.is_abandoned = True

    async def alone(self, work: Callable[[], T]) -> T:
        """Do something else with the model, between two passes. Raises what it raises."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def begin(orders: _Orders) -> None:
            if future.cancelled():
                return
            try:
                _settle(future, work())
            except BaseException as error:  # raised again where the work is awaited
                _settle(future, error=error)

        _worker.put(self._batch, begin)
        return await future
