"""`askance serve` in a separate process."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def serving(*options: str) -> Iterator[str]:
    """Start the server on a free port, yield its address once it can answer, and stop it at the end."""
    command = [sys.executable, "-m", "askance", "serve", "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            found = (re.search(r"serves (http://\S+)", line) for line in process.stdout)
            address = next(filter(None, found), None)
            assert address, "the server did not start"
            yield address[1]
        finally:
            process.terminate()
