"""What a call has to tell whoever listens: what it met and went on from, and what takes longer than a moment.

Models, retrievers and indexes know no trace and no screen. What they note goes to each listener around the
call, such as the recorder that traces it and the command that shows it, however many wrappers and tasks lie
between. What they are doing, such as converting weights, is shown by a command; a program that shows nothing
pays nothing for it.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

Notes = Callable[[str, str], None]
"""Takes a note: its name, such as "retry", and what there is to say, as a sentence."""
Advance = Callable[[float], None]
"""Takes how much more of the work is done, in the unit of its total."""
Shows = Callable[[str, float | None], AbstractContextManager[Advance]]
"""Shows what is being done while it is: what, and how much there is to do, where that is known."""

_listener: ContextVar[Notes | None] = ContextVar("askance_notes", default=None)
_shows: ContextVar[Shows | None] = ContextVar("askance_activity", default=None)


def note(name: str, text: str) -> bool:
    """Tell the listeners around this call, and whether there was any."""
    listener = _listener.get()
    if listener is not None:
        listener(name, text)
    return listener is not None


@contextmanager
def noted(listener: Notes) -> Iterator[None]:
    """Give `listener`, and those around it, what calls inside note."""
    outer = _listener.get()

    def tell(name: str, text: str) -> None:
        listener(name, text)
        if outer is not None:
            outer(name, text)

    token = _listener.set(tell)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def doing(what: str, total: float | None = None) -> Iterator[Advance]:
    """Say what is done inside, such as "loading the model bundled".

    Args:
        total: how much there is to do, in any unit, for work that calls what it is given with each part done.
    """
    shows = _shows.get()
    with nullcontext(_unheard) if shows is None else shows(what, total) as advance:
        yield advance


@contextmanager
def shown_by(shows: Shows | None) -> Iterator[None]:
    """Give `shows` what calls inside are doing; with None nothing is shown."""
    token = _shows.set(shows)
    try:
        yield
    finally:
        _shows.reset(token)


@contextmanager
def before_doing(begin: Callable[[], None]) -> Iterator[None]:
    """Call `begin` before anything is shown of what calls inside are doing."""
    outer = _shows.get()

    @contextmanager
    def shows(what: str, total: float | None) -> Iterator[Advance]:
        begin()
        with nullcontext(_unheard) if outer is None else outer(what, total) as advance:
            yield advance

    with shown_by(shows):
        yield


def _unheard(amount: float) -> None:
    pass
