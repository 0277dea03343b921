"""One thread owns the model: coroutines bring their sequences to it, and wait."""

import asyncio
import atexit
import threading
import weakref
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, TypeVar, cast

from askance.runtime.batch import Batch, Request

T = TypeVar("T")


class _Order:
    """What somebody waits for: sequences to be computed beside others, or work to be done between passes."""

    def __init__(self, requests: Sequence[Request], work: Callable[[], Any] | None) -> None:
        self.requests, self.work, self.num_left = requests, work, len(requests)
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self._loop.create_future()

    def end(self, result: Any = None, error: BaseException | None = None) -> None:
        """Tell who waits, from another thread; the first time counts."""
        try:
            self._loop.call_soon_threadsafe(self._set, result, error)
        except RuntimeError:  # its loop is closed: nobody waits any more
            self.abandon()

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
        else:
            self.future.set_exception(error)


_orders_by_worker = weakref.WeakKeyDictionary[threading.Thread, "SimpleQueue[_Order | None]"]()


@atexit.register
def _leave() -> None:
    """Let every worker end its pass: a thread that is cut off inside torch takes the process down with it."""
    for worker, orders in list(_orders_by_worker.items()):
        orders.put(None)
        if worker.is_alive():
            worker.join()


class Scheduler:
    """A thread that computes what coroutines of any event loop bring, in the order in which they bring it."""

    def __init__(self, batch: Batch[Any, Any], name: str) -> None:
        self._orders: SimpleQueue[_Order | None] = SimpleQueue()
        worker = threading.Thread(target=_serve, args=(batch, self._orders), name=name, daemon=True)
        self._worker, self._starting = worker, threading.Lock()
        _orders_by_worker[worker] = self._orders
        weakref.finalize(self, self._orders.put, None)

    async def compute(self, requests: Sequence[Request]) -> None:
        """Compute sequences to their ends. Cancelling this abandons them, within one pass.

        Raises:
            Exception: what stopped the first of them that was stopped; the others are abandoned.
        """
        if not requests:
            return
        await self._wait(_Order(requests, None))

    async def alone(self, work: Callable[[], T]) -> T:
        """Do something else with the model, between two passes. Raises what it raises."""
        return cast(T, await self._wait(_Order((), work)))

    async def _wait(self, order: _Order) -> Any:
        with self._starting:
            if self._worker.ident is None:
                self._worker.start()
        self._orders.put(order)
        try:
            return await order.future
        finally:
            order.abandon()


def _serve(batch: Batch[Any, Any], orders: "SimpleQueue[_Order | None]") -> None:
    """The thread. It must not know the scheduler, since it ends with it."""
    asked = dict[Request, _Order]()
    while True:
        try:
            order = orders.get(block=batch.is_idle)
        except Empty:
            _step(batch, asked)
            continue
        if order is None:
            return
        _begin(batch, order, asked)  # all that has come takes part in the next pass


def _begin(batch: Batch[Any, Any], order: _Order, asked: dict[Request, _Order]) -> None:
    for request in order.requests:
        asked[request] = order
        batch.put(request)
    work = order.work
    if work is not None:
        try:
            order.end(work())
        except Exception as error:  # raised again where the work is awaited
            order.end(error=error)


def _step(batch: Batch[Any, Any], asked: dict[Request, _Order]) -> None:
    try:
        over = batch.step()
    except Exception as error:  # a fault of ours: nobody must wait for ever
        for each in asked.values():
            each.end(error=error)
            each.abandon()
        asked.clear()
        return
    for request, stopped in over:
        order = asked.pop(request, None)
        if order is None:  # it had a part in such a fault
            continue
        order.num_left -= 1
        if stopped is not None:
            order.end(error=stopped)
            order.abandon()
        elif not order.num_left:
            order.end()
