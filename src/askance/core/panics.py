"""What ends a program from outside, and panics of extensions written in other languages.

It stands apart from the errors since it imports asyncio, which a command that only prints does without.
"""

from asyncio import CancelledError
from collections.abc import Iterator
from contextlib import contextmanager

INTERRUPTIONS = (KeyboardInterrupt, SystemExit, GeneratorExit, CancelledError)
"""What ends a program, a generator or a task from outside, and is always passed on. Any other exception is a
failure."""


@contextmanager
def panics_as(kind: type[Exception]) -> Iterator[None]:
    """Turn the panic of an extension into an ordinary exception, so that whoever handles those handles it.

    Raises:
        kind: an extension panicked; the message holds the panic's own.
    """
    try:
        yield
    except (Exception, *INTERRUPTIONS):
        raise
    except BaseException as error:
        raise kind(f"an extension panicked ({type(error).__name__}: {error})") from error
