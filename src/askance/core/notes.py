"""Reports from calls: notes on problems that a call recovered from, and activities that take a while.

Models, retrievers and indexes know neither the trace nor the screen. A note passes through any number of
wrappers and tasks to every listener around the call, such as a session that traces notes and a command that
prints them. An activity, such as converting weights, is displayed by the command line. Other programs
ignore activities at no cost.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

Notes = Callable[[str, str], None]
"""A listener that is called with the name of a note, such as "retry", and its text, which is one sentence."""
Advance = Callable[[float], None]
"""A function that is called with the amount of work done since the last call, in the unit of the total."""
Shows = Callable[[str, float | None], AbstractContextManager[Advance]]
"""A function that displays an activity while it lasts. It takes the activity's description, and the total
amount of work, or None if that is unknown."""

_listener: ContextVar[Notes | None] = ContextVar("askance_notes", default=None)
_shows: ContextVar[Shows | None] = ContextVar("askance_activity", default=None)


def note(name: str, text: str) -> bool:
    """Send a note to the listeners around this call, and return whether there was a listener."""
    listener = _listener.get()
    if listener is not None:
        listener(name, text)
    return listener is not None


@contextmanager
def noted(listener: Notes) -> Iterator[None]:
    """Send the notes of calls inside the block to `listener`, and then to the outer listeners."""
    outer = _listener.get()

    def notify(name: str, text: str) -> None:
        listener(name, text)
        if outer is not None:
            outer(name, text)

    token = _listener.set(notify)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def doing(what: str, total: float | None = None) -> Iterator[Advance]:
    """Display the work inside the block as an activity, such as "loading the model bundled".

    Args:
        total: The total amount of work in any unit, if it is known.

    Yields:
        A function to call with each amount of work done.
    """
    shows = _shows.get()
    with nullcontext(_ignore) if shows is None else shows(what, total) as advance:
        yield advance


@contextmanager
def shown_by(shows: Shows | None) -> Iterator[None]:
    """Display the activities of calls inside the block with `shows`. If `shows` is None, display nothing."""
    token = _shows.set(shows)
    try:
        yield
    finally:
        _shows.reset(token)


@contextmanager
def before_doing(begin: Callable[[], None]) -> Iterator[None]:
    """Call `begin` each time before an activity inside the block is displayed."""
    outer = _shows.get()

    @contextmanager
    def shows(what: str, total: float | None) -> Iterator[Advance]:
        begin()
        with nullcontext(_ignore) if outer is None else outer(what, total) as advance:
            yield advance

    with shown_by(shows):
        yield


def _ignore(amount: float) -> None:
    pass
