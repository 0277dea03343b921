"""Interruptions from outside, and panics of extension modules written in other languages.

This module is separate from `errors` because it imports asyncio, which would slow down simple commands.
"""

from asyncio import CancelledError
from collections.abc import Iterator
from contextlib import contextmanager

INTERRUPTIONS = (KeyboardInterrupt, SystemExit, GeneratorExit, CancelledError)
"""The exceptions that end a program, a generator or a task from outside. They are always raised again.
Any other exception counts as a failure."""


@contextmanager
def panics_as(kind: type[Exception]) -> Iterator[None]:
    """Convert the panic of an extension module into an ordinary exception, which callers can handle.

    Args:
        kind: The type of exception to raise. Its message contains the panic's message.
    """
    try:
        yield
    except (Exception, *INTERRUPTIONS):
        raise
    except BaseException as error:
        raise kind(f"an extension panicked ({type(error).__name__}: {error})") from error
