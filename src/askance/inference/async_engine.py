"""The engine thread, which computes for all models: coroutines submit requests and await the results.

If each model had a separate thread, models on a CPU would compete for its cores: OpenMP keeps a team of
worker threads for each thread that computes, and with two teams every pass takes twice as long. Models on
several GPUs also take turns in the engine thread.
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
from askance.inference.engine import LLMEngine

T = TypeVar("T")


_Futures = dict[Request, asyncio.Future[None]]
"""The requests of an engine, each with the future that its coroutine awaits."""


class _EngineThread:
    """A daemon thread that runs the forward passes of all engines, and the queue of tasks for the thread."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start without a thread and without tasks.

        A forked process needs this, since it has neither the thread nor the coroutines of its parent process.
        """
        self._tasks = SimpleQueue[tuple[LLMEngine[Any], Callable[[_Futures], None]] | None]()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._is_closed = False
        self._callbacks = dict[asyncio.AbstractEventLoop, list[Callable[[], None]]]()

    def submit(self, engine: LLMEngine[Any], task: Callable[[_Futures], None]) -> None:
        """Queue a task for the thread to call between two passes.

        Args:
            task: A function that gets the pending requests of `engine` with their futures, and may add more.

        Raises:
            RuntimeError: The process is ending.
        """
        with self._lock:
            if self._is_closed:
                raise RuntimeError("the process is ending: models compute nothing any more")
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="askance", daemon=True)
                self._thread.start()
            self._tasks.put((engine, task))

    def close(self) -> None:
        """Stop the thread once its current pass is done. Killing it inside torch would crash the process."""
        with self._lock:
            self._is_closed = True
        self._tasks.put(None)
        if self._thread is not None:
            self._thread.join()

    def call_soon(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
        """Queue a callback for an event loop. The loop gets it before the thread's next pass."""
        self._callbacks.setdefault(loop, []).append(callback)

    def _run(self) -> None:
        """Run tasks and passes until the thread is closed.

        Only busy engines are referenced here, so that idle ones can be freed.
        """
        busy = dict[LLMEngine[Any], _Futures]()
        while not self._is_closed:
            self._advance(busy)
        self._wake_loops()

    def _advance(self, busy: dict[LLMEngine[Any], _Futures]) -> None:
        """Run the next task. If none is queued, run one pass of each busy engine, or wait if all are idle."""
        self._wake_loops()
        try:
            entry = self._tasks.get(block=not busy)
        except Empty:
            for engine, futures in list(busy.items()):
                self._wake_loops()  # the results of one engine do not wait for the pass of the next
                if _step(engine, futures):
                    del busy[engine]
            return
        if entry is not None:  # all requests that have arrived take part in the next pass
            engine, task = entry
            task(busy.setdefault(engine, {}))

    def _wake_loops(self) -> None:
        """Hand the queued callbacks to their event loops, in order.

        An event loop that wakes up takes the interpreter's lock, and this thread then has to wait for the
        lock. So all callbacks are handed over together, right before this thread waits for a task or computes
        a pass, which releases the lock.
        """
        scheduled, self._callbacks = self._callbacks, {}
        for loop, callbacks in scheduled.items():
            with suppress(RuntimeError):  # the loop is closed, so nobody is waiting
                loop.call_soon_threadsafe(_schedule_all, loop, callbacks)


def _schedule_all(loop: asyncio.AbstractEventLoop, callbacks: Sequence[Callable[[], None]]) -> None:
    for callback in callbacks:  # one by one, so that an error in one does not stop the rest
        loop.call_soon(callback)


def _step(engine: LLMEngine[Any], futures: _Futures) -> bool:
    """Compute a pass, resolve the futures of finished requests, and return whether the engine is idle."""
    try:
        finished = engine.step()
    except BaseException as error:  # an internal error: no coroutine must wait for ever
        for request, future in futures.items():
            request.is_abandoned = True
            _resolve(future, error=error)
        futures.clear()
        return engine.is_idle
    for request, failure in finished:
        if request in futures:  # an internal error may have failed it already
            _resolve(futures.pop(request), error=failure)
    return engine.is_idle


def _resolve(future: asyncio.Future[Any], result: Any = None, error: BaseException | None = None) -> None:
    """Set the result or the error of a future from the engine thread, unless the future is already done."""

    def resolve() -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        elif isinstance(error, StopIteration):  # a future does not accept this
            future.set_exception(RuntimeError(repr(error)))
        else:
            future.set_exception(error)

    call_soon(future.get_loop(), resolve)


_thread = _EngineThread()
call_soon = _thread.call_soon
atexit.register(_thread.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_thread.reset)


class AsyncLLMEngine:
    """An asynchronous interface to an engine, whose passes run in the engine thread.

    Coroutines of any event loop can use the interface.
    """

    def __init__(self, engine: LLMEngine[Any]) -> None:
        self._engine = engine

    async def run(self, requests: Sequence[Request]) -> None:
        """Run requests until all are finished.

        If the call is cancelled, the engine drops the requests before its next pass.

        Raises:
            Exception: The error of the first request that failed. All other requests are then dropped.
        """
        loop = asyncio.get_running_loop()
        new_futures: _Futures = {request: loop.create_future() for request in requests}

        def add_requests(futures: _Futures) -> None:
            futures.update(new_futures)
            for request in new_futures:
                self._engine.add_request(request)

        _thread.submit(self._engine, add_requests)
        try:
            await asyncio.gather(*new_futures.values())
        finally:
            for request in requests:
                request.is_abandoned = True

    async def run_exclusively(self, function: Callable[[], T]) -> T:
        """Call a function in the engine thread, between two passes, and return its result.

        Raises:
            BaseException: The error that the function raised.
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def call(futures: _Futures) -> None:
            if future.cancelled():
                return
            try:
                _resolve(future, function())
            except BaseException as error:  # raised again where the result is awaited
                _resolve(future, error=error)

        _thread.submit(self._engine, call)
        return await future
