"""Reports from calls: notes on problems that a call recovered from, and activities that take a while.

Models, retrievers and indexes know neither the trace nor the screen. A note passes through any number of
wrappers and tasks to every listener around the call, such as a session that traces notes and a command that
prints them. An activity, such as converting weights, is displayed by the command line. Other programs
ignore activities at no cost.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")
Notes = Callable[[str, str], None]
"""A listener that is called with the name of a note, such as "retry", and its text, which is one sentence."""
Advance = Callable[[float], None]
"""A function that is called with the amount of work done since the last call, in the unit of the total."""
Shows = Callable[[str, float | None], AbstractContextManager[Advance]]
"""A function that displays an activity while it lasts. It takes the activity's description, and the total
amount of work, or None if that is unknown."""


@contextmanager
def bound(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Set a context variable to `value` inside the block."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def _show_nothing(what: str, total: float | None) -> AbstractContextManager[Advance]:
    return nullcontext(lambda amount: None)


_listener: ContextVar[Notes | None] = ContextVar("askance_notes", default=None)
_shows: ContextVar[Shows] = ContextVar("askance_activity", default=_show_nothing)


def note(name: str, text: str) -> bool:
    """Send a note to the listeners around this call, and return whether there was a listener."""
    listener = _listener.get()
    if listener is not None:
        listener(name, text)
    return listener is not None


def noted(listener: Notes) -> AbstractContextManager[None]:
    """Send the notes of calls inside the block to `listener`, and then to the outer listeners."""
    outer = _listener.get()

    def notify(name: str, text: str) -> None:
        listener(name, text)
        if outer is not None:
            outer(name, text)

    return bound(_listener, notify)


def doing(what: str, total: float | None = None) -> AbstractContextManager[Advance]:
    """Display the work inside the block as an activity, such as "loading the model bundled".

    Args:
        total: The total amount of work in any unit, if it is known.

    Returns:
        A context manager that yields a function to call with each amount of work done.
    """
    return _shows.get()(what, total)


def shown_by(shows: Shows | None) -> AbstractContextManager[None]:
    """Display the activities of calls inside the block with `shows`. If `shows` is None, display nothing."""
    return bound(_shows, shows or _show_nothing)


def before_doing(begin: Callable[[], None]) -> AbstractContextManager[None]:
    """Call `begin` each time before an activity inside the block is displayed."""
    outer = _shows.get()

    def shows(what: str, total: float | None) -> AbstractContextManager[Advance]:
        begin()
        return outer(what, total)

    return shown_by(shows)
