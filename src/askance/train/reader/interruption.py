"""Ctrl-C while weights change: it waits until all of them have."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self


class Interrupted(KeyboardInterrupt):
    """A Ctrl-C, raised where everything is as it should be."""


class Interruption:
    """While it is entered, a first Ctrl-C is raised by `check` alone; a second one is raised at once.

    Signals reach the main thread only: elsewhere it does nothing.
    """

    def __init__(self) -> None:
        self._is_asked = False
        self._before: Any = None

    def check(self) -> None:
        """Raises Interrupted if Ctrl-C has been pressed."""
        if self._is_asked:
            raise Interrupted

    def __enter__(self) -> Self:
        self._is_asked = False
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._is_asked:
            raise KeyboardInterrupt
        self._is_asked = True
