"""Notes and activities: how a call reports a problem it recovered from, or work that takes a while.

Models, retrievers and indexes know neither the trace nor the screen. A note reaches every listener around the
call, such as the session that traces it and the command that prints it, through any number of wrappers and
tasks. An activity, such as converting weights, is displayed by the command line; other programs ignore it at
no cost.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

Notes = Callable[[str, str], None]
"""A listener, which receives the name of a note, such as "retry", and its text, a sentence."""
Advance = Callable[[float], None]
"""A function to call with the additional amount of work done, in the unit of the total."""
Shows = Callable[[str, float | None], AbstractContextManager[Advance]]
"""A display, which shows an activity while it lasts, given its description and total amount if known."""

_listener: ContextVar[Notes | None] = ContextVar("askance_notes", default=None)
_shows: ContextVar[Shows | None] = ContextVar("askance_activity", default=None)


def note(name: str, text: str) -> bool:
    """Send a note to the listeners around this call, and return whether there was one."""
    listener = _listener.get()
    if listener is not None:
        listener(name, text)
    return listener is not None


@contextmanager
def noted(listener: Notes) -> Iterator[None]:
    """Send the notes of calls inside the block to `listener`, and on to the listeners around it."""
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
        what: The description of the activity.
        total: The total amount of work in any unit, if it is known.

    Yields:
        A function to call with each amount of work done.
    """
    shows = _shows.get()
    with nullcontext(_ignore) if shows is None else shows(what, total) as advance:
        yield advance


@contextmanager
def shown_by(shows: Shows | None) -> Iterator[None]:
    """Display the activities of calls inside the block with `shows`; None displays nothing."""
    token = _shows.set(shows)
    try:
        yield
    finally:
        _shows.reset(token)


@contextmanager
def before_doing(begin: Callable[[], None]) -> Iterator[None]:
    """Call `begin` before each activity of calls inside the block is displayed."""
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
