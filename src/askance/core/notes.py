"""What a call met and went on from, told to whoever records the call.

Models and retrievers know no trace. What they note goes to each listener around the call, such as the
recorder that traces it and the command that shows it, however many wrappers and tasks lie between.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Notes = Callable[[str, str], None]
"""Takes a note: its name, such as "retry", and what there is to say, as a sentence."""

_listener: ContextVar[Notes | None] = ContextVar("askance_notes", default=None)


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
