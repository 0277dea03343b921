"""What a call met and went on from, told to whoever records the call.

Models and retrievers know no trace. What they note goes to the recorder around the call, however many
wrappers and tasks lie between, and nowhere if there is none.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Notes = Callable[[str, str], None]
"""Takes a note: its name, such as "retry", and what there is to say, as a sentence."""

_listener: ContextVar[Notes | None] = ContextVar("askance_notes", default=None)


def note(name: str, text: str) -> None:
    """Tell the recorder of this call."""
    listener = _listener.get()
    if listener is not None:
        listener(name, text)


@contextmanager
def noted(listener: Notes) -> Iterator[None]:
    """Give `listener` what calls inside note."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
