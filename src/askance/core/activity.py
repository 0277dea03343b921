"""What takes longer than a moment, told to whoever shows it.

Models, encoders and indexes know no screen. They say what they are doing, such as converting weights; a
command shows that, and a program that shows nothing pays nothing for it.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

Advance = Callable[[float], None]
"""Takes how much more of the work is done, in the unit of its total."""
Shows = Callable[[str, float | None], AbstractContextManager[Advance]]
"""Shows what is being done for as long as it takes: what, and how much there is to do, where that is known."""

_shows: ContextVar[Shows | None] = ContextVar("askance_activity", default=None)


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


def _unheard(amount: float) -> None:
    pass
